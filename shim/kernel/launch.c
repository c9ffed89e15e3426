/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches. While gm_launch_watched is 0 a handler is a load, a test and a jump. Otherwise it also
 * reads the result: the first launch of a kernel takes memory for its stack, and must not fail
 * because of a pool's idle memory. After the first image that may call malloc, every kernel that is
 * not known to be harmless is launched with its context's heap (inkernel.h). The handlers put the
 * guard up only around work of ours, so they do not use GM_HANDLER.
 */
#include "shim/kernel/launch.h"

#include "log/count.h"
#include "shim/context/submit.h"
#include "shim/kernel/handle.h"
#include "shim/kernel/inkernel.h"
#include "shim/memory/retry.h"

atomic_uint gm_launch_watched;

void gm_launch_pool_ready(unsigned ordinal)
{
	(void)ordinal;
	atomic_fetch_or_explicit(&gm_launch_watched, GM_LAUNCH_POOLED, memory_order_relaxed);
}

static const char *function_name(const void *function)
{
	return function ? gm_handle_name(function) : "a graph";
}

/* Before the launch of a kernel, or of a graph (NULL): the heap that it may use, or NULL. */
static struct gm_heap_host *launch_begin(const void *function, CUstream stream)
{
	struct gm_heap_host *heap = NULL;
	if (!(atomic_load_explicit(&gm_launch_watched, memory_order_relaxed) & GM_LAUNCH_HEAP))
		return NULL;
	if ((!function || gm_handle_kind(function) != GM_HANDLE_HARMLESS) && gm_shim_enter()) {
		heap = gm_inkernel_before_launch(stream, function_name(function));
		gm_shim_leave();
	}
	return heap;
}

static void launch_end(struct gm_heap_host *heap, const void *function, CUstream stream,
		       CUresult result)
{
	if (heap && gm_shim_enter()) {
		gm_inkernel_after_launch(heap, stream, result, function_name(function));
		gm_shim_leave();
	}
}

#define LAUNCH_EARLY(symbol, parameters, arguments, function, stream_, early)                      \
	static __attribute__((noinline)) CUresult watched_##symbol parameters                      \
	{                                                                                          \
		return GM_GATED(symbol, ({                                                         \
					struct gm_heap_host *heap =                                \
						launch_begin(function, stream_);                   \
					bool ordered = gm_order_is_on();                           \
					if (ordered)                                               \
						gm_submit_begin(stream_, early);                   \
					CUresult result =                                          \
						GM_RETRY_UNGUARDED(symbol, real.symbol arguments); \
					if (ordered)                                               \
						gm_submit_end();                                   \
					launch_end(heap, function, stream_, result);               \
					gm_fence_suspect(result);                                  \
					result;                                                    \
				}));                                                               \
	}                                                                                          \
	/* A single tail call: the compiler moves no argument. */                                  \
	CUresult on_##symbol parameters                                                            \
	{                                                                                          \
		__typeof__(real.symbol) next = real.symbol;                                        \
		if (GM_UNLIKELY(atomic_load_explicit(&gm_launch_watched, memory_order_relaxed)))   \
			next = watched_##symbol;                                                   \
		return next arguments;                                                             \
	}
#define LAUNCH(symbol, parameters, arguments, function, stream_) \
	LAUNCH_EARLY(symbol, parameters, arguments, function, stream_, false)
#define LAUNCHES_EARLY(symbol, parameters, arguments, function, stream_, early) \
	LAUNCH_EARLY(symbol, parameters, arguments, function, stream_, early)   \
	LAUNCH_EARLY(symbol##_ptsz, parameters, arguments, function, stream_own(stream_), early)
#define LAUNCHES(symbol, parameters, arguments, function, stream_) \
	LAUNCHES_EARLY(symbol, parameters, arguments, function, stream_, false)

static CUstream stream_own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

/* May the kernel start before its predecessor in the stream has ended? */
static bool config_is_programmatic(const CUlaunchConfig *config)
{
	for (unsigned i = 0; config && config->attrs && i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
		    config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
			return true;
	return false;
}

LAUNCHES(cuLaunchKernel,
	 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	  unsigned bz, unsigned shared, CUstream stream, void **params, void **extra),
	 (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra), f, stream)
LAUNCHES_EARLY(cuLaunchKernelEx,
	       (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
	       (config, f, params, extra), f, config ? config->hStream : NULL,
	       config_is_programmatic(config))
LAUNCHES(cuLaunchCooperativeKernel,
	 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	  unsigned bz, unsigned shared, CUstream stream, void **params),
	 (f, gx, gy, gz, bx, by, bz, shared, stream, params), f, stream)
LAUNCH(cuLaunch, (CUfunction f), (f), f, NULL)
LAUNCH(cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height), f, NULL)
LAUNCH(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream),
       (f, width, height, stream), f, stream)
LAUNCHES(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream), NULL, stream)

/* Several kernels in one call, each on another device. Heaps beyond MOST do not grow while their
 * kernels run. */
#define MOST 16

static CUresult watched_multi(CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags)
{
	struct gm_heap_host *heap[MOST] = {NULL};
	for (unsigned i = 0; list && i < n && i < MOST; i++)
		heap[i] = launch_begin(list[i].function, list[i].hStream);
	bool ordered = gm_order_is_on();
	for (unsigned i = 0; list && i < n && ordered; i++)
		gm_submit_begin(list[i].hStream, false);
	CUresult result =
		GM_RETRY_UNGUARDED(cuLaunchCooperativeKernelMultiDevice,
				   real.cuLaunchCooperativeKernelMultiDevice(list, n, flags));
	for (unsigned i = 0; list && i < n && ordered; i++)
		gm_submit_end();
	for (unsigned i = 0; list && i < n && i < MOST; i++)
		launch_end(heap[i], list[i].function, list[i].hStream, result);
	gm_fence_suspect(result);
	return result;
}

CUresult on_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned n,
						 unsigned flags)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_launch_watched, memory_order_relaxed)))
		return GM_GATED(cuLaunchCooperativeKernelMultiDevice,
				watched_multi(list, n, flags));
	return real.cuLaunchCooperativeKernelMultiDevice(list, n, flags);
}
