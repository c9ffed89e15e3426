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

/*
 * Heaps that kernels allocate from: gpumem_device(3), whose gpumem_device.cuh has what kernels
 * call. A heap belongs to one context and must be destroyed, with it or after it at the latest.
 */
struct gpumem_heap; /* the host's handle */
struct gm_heap;	    /* the heap itself, on the device: what kernels are given */

/* It only grows at its end. Bytes, but for the counts. */
struct gpumem_heap_stats {
	size_t size; /* in: sizeof this; out: how much of that was filled in */
	uint64_t limit;
	uint64_t mapped;	/* in chunks, which are borrowed from the pool of the device */
	uint64_t chunks;	/* number of them */
	uint64_t own;		/* mapped besides, for the heap's own books */
	uint64_t grown;		/* chunks that came, from the beginning */
	uint64_t shrunk;	/* and went */
	uint64_t used;		/* in granules of 2 MiB that hold something */
	uint64_t live;		/* in allocations, as rounded up */
	uint64_t nulls;		/* allocations that got NULL */
	uint64_t foreign_frees; /* frees of what was no allocation of the heap */
};

/*
 * Make a heap in the current context of `device`, or else in its primary one, that may map `limit`
 * bytes (0, or more than that: what GPUMEM_HEAP_LIMIT says). Waits for kernels of its own. Returns
 * 0, or a CUresult, after one line on standard error: CUDA_ERROR_NOT_SUPPORTED (801) where there
 * are no heaps.
 */
int gpumem_heap_create(int device, size_t limit, struct gpumem_heap **heap);

/* Waits for the work of its context. NULL does nothing. */
void gpumem_heap_destroy(struct gpumem_heap *heap);

/* The heap for kernels of its context; constant. */
struct gm_heap *gpumem_heap_device(const struct gpumem_heap *heap);

/*
 * Around each launch of a kernel that allocates from the heap or frees to it: only between them,
 * and until that kernel has ended, does the heap grow. `stream` is that of the launch; the heap's
 * context is current. Not in a stream capture: there it goes around the launch of the graph.
 */
void gpumem_heap_begin(struct gpumem_heap *heap, struct CUstream_st *stream);
void gpumem_heap_end(struct gpumem_heap *heap, struct CUstream_st *stream);

/* Give what holds nothing back to the pool, all but the first chunk: waits for the work of the
 * context. Returns the bytes; 0 while such kernels are running. */
uint64_t gpumem_heap_trim(struct gpumem_heap *heap);

/* Figures. Returns 0; CUDA_ERROR_NOT_READY (600): such kernels are running, and `used` and what
 * comes after it is as it was last time; CUDA_ERROR_INVALID_VALUE (1) as in gpumem_stats. */
int gpumem_heap_stats(struct gpumem_heap *heap, struct gpumem_heap_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
