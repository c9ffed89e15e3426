/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table, open addressing, never more than half full. It grows into a new one; readers may
 * still be in the old one, which is small and stays. Handles are never taken out: when the driver
 * hands the same number out again, what is known of it is replaced.
 */
#include "handle.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/debug.h"
#include "base/lock.h"

#define LEAST 1024u

struct table {
	size_t size, used;	 /* used: under the lock */
	_Atomic uint64_t slot[]; /* handle << 8 | kind; 0: free */
};

atomic_bool gm_handle_any;
static _Atomic(struct table *) current;
static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);

/* User addresses have at most 56 bits on all machines that CUDA runs on. */
static uint64_t name(const void *handle)
{
	return (uint64_t)(uintptr_t)handle << 8;
}

/* Where a handle is, or the free slot where it would be. */
static _Atomic uint64_t *find(struct table *t, uint64_t handle)
{
	size_t at = (handle * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
	for (;; at++) {
		_Atomic uint64_t *slot = &t->slot[at & (t->size - 1)];
		uint64_t there = atomic_load_explicit(slot, memory_order_relaxed);
		if (!there || (there & ~UINT64_C(0xff)) == handle)
			return slot;
	}
}

enum gm_handle_kind gm_handle_kind(const void *handle)
{
	struct table *t = atomic_load_explicit(&current, memory_order_acquire);
	if (!t)
		return GM_HANDLE_UNKNOWN;
	return (enum gm_handle_kind)(
		atomic_load_explicit(find(t, name(handle)), memory_order_relaxed) & 0xff);
}

/* Under the lock: a table with room for one more. */
static struct table *with_room(void)
{
	struct table *old = atomic_load_explicit(&current, memory_order_relaxed);
	if (old && old->used < old->size / 2)
		return old;
	size_t size = old ? 2 * old->size : LEAST;
	struct table *t = calloc(1, sizeof *t + size * sizeof *t->slot);
	if (!t)
		return NULL;
	t->size = size;
	for (size_t i = 0; old && i < old->size; i++) {
		uint64_t there = atomic_load_explicit(&old->slot[i], memory_order_relaxed);
		if (!there)
			continue;
		atomic_store_explicit(find(t, there & ~UINT64_C(0xff)), there,
				      memory_order_relaxed);
		t->used++;
	}
	atomic_store_explicit(&current, t, memory_order_release);
	return t;
}

void gm_handle_note(const void *handle, enum gm_handle_kind kind)
{
	if (!handle)
		return;
	gm_lock_take(&lock);
	struct table *t = with_room();
	if (t) {
		_Atomic uint64_t *slot = find(t, name(handle));
		t->used += !atomic_load_explicit(slot, memory_order_relaxed);
		atomic_store_explicit(slot, name(handle) | kind, memory_order_relaxed);
	}
	gm_lock_release(&lock);
	if (kind == GM_HANDLE_ALLOCATES)
		atomic_store_explicit(&gm_handle_any, true, memory_order_relaxed);
}

void gm_handle_forget_all(void)
{
	atomic_store_explicit(&current, NULL, memory_order_relaxed);
	atomic_store_explicit(&gm_handle_any, false, memory_order_relaxed);
	gm_lock_init(&lock, GM_RANK_TABLE);
}
