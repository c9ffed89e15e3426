/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/limit.h"

#include "shim/device.h"
#include "shim/foreign/async.h"
#include "shim/foreign/graph.h"
#include "shim/lack.h"
#include "shim/modules.h"

static _Atomic uint64_t outside[GM_COUNTER_DEVICES];
static _Atomic uint64_t measured[GM_COUNTER_DEVICES]; /* part of it: async pools and graphs */

/* Reserved by this thread's call, and not yet taken: part of `outside`. */
static GM_TLS uint64_t reserved;

_Atomic uint64_t *gm_limit_outside(unsigned ordinal)
{
	return &outside[ordinal];
}

static bool limit_is_set(int where, unsigned *ordinal)
{
	CUresult ignored;
	if (where == GM_LACK_HERE) {
		const struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
		where = context ? (int)context->ordinal : -1;
	}
	*ordinal = (unsigned)where;
	return where >= 0 && (unsigned)where < gm_shim_n_devices &&
	       gm_shim_devices[where].limit != UINT64_MAX;
}

/* --- counting --- */

static void outside_rise(unsigned ordinal, uint64_t bytes)
{
	const uint64_t known = reserved < bytes ? reserved : bytes;
	reserved -= known;
	atomic_fetch_add_explicit(&outside[ordinal], bytes - known, memory_order_relaxed);
}

static bool kind_counts(enum gm_foreign_kind kind)
{
	return kind == GM_FOREIGN_DRIVER || kind == GM_FOREIGN_CREATED || kind == GM_FOREIGN_ARRAY;
}

void gm_limit_taken(enum gm_foreign_kind kind, unsigned ordinal, uint64_t bytes)
{
	if (kind_counts(kind) && ordinal < GM_COUNTER_DEVICES)
		outside_rise(ordinal, bytes);
}

void gm_limit_given(enum gm_foreign_kind kind, unsigned ordinal, uint64_t bytes)
{
	if (kind_counts(kind) && ordinal < GM_COUNTER_DEVICES)
		atomic_fetch_sub_explicit(&outside[ordinal], bytes, memory_order_relaxed);
}

uint64_t gm_limit_measure(unsigned ordinal)
{
	uint64_t used;
	const uint64_t now = gm_async_reserved(ordinal, &used) + gm_graph_reserved(ordinal);
	const uint64_t before =
		atomic_exchange_explicit(&measured[ordinal], now, memory_order_relaxed);
	if (now >= before)
		outside_rise(ordinal, now - before);
	else
		atomic_fetch_sub_explicit(&outside[ordinal], before - now, memory_order_relaxed);
	return atomic_load_explicit(&outside[ordinal], memory_order_relaxed);
}

/* --- refusing --- */

static bool outside_take(unsigned ordinal, uint64_t bytes)
{
	const uint64_t limit = gm_shim_devices[ordinal].limit;
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	if (pool)
		return gm_pool_outside_take(pool, bytes);
	uint64_t now = atomic_load_explicit(&outside[ordinal], memory_order_relaxed);
	do {
		if (now > limit || bytes > limit - now)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&outside[ordinal], &now, now + bytes, memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* Idle memory of the pools, and of async pools, is returned to the driver if that may be enough. */
static bool limit_take(unsigned ordinal, uint64_t bytes)
{
	if (outside_take(ordinal, bytes))
		return true;
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	if (bytes > gm_shim_devices[ordinal].limit)
		return false;
	gm_modules_reclaim(ordinal);
	if (pool)
		gm_pool_give_back(pool, 0, true);
	gm_limit_measure(ordinal);
	return outside_take(ordinal, bytes);
}

bool gm_limit_begin(int where, uint64_t bytes)
{
	unsigned ordinal;
	if (!limit_is_set(where, &ordinal))
		return true;
	gm_limit_measure(ordinal);
	if (!limit_take(ordinal, bytes))
		return false;
	reserved = bytes;
	return true;
}

bool gm_limit_begin_async(int where, uint64_t bytes)
{
	unsigned ordinal;
	uint64_t used;
	if (!limit_is_set(where, &ordinal))
		return true;
	const uint64_t slack = gm_async_reserved(ordinal, &used) - used;
	return gm_limit_begin((int)ordinal, bytes > slack ? bytes - slack : 0);
}

void gm_limit_end(int where)
{
	unsigned ordinal;
	if (!limit_is_set(where, &ordinal))
		return;
	gm_limit_measure(ordinal);
	atomic_fetch_sub_explicit(&outside[ordinal], reserved, memory_order_relaxed);
	reserved = 0;
}

uint64_t gm_limit_reclaim(unsigned ordinal)
{
	if (ordinal >= gm_shim_n_devices || gm_shim_devices[ordinal].limit == UINT64_MAX)
		return 0;
	const uint64_t before = gm_limit_measure(ordinal);
	gm_async_trim(ordinal);
	const uint64_t after = gm_limit_measure(ordinal);
	return before > after ? before - after : 0;
}

void gm_limit_forget(void)
{
	reserved = 0;
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++) {
		atomic_store_explicit(&outside[i], 0, memory_order_relaxed);
		atomic_store_explicit(&measured[i], 0, memory_order_relaxed);
	}
}
