/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches. While there is no pool and nobody asked for them to be counted, a load, a test and a
 * jump; then also a look at the answer: the first launch of a kernel takes memory for its stack,
 * which idle memory of a pool must not deny. Once an image that may call malloc was seen, kernels
 * that are not known to be of another one are launched with their context's heap (inkernel.h).
 */
#include "handle.h"
#include "handlers.h"
#include "inkernel.h"

atomic_uint gm_launch_watched;

static CUresult launched(CUresult result)
{
	unsigned watched = atomic_load_explicit(&gm_launch_watched, memory_order_relaxed);
	gm_fence_suspect(result);
	if (result == CUDA_SUCCESS && watched & GM_LAUNCH_COUNTED)
		gm_counter_add(0, GM_C_launches, 1);
	return result;
}

/* A kernel, or a graph (NULL), is about to be launched: the heap that it may ask, or NULL. */
static struct gm_heap_host *begin(const void *function, CUstream stream)
{
	struct gm_heap_host *heap = NULL;
	if (!(atomic_load_explicit(&gm_launch_watched, memory_order_relaxed) & GM_LAUNCH_HEAP))
		return NULL;
	if ((!function || gm_handle_kind(function) != GM_HANDLE_HARMLESS) && gm_shim_enter()) {
		heap = gm_inkernel_before_launch(stream);
		gm_shim_leave();
	}
	return heap;
}

static CUresult end(struct gm_heap_host *heap, CUstream stream, CUresult result)
{
	if (heap && gm_shim_enter()) {
		gm_inkernel_after_launch(heap, stream, result);
		gm_shim_leave();
	}
	return launched(result);
}

#define LAUNCH(symbol, parameters, arguments, function, stream_)                                 \
	static __attribute__((noinline)) CUresult watched_##symbol parameters                    \
	{                                                                                        \
		struct gm_heap_host *heap = begin(function, stream_);                            \
		CUresult result = real.symbol arguments;                                         \
		if (GM_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !gm_shim_enter())           \
			return end(heap, stream_, result);                                       \
		if (gm_retry(result))                                                            \
			result = GM_PASS(real.symbol arguments);                                 \
		gm_shim_leave();                                                                 \
		return end(heap, stream_, result);                                               \
	}                                                                                        \
	/* One call at the end, so that the compiler leaves all arguments where they are. */     \
	CUresult on_##symbol parameters                                                          \
	{                                                                                        \
		__typeof__(real.symbol) next = real.symbol;                                      \
		if (GM_UNLIKELY(atomic_load_explicit(&gm_launch_watched, memory_order_relaxed))) \
			next = watched_##symbol;                                                 \
		return next arguments;                                                           \
	}
#define LAUNCHES(symbol, parameters, arguments, function, stream_) \
	LAUNCH(symbol, parameters, arguments, function, stream_)   \
	LAUNCH(symbol##_ptsz, parameters, arguments, function, own(stream_))

static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

LAUNCHES(cuLaunchKernel,
	 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	  unsigned bz, unsigned shared, CUstream stream, void **params, void **extra),
	 (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra), f, stream)
LAUNCHES(cuLaunchKernelEx,
	 (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
	 (config, f, params, extra), f, config ? config->hStream : NULL)
LAUNCHES(cuLaunchCooperativeKernel,
	 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	  unsigned bz, unsigned shared, CUstream stream, void **params),
	 (f, gx, gy, gz, bx, by, bz, shared, stream, params), f, stream)
LAUNCH(cuLaunch, (CUfunction f), (f), f, NULL)
LAUNCH(cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height), f, NULL)
LAUNCH(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream),
       (f, width, height, stream), f, stream)
LAUNCHES(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream), NULL, stream)

/* Several at once, each on a device of its own: the heaps of those beyond MOST are not fed while
 * they run. */
#define MOST 16

static CUresult watched_multi(CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags)
{
	struct gm_heap_host *heap[MOST] = {NULL};
	for (unsigned i = 0; list && i < n && i < MOST; i++)
		heap[i] = begin(list[i].function, list[i].hStream);
	CUresult result = real.cuLaunchCooperativeKernelMultiDevice(list, n, flags);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_shim_enter()) {
		if (gm_retry(result))
			result = GM_PASS(real.cuLaunchCooperativeKernelMultiDevice(list, n, flags));
		gm_shim_leave();
	}
	for (unsigned i = 0; list && i < n && i < MOST; i++)
		if (heap[i])
			end(heap[i], list[i].hStream, result);
	return launched(result);
}

CUresult on_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned n,
						 unsigned flags)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_launch_watched, memory_order_relaxed)))
		return watched_multi(list, n, flags);
	return real.cuLaunchCooperativeKernelMultiDevice(list, n, flags);
}
