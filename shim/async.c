/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered memory and its pools. It belongs to no context: it outlives the one in which it
 * was allocated, and even a reset of the device (measured on driver 580).
 */
#include "foreign.h"

#define PLAIN(stream) (stream)
#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* In a stream that is being captured the call has made a node of the graph. */
static void add(struct gm_foreign *f, CUdeviceptr at, size_t size, CUstream stream)
{
	f->key = at;
	f->space = GM_SPACE_DEVICE;
	f->size = size;
	if (gm_graph_captured(stream, &f->group))
		f->kind = GM_FOREIGN_GRAPH;
	gm_foreign_add(f);
}

/* From the current pool of the stream's device. */
static void from_device(CUdeviceptr at, size_t size, CUstream stream)
{
	const struct gm_context *context = gm_shim_context_of_stream(stream);
	struct gm_foreign f = {.kind = GM_FOREIGN_ASYNC};
	if (!context)
		return;
	f.ordinal = context->ordinal;
	add(&f, at, size, stream);
}

/* A pool may lie on another device than the stream, or in host memory. */
static void from_pool(CUdeviceptr at, size_t size, CUstream stream)
{
	int ordinal = -1;
	struct gm_foreign f = {.kind = GM_FOREIGN_HOST};
	if (gm_shim_driver.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
						 at) != CUDA_SUCCESS)
		return;
	if (ordinal >= 0 && (unsigned)ordinal < gm_shim_n_devices) {
		f.kind = GM_FOREIGN_ASYNC;
		f.ordinal = (unsigned)ordinal;
	}
	add(&f, at, size, stream);
}

GM_TAKES(cuMemAllocAsync, (CUdeviceptr * out, size_t size, CUstream stream), (out, size, stream),
	 from_device(*out, size, PLAIN(stream)))
GM_TAKES(cuMemAllocAsync_ptsz, (CUdeviceptr * out, size_t size, CUstream stream),
	 (out, size, stream), from_device(*out, size, OWN(stream)))
GM_TAKES(cuMemAllocFromPoolAsync,
	 (CUdeviceptr * out, size_t size, CUmemoryPool pool, CUstream stream),
	 (out, size, pool, stream), from_pool(*out, size, PLAIN(stream)))
GM_TAKES(cuMemAllocFromPoolAsync_ptsz,
	 (CUdeviceptr * out, size_t size, CUmemoryPool pool, CUstream stream),
	 (out, size, pool, stream), from_pool(*out, size, OWN(stream)))

/* What was allocated from a pool outlives it. */
GM_TAKES(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *props), (pool, props),
	 gm_counter_add(0, GM_C_async_pools, 1))
GM_COUNTS(cuMemPoolDestroy, (CUmemoryPool pool), (pool), GM_C_async_pools_gone)
GM_COUNTS(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep), GM_C_async_pool_trims)
