/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, which the driver refuses for mapped memory: synchronous copies
 * and memsets of such a block have completed when they return.
 */
#include <stdlib.h>

#include "base/hash.h"
#include "handlers.h"

struct entry {
	uint64_t block;
	UT_hash_handle hh;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static struct entry *table;
atomic_size_t gm_memops_entries;

static struct entry *lookup(uint64_t block)
{
	struct entry *e;
	HASH_FIND(hh, table, &block, sizeof block, e);
	return e;
}

static bool switch_on(uint64_t block)
{
	struct entry *fresh = calloc(1, sizeof *fresh);
	if (!fresh)
		return false;
	fresh->block = block;
	gm_lock_take(&lock);
	bool there = lookup(block) != NULL, kept = there;
	if (!there) {
		HASH_ADD(hh, table, block, sizeof block, fresh);
		kept = !gm_hash_failed(fresh);
		if (kept)
			atomic_fetch_add_explicit(&gm_memops_entries, 1, memory_order_relaxed);
	}
	gm_lock_release(&lock);
	if (there || !kept)
		free(fresh);
	return kept;
}

static void switch_off(uint64_t block)
{
	if (!atomic_load_explicit(&gm_memops_entries, memory_order_relaxed))
		return;
	gm_lock_take(&lock);
	struct entry *e = lookup(block);
	if (e) {
		HASH_DEL(table, e);
		atomic_fetch_sub_explicit(&gm_memops_entries, 1, memory_order_relaxed);
	}
	gm_lock_release(&lock);
	free(e);
}

bool gm_memops_set(uint64_t block, bool on)
{
	if (on)
		return switch_on(block);
	switch_off(block);
	return true;
}

bool gm_memops_get(uint64_t block)
{
	if (GM_LIKELY(!atomic_load_explicit(&gm_memops_entries, memory_order_relaxed)))
		return false;
	gm_lock_take(&lock);
	bool on = lookup(block) != NULL;
	gm_lock_release(&lock);
	return on;
}

void gm_memops_forget_all(void)
{
	gm_lock_init(&lock, GM_RANK_TABLE);
	table = NULL;
	atomic_store(&gm_memops_entries, 0);
}
