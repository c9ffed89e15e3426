/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/hash.h"
#include "handlers.h"

struct entry {
	struct gm_foreign what; /* keyed by its address */
	UT_hash_handle hh;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static struct entry *table;
static atomic_size_t entries; /* saves the lock where there are none */
static uint64_t bytes[GM_COUNTER_DEVICES];
static atomic_uint_fast64_t last_id;

/* Ids of blocks and of driver memory never meet: these count down from the top. */
static uint64_t next_id(void)
{
	return UINT64_MAX - atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed);
}

/* Under the lock. */
static void unlink_entry(struct entry *e)
{
	HASH_DEL(table, e);
	bytes[e->what.ordinal] -= e->what.size;
	atomic_fetch_sub_explicit(&entries, 1, memory_order_relaxed);
}

/* Under the lock: the entry of an address, or NULL. */
static struct entry *lookup(CUdeviceptr address)
{
	struct entry *e;
	HASH_FIND(hh, table, &address, sizeof address, e);
	return e;
}

static void insert(struct entry *e)
{
	gm_lock_take(&lock);
	/* The driver hands an address out twice only if we missed the free between. */
	struct entry *stale = lookup(e->what.address);
	if (stale)
		unlink_entry(stale);
	HASH_ADD(hh, table, what.address, sizeof e->what.address, e);
	bool failed = gm_hash_failed(e);
	if (!failed) {
		bytes[e->what.ordinal] += e->what.size;
		atomic_fetch_add_explicit(&entries, 1, memory_order_relaxed);
	}
	gm_lock_release(&lock);
	free(stale);
	if (failed)
		free(e);
}

void gm_foreign_put_back(const struct gm_foreign *what)
{
	struct entry *e = malloc(sizeof *e);
	if (!e)
		return;
	e->what = *what;
	insert(e);
}

uint64_t gm_foreign_add(CUdeviceptr address, size_t size, const struct gm_context *context)
{
	struct gm_foreign what = {address, size, next_id(), context->key, context->ordinal};
	gm_foreign_put_back(&what);
	return what.id;
}

bool gm_foreign_take(CUdeviceptr address, struct gm_foreign *out)
{
	if (!atomic_load_explicit(&entries, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	struct entry *e = lookup(address);
	if (e)
		unlink_entry(e);
	gm_lock_release(&lock);
	if (!e)
		return false;
	*out = e->what;
	free(e);
	return true;
}

void gm_foreign_context_gone(uint64_t key, void (*each)(const struct gm_foreign *gone))
{
	struct entry *e, *next, *gone = NULL;
	gm_lock_take(&lock);
	HASH_ITER(hh, table, e, next)
	{
		if (e->what.context != key)
			continue;
		unlink_entry(e);
		e->hh.next = gone;
		gone = e;
	}
	gm_lock_release(&lock);
	while ((e = gone)) {
		gone = e->hh.next;
		each(&e->what);
		free(e);
	}
}

uint64_t gm_foreign_bytes(unsigned ordinal)
{
	gm_lock_take(&lock);
	uint64_t sum = bytes[ordinal];
	gm_lock_release(&lock);
	return sum;
}

void gm_foreign_forget_all(void)
{
	gm_lock_init(&lock, GM_RANK_TABLE);
	table = NULL;
	atomic_store(&entries, 0);
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		bytes[i] = 0;
}
