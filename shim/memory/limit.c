/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/memory/limit.h"

#include <sched.h>

#include "base/lock.h"
#include "base/size.h"
#include "pool/pool.h"
#include "shim/memory/device.h"
#include "shim/memory/lack.h"
#include "shim/modules.h"

#define PATIENCE 20000 /* turns at most for which a refusal waits for calls in progress */

static _Atomic uint64_t outside[GM_COUNTER_DEVICES];
static _Atomic uint64_t of_driver[GM_COUNTER_DEVICES]; /* part of `outside`: cuMemAlloc */

/* Async pools and graphs. An answer of the driver counts unless a later question was answered. */
static struct {
	_Atomic uint64_t asked; /* the number of the last question */
	uint64_t answered;	/* of the one whose answer is `bytes`; under the lock */
	uint64_t bytes;		/* part of `outside`; under the lock */
} measured[GM_COUNTER_DEVICES];
static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);

/* Calls between begin and end; those of async pools, their bytes and their number so far. */
static struct {
	_Atomic uint64_t calls, bytes, turn;
} progress[GM_COUNTER_DEVICES];

/* This thread's call. `reserved`: bytes that it has not taken yet, part of `outside`. */
static GM_TLS struct {
	uint64_t reserved, async;
	unsigned ordinal;
	bool begun;
} own;

/* The knob is one for all devices. */
bool gm_limit_is_set(void)
{
	return gm_shim_n_devices && gm_shim_devices[0].limit != UINT64_MAX;
}

/* Is the memory at `where` that of a device, and limited? */
static bool where_is_limited(int where, unsigned *ordinal)
{
	CUresult ignored;
	if (!gm_limit_is_set())
		return false;
	if (where == GM_LACK_HERE) {
		const struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
		where = context ? (int)context->ordinal : -1;
	}
	*ordinal = (unsigned)where;
	return where >= 0 && (unsigned)where < gm_shim_n_devices;
}

/* --- counting --- */

static void outside_change(unsigned ordinal, uint64_t taken, uint64_t given)
{
	atomic_fetch_add_explicit(&outside[ordinal], taken - given, memory_order_relaxed);
}

static bool kind_counts(enum gm_foreign_kind kind)
{
	return kind == GM_FOREIGN_DRIVER || kind == GM_FOREIGN_CREATED || kind == GM_FOREIGN_ARRAY;
}

uint64_t gm_limit_of_driver(uint64_t bytes)
{
	return bytes >= GM_MIB && bytes < UINT64_MAX - GM_POOL_GRANULE
		       ? gm_round_up(bytes, GM_POOL_GRANULE)
		       : bytes;
}

uint64_t gm_limit_driver(unsigned ordinal)
{
	return atomic_load_explicit(&of_driver[ordinal], memory_order_relaxed);
}

static void kind_change(enum gm_foreign_kind kind, unsigned ordinal, uint64_t taken, uint64_t given)
{
	if (kind == GM_FOREIGN_DRIVER)
		atomic_fetch_add_explicit(&of_driver[ordinal], taken - given, memory_order_relaxed);
}

/* What memory of a kind takes of the device. */
static uint64_t kind_bytes(enum gm_foreign_kind kind, uint64_t bytes)
{
	return kind == GM_FOREIGN_DRIVER ? gm_limit_of_driver(bytes) : bytes;
}

void gm_limit_taken(enum gm_foreign_kind kind, unsigned ordinal, uint64_t bytes)
{
	if (!kind_counts(kind) || ordinal >= GM_COUNTER_DEVICES)
		return;
	bytes = kind_bytes(kind, bytes);
	kind_change(kind, ordinal, bytes, 0);
	const uint64_t known = own.reserved < bytes ? own.reserved : bytes;
	own.reserved -= known;
	outside_change(ordinal, bytes, known);
}

void gm_limit_given(enum gm_foreign_kind kind, unsigned ordinal, uint64_t bytes)
{
	if (!kind_counts(kind) || ordinal >= GM_COUNTER_DEVICES)
		return;
	bytes = kind_bytes(kind, bytes);
	kind_change(kind, ordinal, 0, bytes);
	outside_change(ordinal, 0, bytes);
}

uint64_t gm_limit_measure(unsigned ordinal)
{
	const uint64_t turn = atomic_fetch_add(&measured[ordinal].asked, 1) + 1;
	struct gm_sample sample = {0};
	gm_modules_reserved(ordinal, &sample);
	const uint64_t now = sample.async + sample.graphs;
	gm_lock_take(&lock);
	if (turn > measured[ordinal].answered) {
		measured[ordinal].answered = turn;
		outside_change(ordinal, now, measured[ordinal].bytes);
		measured[ordinal].bytes = now;
	}
	gm_lock_release(&lock);
	return atomic_load(&outside[ordinal]);
}

/* --- refusing --- */

static bool outside_take(unsigned ordinal, uint64_t bytes)
{
	const uint64_t limit = gm_shim_devices[ordinal].limit;
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	if (pool)
		return gm_pool_outside_take(pool, bytes);
	uint64_t now = atomic_load(&outside[ordinal]);
	do {
		if (now > limit || bytes > limit - now)
			return false;
	} while (!atomic_compare_exchange_weak(&outside[ordinal], &now, now + bytes));
	return true;
}

