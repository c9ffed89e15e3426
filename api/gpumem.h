/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpumem's pool of device memory, for programs that call it: gpumem(3), link with -lgpumem-core.
 *
 * Under LD_PRELOAD=libgpumem.so every call uses the preload's one pool of the device, which also
 * serves the program's cudaMalloc. Without the preload the library loads libcuda.so.1 at the first
 * call, and has pools of its own.
 *
 * Any thread may call any function at any time. Sizes are bytes. `device` is CUDA's ordinal. Memory
 * is owned by the context current to the calling thread if that is one of `device`; else by the
 * context of the stream; else by the device's primary context, which is then retained for the life
 * of the process. No function changes the current context, and none ends the process. If the device
 * cannot be used, allocations return NULL.
 */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cudaStream_t and CUstream are pointers to this. */
struct CUstream_st;

/* The memory of a device's pool; gpumem-log(5) defines every figure but `kept`. New members are
 * only added at the end. */
struct gpumem_stats {
	size_t size;	     /* in: sizeof this; out: bytes of it that were filled in */
	uint64_t requested;  /* requested bytes of blocks in use, kept ones included */
	uint64_t handed_out; /* the same, rounded up */
	uint64_t mapped;     /* handed_out + idle + retired */
	uint64_t idle;
	uint64_t retired;
	uint64_t kept; /* part of handed_out: freed on a stream, for the next allocation there */
	uint64_t largest_idle;
	uint64_t unreclaimable;
	uint64_t live_blocks;
	uint64_t requested_peak;
	uint64_t mapped_peak;
};

/*
 * Figures of a device's pool, all but `kept` taken at one moment; all 0 if it has no pool yet.
 * Returns 0, or a CUresult: CUDA_ERROR_INVALID_VALUE (1) if stats is NULL or its size does not
 * exceed the member `size`, CUDA_ERROR_INVALID_DEVICE (101) if there is no such device,
 * CUDA_ERROR_NO_DEVICE (100) if there is no driver.
 */
int gpumem_stats(int device, struct gpumem_stats *stats);

/*
 * Return all unused memory to the driver, on every device. Waits for the GPU to finish with freed
 * memory. Returns the bytes.
 */
uint64_t gpumem_trim(void);

/*
 * Put a mark with a copy of this text into the log's events (GPUMEM_LOG=events). Returns 1; 0: no
 * such log, as always without the preload.
 */
int gpumem_mark(const char *text);

/*
 * Put this process to sleep (GPUMEM_SLEEP): move the contents of its pools off the devices, until
 * the next call of any thread that needs them. Or wake it before that. Both return when the move is
 * done. Returns 0, as for a process that is asleep, or awake, already; or a CUresult:
 * CUDA_ERROR_OUT_OF_MEMORY (2): host memory does not suffice, or device memory for the wake;
 * CUDA_ERROR_NOT_INITIALIZED (3): in a child of fork; CUDA_ERROR_DEINITIALIZED (4): the process
 * ends; CUDA_ERROR_NO_DEVICE (100): no driver; CUDA_ERROR_NOT_READY (600): the GPU is at work, a
 * stream capture is open, or another call that submits work does not return;
 * CUDA_ERROR_NOT_SUPPORTED (801): no preload, no GPUMEM_SLEEP, or something in the process forbids
 * it; CUDA_ERROR_UNKNOWN (999): a call of the driver failed, or the folder of GPUMEM_SLEEP_STORE.
 */
int gpumem_sleep(void);
int gpumem_wake(void);

/*
 * A block for use on `stream`, or ordered after it: a cudaStream_t; (void *)1: the legacy default
 * stream, 2: the thread's. 512-byte aligned. Memory freed on the same stream is reused at once.
 * With `stream` NULL the block is for any stream. Returns NULL if the size is 0, or memory is
 * lacking even after all idle memory was returned to the driver.
 *
 * The signatures are those of cupy.cuda.CFunctionAllocator(param, malloc, free, owner). gpumem(3)
 * has an allocator for PyTorch in terms of these functions.
 */
void *gpumem_cupy_malloc(void *stream, size_t size, int device);

/*
 * Free a block that is used only by work queued earlier on `stream`. Never waits if the driver has
 * cuStreamGetId (12.0). With `stream` NULL it waits for the work of its context, like cudaFree. A
 * block of NULL does nothing. An invalid free does nothing; the first one is reported on standard
 * error.
 */
void gpumem_cupy_free(void *stream, void *block, int device);

/*
 * Heaps for allocation in kernels: gpumem_device(3); gpumem_device.cuh has the functions for
 * kernels. A heap belongs to one context. It must be destroyed, before or after its context.
 */
struct gpumem_heap; /* the host's handle */
struct gm_heap;	    /* the heap itself, on the device: an argument of kernels */

/* Members are bytes unless marked as counts. New members are only added at the end. */
struct gpumem_heap_stats {
	size_t size; /* in: sizeof this; out: bytes of it that were filled in */
	uint64_t limit;
	uint64_t mapped;	/* in chunks lent by the device's pool */
	uint64_t chunks;	/* count */
	uint64_t own;		/* mapped in addition, for the heap's bookkeeping */
	uint64_t grown;		/* count of chunks added, in total */
	uint64_t shrunk;	/* count of chunks returned to the pool, in total */
	uint64_t used;		/* in granules of 2 MiB that are not empty */
	uint64_t live;		/* in allocations, rounded up */
	uint64_t nulls;		/* count of allocations that returned NULL */
	uint64_t foreign_frees; /* count of frees of no allocation of the heap */
};

