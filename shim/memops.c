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
static atomic_size_t entries;

bool gm_memops_set(uint64_t block, bool on)
{
	if (!on && !atomic_load_explicit(&entries, memory_order_relaxed))
		return true;
	struct entry *e, *fresh = on ? calloc(1, sizeof *fresh) : NULL;
	bool kept = true;
	gm_lock_take(&lock);
	HASH_FIND(hh, table, &block, sizeof block, e);
	if (e && !on) {
		HASH_DEL(table, e);
		atomic_fetch_sub_explicit(&entries, 1, memory_order_relaxed);
		fresh = e;
	} else if (!e && on) {
		kept = fresh != NULL;
		if (fresh) {
			fresh->block = block;
			HASH_ADD(hh, table, block, sizeof block, fresh);
			kept = !gm_hash_failed(fresh);
		}
		if (kept) {
			atomic_fetch_add_explicit(&entries, 1, memory_order_relaxed);
			fresh = NULL;
		}
	}
	gm_lock_release(&lock);
	free(fresh);
	return kept;
}

bool gm_memops_get(uint64_t block)
{
	struct entry *e;
	if (GM_LIKELY(!atomic_load_explicit(&entries, memory_order_relaxed)))
		return false;
	gm_lock_take(&lock);
	HASH_FIND(hh, table, &block, sizeof block, e);
	gm_lock_release(&lock);
	return e != NULL;
}

void gm_memops_forget_all(void)
{
	gm_lock_init(&lock, GM_RANK_TABLE);
	table = NULL;
	atomic_store(&entries, 0);
}
