/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that take device memory and have no other handler. To add one, add a row with RETRY to
 * hooks.def, and a line below: the symbol and the types of its parameters.
 */
#include "shim/retry.h"

#include "log/count.h"
#include "shim/device.h"
#include "shim/modules.h"
#include "shim/others.h"

/* Return all idle memory of all pools to the driver, retired memory included. True: since this
 * thread's last request any thread has returned memory. */
static bool retry_reclaim_own(void)
{
	static GM_TLS uint64_t seen; /* total bytes at this thread's last request */
	uint64_t given = 0, before = seen;
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (!pool)
			continue;
		gm_modules_reclaim(i);
		gm_pool_give_back(pool, 0, true);
		given += gm_pool_given(pool);
	}
	seen = given;
	return given != before;
}

static bool retry(CUresult result, bool others)
{
	CUresult ignored;
	if (GM_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY))
		return false;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	unsigned ordinal = context ? context->ordinal : 0;
	if (!retry_reclaim_own() && !(others && gm_others_reclaim(ordinal)))
		return false;
	gm_counter_add(ordinal, GM_C_retry_calls, 1);
	return true;
}

bool gm_retry(CUresult result)
{
	return retry(result, true);
}

bool gm_retry_own(CUresult result)
{
	return retry(result, false);
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

#define RETRIES(symbol, ...) \
	RETRIES_(symbol, (JOIN(P, COUNT(__VA_ARGS__))(__VA_ARGS__)), (JOIN(N, COUNT(__VA_ARGS__))))
#define RETRIES_(symbol, parameters, arguments)                                             \
	CUresult on_##symbol parameters                                                     \
	{                                                                                   \
		return GM_GATED(symbol, GM_RETRY_UNGUARDED(symbol, real.symbol arguments)); \
	}

RETRIES(cuGraphUpload, CUgraphExec, CUstream)
RETRIES(cuGraphUpload_ptsz, CUgraphExec, CUstream)
RETRIES(cuLibraryGetGlobal, CUdeviceptr *, size_t *, CUlibrary, const char *)
RETRIES(cuStreamCreate, CUstream *, unsigned)
RETRIES(cuStreamCreateWithPriority, CUstream *, unsigned, int)