/*
 * Make a heap in the current context of `device`, or else in its primary context. It may map up to
 * `limit` bytes, at most GPUMEM_HEAP_LIMIT; 0: GPUMEM_HEAP_LIMIT. Waits for its own kernels.
 * Returns 0, or a CUresult after one line on standard error: CUDA_ERROR_NOT_SUPPORTED (801) if
 * heaps are not available.
 */
int gpumem_heap_create(int device, size_t limit, struct gpumem_heap **heap);

/* Waits for the work of its context. NULL does nothing. */
void gpumem_heap_destroy(struct gpumem_heap *heap);

/* The heap on the device, for kernels of its context; constant. */
struct gm_heap *gpumem_heap_device(const struct gpumem_heap *heap);

/*
 * Call these around each launch of a kernel that allocates from the heap or frees to it. The heap
 * grows only from `begin` until that kernel has ended. `stream` is that of the launch; the heap's
 * context is current. Not in a stream capture: call them around the launch of the graph.
 */
void gpumem_heap_begin(struct gpumem_heap *heap, struct CUstream_st *stream);
void gpumem_heap_end(struct gpumem_heap *heap, struct CUstream_st *stream);

/* Return empty chunks, except the first, to the pool. Waits for the work of the context. Returns
 * the bytes; 0 while kernels that use the heap are running. */
uint64_t gpumem_heap_trim(struct gpumem_heap *heap);

/* Figures of a heap. Returns 0; CUDA_ERROR_NOT_READY (600): kernels that use the heap are running,
 * and `used` and later members have their last values; CUDA_ERROR_INVALID_VALUE (1) as in
 * gpumem_stats. */
int gpumem_heap_stats(struct gpumem_heap *heap, struct gpumem_heap_stats *stats);

/*
 * Growable buffers: a run of bytes with a constant address. Growth copies nothing, and maps only
 * new memory, in parts of 2 MiB or more, while kernels may use the existing bytes. Device memory
 * comes from the device's pool; no other device has access to it. Host memory is pinned, and
 * accessible to the host and to the device; it needs CUDA 12.2. gpumem_vector.hpp has C++ classes.
 *
 * Calls on one buffer must not overlap, except those that return its figures. Results are 0 or a
 * CUresult: CUDA_ERROR_OUT_OF_MEMORY (2): nothing has changed; CUDA_ERROR_INVALID_VALUE (1): a
 * NULL, or an offset outside the size; CUDA_ERROR_NOT_INITIALIZED (3): in a child of fork.
 */
struct gpumem_buffer;

enum gpumem_memory { GPUMEM_MEMORY_DEVICE, GPUMEM_MEMORY_HOST };

/*
 * Reserve addresses for `most` bytes; 0: for all memory of the device, or of the host. No memory is
 * mapped yet, and the size is 0. The buffer belongs to the context of the call, and must be
 * destroyed. CUDA_ERROR_NOT_SUPPORTED (801): this driver has no such memory.
 */
int gpumem_buffer_create(int device, enum gpumem_memory memory, size_t most,
			 struct gpumem_buffer **buffer);

/* Wait for the work of the buffer's context, and free it; NULL does nothing.
 * CUDA_ERROR_NOT_READY (600): a stream capture is open there, and the buffer remains. */
int gpumem_buffer_destroy(struct gpumem_buffer *buffer);

/* The address, the same from create to destroy; bytes in use; bytes mapped. */
void *gpumem_buffer_data(const struct gpumem_buffer *buffer);
size_t gpumem_buffer_size(const struct gpumem_buffer *buffer);
size_t gpumem_buffer_capacity(const struct gpumem_buffer *buffer);

/* Map memory for `bytes`, if less is mapped. */
int gpumem_buffer_reserve(struct gpumem_buffer *buffer, size_t bytes);

/* Set the size; new bytes are undefined. If more has to be mapped, the capacity grows by an eighth,
 * at most by 256 MiB, if there is memory for that, else by the shortfall. The capacity never
 * shrinks here. Resize and reserve wait for the GPU only if memory is lacking, for freed memory. */
int gpumem_buffer_resize(struct gpumem_buffer *buffer, size_t size);

/*
 * Add `bytes` at the end, or insert them at offset `at`, by copies that are queued on `stream`
 * (NULL: the legacy default stream) of the device. `from` is memory of the host or of a device,
 * which must stay until the copies are done; NULL: the new bytes are undefined. `from` must not lie
 * in the buffer behind `at`. After a failed copy the size is unchanged, and the bytes behind `at`
 * are undefined.
 */
int gpumem_buffer_append(struct gpumem_buffer *buffer, const void *from, size_t bytes,
			 struct CUstream_st *stream);
int gpumem_buffer_insert(struct gpumem_buffer *buffer, size_t at, const void *from, size_t bytes,
			 struct CUstream_st *stream);

/* Remove `bytes` at offset `at`; later bytes move, by copies queued on `stream`. */
int gpumem_buffer_erase(struct gpumem_buffer *buffer, size_t at, size_t bytes,
			struct CUstream_st *stream);

/* Return memory behind the size to the pool, in whole parts as growth has mapped them. Waits like
 * destroy. */
int gpumem_buffer_shrink(struct gpumem_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
