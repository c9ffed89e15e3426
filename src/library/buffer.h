/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growable buffers of gpumem.h, for the preload and for the library without it.
 *
 *     addresses  |--- part ---|--- part ---|-- part --|......................|   reserved once
 *                |======== size ========|                                    |
 *                |------------- capacity -------------|                      most
 *
 * A part is a loan of the device's pool, or one handle of host memory. A growth adds a part behind
 * the last one: it copies no byte and touches no earlier part, so kernels may use the buffer
 * meanwhile. Parts are returned from the end, after a fence of the buffer's context. After the
 * vector of M. Suresh, Dynamically Determined Output Space for SpGEMM Using GPU Virtual Memory
 * Management (master thesis, UC Davis, 2023), chapter 3; there, addresses may change.
 *
 * Calls on one buffer are made one after the other, by any thread, with no lock held.
 */
#ifndef GM_LIBRARY_BUFFER_H
#define GM_LIBRARY_BUFFER_H

#include "context/context.h"
#include "pool/pool.h"

struct gm_buffer;

struct gm_buffer_config {
	const struct gm_driver *driver;
	struct gm_pool *pool;
	struct gm_context *context; /* shrinking waits for the work of this context */
	bool host;		    /* host memory */
	uint64_t most; /* bytes, rounded up to 2 MiB; 0: all memory of the device, or of the host */
	/* A growth lacks memory of this device: make others return theirs. */
	void (*reclaim)(unsigned ordinal);
};

struct gm_buffer_figures {
	CUdeviceptr data;
	uint64_t size, capacity, most;
};

/*
 * Reserve the addresses; maps no memory. On success the caller owns *out until gm_buffer_destroy.
 * CUDA_ERROR_NOT_SUPPORTED: host memory before CUDA 12.2; OUT_OF_MEMORY: no addresses, or no host
 * memory for the struct.
 */
CUresult gm_buffer_create(const struct gm_buffer_config *config, struct gm_buffer **out);

/* Raise the capacity to `bytes`, rounded up to 2 MiB; after an error it is unchanged.
 * OUT_OF_MEMORY: no memory, even after others have returned theirs, which waits for retired blocks;
 * or `bytes` is more than `most`. */
CUresult gm_buffer_reserve(struct gm_buffer *buffer, uint64_t bytes);

/* Set the size. If more has to be mapped, the capacity grows by an eighth, at most 256 MiB ahead,
 * if there is memory for that. New bytes have any value. Errors of reserve; the size is then
 * unchanged. */
CUresult gm_buffer_resize(struct gm_buffer *buffer, uint64_t size);

/*
 * gm_buffer_insert adds `bytes` at offset `at`, gm_buffer_erase removes them. The bytes behind move
 * by copies on `stream`, a stream of the buffer's device. `source` (0: the new bytes have any
 * value) is memory of a device or of the host, and does not lie in the buffer behind `at`. Errors:
 * of resize, nothing has changed; of a copy, the bytes behind `at` have any value; INVALID_VALUE,
 * outside of the size. After an error the size is what it was.
 */
CUresult gm_buffer_insert(struct gm_buffer *buffer, uint64_t at, CUdeviceptr source, uint64_t bytes,
			  CUstream stream);
CUresult gm_buffer_erase(struct gm_buffer *buffer, uint64_t at, uint64_t bytes, CUstream stream);

/* Wait for the work of the context. Then shrink returns the parts that lie wholly behind the size;
 * destroy returns all parts and the addresses. NOT_READY: a capture is open, so that a wait is
 * impossible; nothing has changed. An error of the driver: some parts remain, and the buffer with
 * them. */
CUresult gm_buffer_shrink(struct gm_buffer *buffer);
CUresult gm_buffer_destroy(struct gm_buffer *buffer);

/* The figures after the last call. */
void gm_buffer_figures(const struct gm_buffer *buffer, struct gm_buffer_figures *out);

#endif
