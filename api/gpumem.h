/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpumem's pool of device memory, for programs that ask for it: gpumem(3), link with -lgpumem-core.
 *
 * Under LD_PRELOAD=libgpumem.so every call here lands in the preload's one pool of the device,
 * beside the program's cudaMalloc. Without it the library finds libcuda.so.1 itself, at the first
 * call, and has pools of its own.
 *
 * Any thread may call anything at any time. Sizes are bytes. `device` is the ordinal that CUDA
 * gives it. Memory is owned by the context current to the calling thread if that is one of
 * `device`; else by the one that the stream is of, else by the device's primary context, which is
 * retained for that and stays the process's. Nothing here changes what is current, and nothing ends
 * the process. Where the device cannot be had, allocations answer NULL.
 */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cudaStream_t and CUstream are pointers to this. */
struct CUstream_st;

/* What the pool of a device holds; gpumem-log(5) defines every figure but `kept`. It only grows at
 * its end. */
struct gpumem_stats {
	size_t size;	     /* in: sizeof this; out: how much of that was filled in */
	uint64_t requested;  /* in blocks in use, as asked for; kept ones are in use here */
	uint64_t handed_out; /* the same, as rounded up */
	uint64_t mapped;     /* handed_out + idle + retired */
	uint64_t idle;
	uint64_t retired;
	uint64_t kept; /* of handed_out: freed on a stream, and waiting for an allocation there */
	uint64_t largest_idle;
	uint64_t unreclaimable;
	uint64_t live_blocks;
	uint64_t requested_peak;
	uint64_t mapped_peak;
};

/*
 * Figures of a device's pool, taken at one moment but for `kept`; all 0 where it has none yet.
 * Returns 0, or a CUresult: CUDA_ERROR_INVALID_VALUE (1) if stats is NULL or its size does not
 * reach beyond `size`, CUDA_ERROR_INVALID_DEVICE (101) if there is no such device,
 * CUDA_ERROR_NO_DEVICE (100) if there is no driver.
 */
int gpumem_stats(int device, struct gpumem_stats *stats);

/*
 * Give all memory that is not in use back to the driver, on every device: waits for the work of
 * what was freed. Returns the bytes given back.
 */
uint64_t gpumem_trim(void);

/*
 * Put a mark with this text, which is copied, into the log's events (GPUMEM_LOG=events). Returns 1;
 * 0: there is no such log, as there is none without the preload.
 */
int gpumem_mark(const char *text);

/*
 * A block that is used on `stream` (NULL: the legacy default stream) or ordered after it; of size
 * 0: NULL. 512-byte aligned. NULL too when memory is lacking, after everything idle was given back.
 * What was freed on the same stream is reused at once. Of the shape that
 * torch.cuda.memory.CUDAPluggableAllocator takes.
 */
void *gpumem_torch_alloc(ssize_t size, int device, struct CUstream_st *stream);

/*
 * Free a block, which nothing uses any more but what was queued on `stream` before: never waits,
 * unless more is kept than the library keeps. NULL does nothing. `size` is ignored. What is no
 * block in use is left alone, and said on standard error once.
 */
void gpumem_torch_free(void *block, ssize_t size, int device, struct CUstream_st *stream);

/*
 * The same in the shape of cupy.cuda.CFunctionAllocator(param, malloc, free, owner). `stream` is
 * its `param`: the stream that the allocator is for (1: the legacy default stream, 2: the
 * thread's). NULL: memory for any stream, whose free waits for the work of its context, as cudaFree
 * does.
 */
void *gpumem_cupy_malloc(void *stream, size_t size, int device);
void gpumem_cupy_free(void *stream, void *block, int device);

#ifdef __cplusplus
}
#endif

#endif
