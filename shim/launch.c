/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches. While there is no pool and nobody asked for them to be counted, a load, a test and a
 * jump; then also a look at the answer: the first launch of a kernel takes memory for its stack,
 * which idle memory of a pool must not deny.
 */
#include "handlers.h"

atomic_uint gm_launch_watched;

static CUresult launched(CUresult result)
{
	unsigned watched = atomic_load_explicit(&gm_launch_watched, memory_order_relaxed);
	gm_fence_suspect(result);
	if (result == CUDA_SUCCESS && watched & GM_LAUNCH_COUNTED)
		gm_counter_add(0, GM_C_launches, 1);
	return result;
}

#define LAUNCH(symbol, parameters, arguments)                                                    \
	static __attribute__((noinline)) CUresult watched_##symbol parameters                    \
	{                                                                                        \
		CUresult result = real.symbol arguments;                                         \
		if (GM_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !gm_shim_enter())           \
			return launched(result);                                                 \
		if (gm_retry(result))                                                            \
			result = GM_PASS(real.symbol arguments);                                 \
		gm_shim_leave();                                                                 \
		return launched(result);                                                         \
	}                                                                                        \
	/* One call at the end, so that the compiler leaves all arguments where they are. */     \
	CUresult on_##symbol parameters                                                          \
	{                                                                                        \
		__typeof__(real.symbol) next = real.symbol;                                      \
		if (GM_UNLIKELY(atomic_load_explicit(&gm_launch_watched, memory_order_relaxed))) \
			next = watched_##symbol;                                                 \
		return next arguments;                                                           \
	}
#define LAUNCHES(symbol, parameters, arguments) \
	LAUNCH(symbol, parameters, arguments)   \
	LAUNCH(symbol##_ptsz, parameters, arguments)

LAUNCHES(cuLaunchKernel,
	 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	  unsigned bz, unsigned shared, CUstream stream, void **params, void **extra),
	 (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
LAUNCHES(cuLaunchKernelEx,
	 (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
	 (config, f, params, extra))
LAUNCHES(cuLaunchCooperativeKernel,
	 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	  unsigned bz, unsigned shared, CUstream stream, void **params),
	 (f, gx, gy, gz, bx, by, bz, shared, stream, params))
LAUNCH(cuLaunchCooperativeKernelMultiDevice,
       (CUDA_LAUNCH_PARAMS * list, unsigned n, unsigned flags), (list, n, flags))
LAUNCH(cuLaunch, (CUfunction f), (f))
LAUNCH(cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height))
LAUNCH(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream),
       (f, width, height, stream))
LAUNCHES(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))