struct want {
	uint64_t bytes;
	CUmemoryPool pool;
	uint64_t (*slack)(unsigned ordinal, CUmemoryPool pool); /* NULL: no async pool */
};

/* An async allocation: the slack of its pool may have it, but for what other calls in progress may
 * take of it. Another async call that began meanwhile has changed the slack. */
static bool async_take(unsigned ordinal, const struct want *w, uint64_t *growth)
{
	const uint64_t bytes = w->bytes;
	for (;;) {
		uint64_t turn = atomic_load(&progress[ordinal].turn);
		const uint64_t slack = w->slack(ordinal, w->pool);
		const uint64_t claimed = atomic_load(&progress[ordinal].bytes);
		const uint64_t has = slack > claimed ? slack - claimed : 0;
		*growth = bytes > has ? bytes - has : 0;
		if (!outside_take(ordinal, *growth))
			return false;
		if (atomic_compare_exchange_strong(&progress[ordinal].turn, &turn, turn + 1))
			return true;
		outside_change(ordinal, 0, *growth);
	}
}

static bool limit_try(unsigned ordinal, const struct want *w)
{
	uint64_t growth = w->bytes;
	gm_limit_measure(ordinal);
	if (!(w->slack ? async_take(ordinal, w, &growth) : outside_take(ordinal, w->bytes)))
		return false;
	own.reserved = growth;
	own.async = w->slack ? w->bytes : 0;
	own.ordinal = ordinal;
	own.begun = true;
	atomic_fetch_add(&progress[ordinal].bytes, own.async);
	atomic_fetch_add(&progress[ordinal].calls, 1);
	return true;
}

static void idle_return(unsigned ordinal, uint64_t bytes)
{
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	gm_modules_reclaim(ordinal, bytes);
	if (pool)
		gm_pool_give_back(pool, 0, true);
}

/* Refused: twice in turn it did not fit while no other call was in progress. */
static bool limit_wait(unsigned ordinal, const struct want *w)
{
	unsigned quiet = 0;
	if (w->bytes > gm_shim_devices[ordinal].limit)
		return false;
	for (unsigned i = 0; i < PATIENCE && quiet < 2; i++) {
		const bool alone = atomic_load(&progress[ordinal].calls) == 0;
		if (alone || i == 0)
			idle_return(ordinal, w->bytes);
		if (limit_try(ordinal, w))
			return true;
		quiet = alone ? quiet + 1 : 0;
		if (!alone)
			sched_yield();
	}
	return false;
}

static bool limit_begin(int where, struct want w)
{
	unsigned ordinal;
	if (!where_is_limited(where, &ordinal))
		return true;
	return limit_try(ordinal, &w) || limit_wait(ordinal, &w);
}

bool gm_limit_begin(int where, uint64_t bytes)
{
	return limit_begin(where, (struct want){.bytes = bytes});
}

bool gm_limit_begin_async(int where, CUmemoryPool pool, uint64_t bytes,
			  uint64_t (*slack)(unsigned ordinal, CUmemoryPool pool))
{
	return limit_begin(where, (struct want){.bytes = bytes, .pool = pool, .slack = slack});
}

void gm_limit_end(void)
{
	const unsigned ordinal = own.ordinal;
	if (!own.begun)
		return;
	gm_limit_measure(ordinal);
	outside_change(ordinal, 0, own.reserved);
	atomic_fetch_sub(&progress[ordinal].bytes, own.async);
	atomic_fetch_sub(&progress[ordinal].calls, 1);
	own.reserved = own.async = 0;
	own.begun = false;
}

uint64_t gm_limit_drop(unsigned ordinal, void (*trim)(unsigned ordinal))
{
	if (ordinal >= gm_shim_n_devices || !gm_limit_is_set())
		return 0;
	const uint64_t before = gm_limit_measure(ordinal);
	trim(ordinal);
	const uint64_t after = gm_limit_measure(ordinal);
	return before > after ? before - after : 0;
}

uint64_t gm_limit_reclaim(unsigned ordinal, uint64_t bytes)
{
	(void)bytes;
	if (ordinal >= gm_shim_n_devices || !gm_limit_is_set())
		return 0;
	const uint64_t before = atomic_load(&outside[ordinal]);
	const uint64_t after = gm_limit_measure(ordinal);
	return before > after ? before - after : 0;
}

void gm_limit_forget(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	own.reserved = own.async = 0;
	own.begun = false;
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++) {
		atomic_store(&outside[i], 0);
		atomic_store(&of_driver[i], 0);
		atomic_store(&measured[i].asked, 0);
		measured[i].answered = measured[i].bytes = 0;
		atomic_store(&progress[i].calls, 0);
		atomic_store(&progress[i].bytes, 0);
		atomic_store(&progress[i].turn, 0);
	}
}

static void limit_measure(unsigned ordinal)
{
	gm_limit_measure(ordinal);
}

void gm_limit_pool_config(unsigned ordinal, struct gm_pool_config *config)
{
	config->outside = &outside[ordinal];
	config->measure = gm_limit_is_set() ? limit_measure : NULL;
}
