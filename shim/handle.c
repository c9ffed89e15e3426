/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table, open addressing, never more than half full. It grows into a new one; readers may
 * still be in the old one, which is small and stays. Handles are never taken out: when the driver
 * hands the same number out again, what is known of it is replaced.
 */
#include "handle.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/debug.h"
#include "base/lock.h"

#define LEAST 1024u

struct slot {
	_Atomic uint64_t known; /* handle << 8 | kind; 0: free */
	const void *image;	/* of an unread one; under the lock */
};

struct table {
	size_t size, used; /* used: under the lock */
	struct slot slot[];
};

static _Atomic(struct table *) current;
static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);

/* User addresses have at most 56 bits on all machines that CUDA runs on. */
static uint64_t name(const void *handle)
{
	return (uint64_t)(uintptr_t)handle << 8;
}

static uint64_t known(const struct slot *slot)
{
	return atomic_load_explicit(&slot->known, memory_order_relaxed);
}

/* Where a handle is, or the free slot where it would be. */
static struct slot *find(struct table *t, uint64_t handle)
{
	size_t at = (handle * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
	for (;; at++) {
		struct slot *slot = &t->slot[at & (t->size - 1)];
		uint64_t there = known(slot);
		if (!there || (there & ~UINT64_C(0xff)) == handle)
			return slot;
	}
}

enum gm_handle_kind gm_handle_kind(const void *handle)
{
	struct table *t = atomic_load_explicit(&current, memory_order_acquire);
	if (!t)
		return GM_HANDLE_UNKNOWN;
	return (enum gm_handle_kind)(known(find(t, name(handle))) & 0xff);
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
		uint64_t there = known(&old->slot[i]);
		if (!there)
			continue;
		struct slot *slot = find(t, there & ~UINT64_C(0xff));
		slot->image = old->slot[i].image;
		atomic_store_explicit(&slot->known, there, memory_order_relaxed);
		t->used++;
	}
	atomic_store_explicit(&current, t, memory_order_release);
	return t;
}

/* Under the lock. */
static void put(struct slot *slot, const void *handle, enum gm_handle_kind kind, const void *image)
{
	slot->image = image;
	atomic_store_explicit(&slot->known, name(handle) | kind, memory_order_relaxed);
}

static void note(const void *handle, enum gm_handle_kind kind, const void *image)
{
	if (!handle)
		return;
	gm_lock_take(&lock);
	struct table *t = with_room();
	if (t) {
		struct slot *slot = find(t, name(handle));
		t->used += !known(slot);
		put(slot, handle, kind, image);
	}
	gm_lock_release(&lock);
}

void gm_handle_note(const void *handle, enum gm_handle_kind kind)
{
	note(handle, kind, NULL);
}

void gm_handle_note_unread(const void *handle, const void *image)
{
	note(handle, GM_HANDLE_UNREAD, image);
}

const void *gm_handle_unread(const void *handle)
{
	gm_lock_take(&lock);
	struct table *t = atomic_load_explicit(&current, memory_order_relaxed);
	const void *image = t ? find(t, name(handle))->image : NULL;
	gm_lock_release(&lock);
	return image;
}

void gm_handle_read(const void *handle, const void *image, enum gm_handle_kind kind)
{
	gm_lock_take(&lock);
	struct table *t = atomic_load_explicit(&current, memory_order_relaxed);
	struct slot *slot = t ? find(t, name(handle)) : NULL;
	if (slot && slot->image == image)
		put(slot, handle, kind, NULL);
	gm_lock_release(&lock);
}

void gm_handle_forget_all(void)
{
	atomic_store_explicit(&current, NULL, memory_order_relaxed);
	gm_lock_init(&lock, GM_RANK_TABLE);
}
