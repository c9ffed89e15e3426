/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/memory/retry.h"

#include "log/count.h"
#include "shim/idle/demand.h"
#include "shim/memory/device.h"
#include "shim/modules.h"
#include "shim/sleep/turns.h"

/* Return all idle memory of all pools to the driver, retired memory included; on the device of the
 * lack also what the modules have otherwise (-1: none). True: since this thread's last request any
 * thread has returned memory. */
static bool retry_reclaim_own(int lacks)
{
	static GM_TLS uint64_t seen; /* total bytes at this thread's last request */
	uint64_t given = 0, before = seen;
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (!pool)
			continue;
		gm_modules_reclaim(i, (int)i == lacks ? UINT64_MAX : 0);
		gm_pool_give_back(pool, 0, true);
		given += gm_pool_given(pool);
	}
	seen = given;
	return given != before;
}

static unsigned retry_ordinal(int where)
{
	CUresult ignored;
	if (where >= 0 && (unsigned)where < gm_shim_n_devices)
		return (unsigned)where;
	const struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	return context ? context->ordinal : 0;
}

bool gm_retry(CUresult result, int where, uint64_t bytes, uint64_t *since)
{
	if (GM_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY))
		return false;
	const unsigned ordinal = retry_ordinal(where);
	if (!retry_reclaim_own(where == GM_LACK_HOST ? -1 : (int)ordinal) &&
	    (where == GM_LACK_HOST ||
	     (!gm_demand_reclaim(ordinal) && !gm_turns_retry(ordinal, bytes, since))))
		return false;
	gm_counter_add(ordinal, GM_C_retry_calls, 1);
	return true;
}
