/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches. While there is no pool, a load, a test and a jump; then also a look at the answer: the
 * first launch of a kernel takes memory for its stack, which idle memory of a pool must not deny.
 */
#include "handlers.h"

atomic_bool gm_launch_watched;

#define LAUNCH(symbol, parameters, arguments)                                                   \
	static __attribute__((noinline)) CUresult watched_##symbol parameters                   \
	{                                                                                       \
		CUresult result = real.symbol arguments;                                        \
		if (GM_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !gm_shim_enter())          \
			return result;                                                          \
		if (gm_retry(result))                                                           \
			result = GM_PASS(real.symbol arguments);                                \
		gm_shim_leave();                                                                \
		return result;                                                                  \
	}                                                                                       \
	CUresult on_##symbol parameters                                                         \
	{                                                                                       \
		if (GM_LIKELY(!atomic_load_explicit(&gm_launch_watched, memory_order_relaxed))) \
			return real.symbol arguments;                                           \
		return watched_##symbol arguments;                                              \
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
LAUNCHES(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))
