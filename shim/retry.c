/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that take device memory of which we know nothing else. Idle memory of the pools must never
 * be the reason that one of them fails: it is given back, and the call made once more. A new one is
 * a row of hooks.def with RETRY and a line below: the symbol and the types of its parameters.
 */
#include "handlers.h"

bool gm_retry(CUresult result)
{
	CUresult ignored;
	if (GM_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !gm_shim_give_back_all())
		return false;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	gm_counter_add(context ? context->ordinal : 0, GM_C_retry_calls, 1);
	return true;
}

/* P2(int, char *) is `int a, char *b`, N2 is `a, b`. */
#define P1(A) A a
#define P2(A, B) P1(A), B b
#define P3(A, B, C) P2(A, B), C c
#define P4(A, B, C, D) P3(A, B, C), D d
#define N1 a
#define N2 N1, b
#define N3 N2, c
#define N4 N3, d

#define COUNT(...) COUNT_(__VA_ARGS__, 4, 3, 2, 1, 0)
#define COUNT_(A, B, C, D, n, ...) n
#define JOIN(a, b) JOIN_(a, b)
#define JOIN_(a, b) a##b

#define GM_RETRY(symbol, ...) \
	GM_RETRY_(symbol, (JOIN(P, COUNT(__VA_ARGS__))(__VA_ARGS__)), (JOIN(N, COUNT(__VA_ARGS__))))
#define GM_RETRY_(symbol, parameters, arguments)                                       \
	CUresult on_##symbol parameters                                                \
	{                                                                              \
		CUresult result = real.symbol arguments;                               \
		if (GM_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !gm_shim_enter()) \
			return result;                                                 \
		if (gm_retry(result))                                                  \
			result = GM_PASS(real.symbol arguments);                       \
		gm_shim_leave();                                                       \
		return result;                                                         \
	}

GM_RETRY(cuGraphUpload, CUgraphExec, CUstream)
GM_RETRY(cuGraphUpload_ptsz, CUgraphExec, CUstream)
GM_RETRY(cuLibraryGetGlobal, CUdeviceptr *, size_t *, CUlibrary, const char *)
GM_RETRY(cuStreamCreate, CUstream *, unsigned)
GM_RETRY(cuStreamCreateWithPriority, CUstream *, unsigned, int)
