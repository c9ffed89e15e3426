/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/memops.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/lock.h"

struct entry {
	uint64_t block;
	UT_hash_handle hh;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static struct entry *table; /* of blocks with the attribute; under the lock */
atomic_size_t gm_memops_entries;
atomic_bool gm_memops_pending;

static struct entry *memops_find(uint64_t block)
{
	struct entry *e;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_FIND(hh, table, &block, sizeof block, e);
	return e;
}

static bool memops_add(uint64_t block)
{
	struct entry *fresh = calloc(1, sizeof *fresh);
	if (!fresh)
		return false;
	fresh->block = block;
	gm_lock_take(&lock);
	bool there = memops_find(block) != NULL, kept = there;
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

static void memops_remove(uint64_t block)
{
	if (!atomic_load_explicit(&gm_memops_entries, memory_order_relaxed))
		return;
	gm_lock_take(&lock);
	struct entry *e = memops_find(block);
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
		return memops_add(block);
	memops_remove(block);
	return true;
}

bool gm_memops_get(uint64_t block)
{
	if (GM_LIKELY(!atomic_load_explicit(&gm_memops_entries, memory_order_relaxed)))
		return false;
	gm_lock_take(&lock);
	bool on = memops_find(block) != NULL;
	gm_lock_release(&lock);
	return on;
}

void gm_memops_forget_all(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	table = NULL;
	atomic_store(&gm_memops_entries, 0);
	atomic_store(&gm_memops_pending, false);
}
