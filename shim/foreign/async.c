/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered memory and its pools. It belongs to no context: it outlives the context of its
 * allocation, and even a reset of the device (measured on driver 580).
 */
#include "log/count.h"
#include "shim/context/capture.h"
#include "shim/device.h"
#include "shim/foreign/foreign.h"
#include "shim/foreign/graph.h"
#include "shim/retry.h"

#define PLAIN(stream) (stream)
#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* A handler that only counts successful calls. */
#define COUNTS(symbol, parameters, arguments, counter)                      \
	GM_HANDLER(symbol, parameters, arguments, ({                        \
			   CUresult done_ = GM_PASS(real.symbol arguments); \
			   if (done_ == CUDA_SUCCESS)                       \
				   gm_counter_add(0, counter, 1);           \
			   done_;                                           \
		   }))

/* In a captured stream the call has made a node of the graph. */
static void async_add(struct gm_foreign *f, CUdeviceptr at, size_t size, CUstream stream)
{
	f->key = at;
	f->space = GM_SPACE_DEVICE;
	f->size = size;
	if (gm_graph_captured(stream, &f->group))
		f->kind = GM_FOREIGN_GRAPH;
	gm_foreign_add(f);
}

/* Memory of the current pool of the stream's device. */
static void async_from_device(CUdeviceptr at, size_t size, CUstream stream)
{
	const struct gm_context *context = gm_shim_context_of_stream(stream);
	struct gm_foreign f = {.kind = GM_FOREIGN_ASYNC};
	if (!context)
		return;
	f.ordinal = context->ordinal;
	async_add(&f, at, size, stream);
}

/* Memory of a given pool, which may be on another device than the stream, or in host memory. */
static void async_from_pool(CUdeviceptr at, size_t size, CUstream stream)
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
	async_add(&f, at, size, stream);
}

GM_TAKES(cuMemAllocAsync, GM_LACK_HERE, size, (CUdeviceptr * out, size_t size, CUstream stream),
	 (out, size, stream), async_from_device(*out, size, PLAIN(stream)))
GM_TAKES(cuMemAllocAsync_ptsz, GM_LACK_HERE, size,
	 (CUdeviceptr * out, size_t size, CUstream stream), (out, size, stream),
	 async_from_device(*out, size, OWN(stream)))
GM_TAKES(cuMemAllocFromPoolAsync, GM_LACK_HERE, size,
	 (CUdeviceptr * out, size_t size, CUmemoryPool pool, CUstream stream),
	 (out, size, pool, stream), async_from_pool(*out, size, PLAIN(stream)))
GM_TAKES(cuMemAllocFromPoolAsync_ptsz, GM_LACK_HERE, size,
	 (CUdeviceptr * out, size_t size, CUmemoryPool pool, CUstream stream),
	 (out, size, pool, stream), async_from_pool(*out, size, OWN(stream)))

/* Memory from a pool outlives the pool. */
GM_TAKES(cuMemPoolCreate, GM_LACK_HERE, 0, (CUmemoryPool * pool, const CUmemPoolProps *props),
	 (pool, props), gm_counter_add(0, GM_C_async_pools, 1))
COUNTS(cuMemPoolDestroy, (CUmemoryPool pool), (pool), GM_C_async_pools_gone)
COUNTS(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep), GM_C_async_pool_trims)
