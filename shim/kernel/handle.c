/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table with open addressing, at most half full. When it grows a new table replaces it; the
 * old one, which readers may still use, is small and is kept. Handles are never removed: when the
 * driver returns the same number again, its entry is replaced.
 */
#include "shim/kernel/handle.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "base/hash.h"
#include "base/lock.h"

#define LEAST 1024u

struct slot {
	_Atomic uint64_t known;	    /* handle << 8 | kind; 0: free */
	_Atomic(const char *) name; /* of a kernel; NULL: unknown */
	const void *image;	    /* of an unread handle; under the lock */
};

struct table {
	size_t size, used; /* used: under the lock */
	struct slot slot[];
};

/* Each name once, and never freed: readers may still use an old name of a handle. */
struct name {
	UT_hash_handle hh;
	char text[];
};

static _Atomic(struct table *) current;
static struct name *names; /* under the lock */
static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);

/* User addresses have at most 56 bits on all machines that CUDA runs on. */
static uint64_t handle_bits(const void *handle)
{
	return (uint64_t)(uintptr_t)handle << 8;
}

static uint64_t slot_known(const struct slot *slot)
{
	return atomic_load_explicit(&slot->known, memory_order_relaxed);
}

/* The slot of a handle, or the free slot for it. `handle` is from handle_bits. Lock-free. */
static struct slot *table_find(struct table *t, uint64_t handle)
{
	size_t at = (handle * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
	for (;; at++) {
		struct slot *slot = &t->slot[at & (t->size - 1)];
		uint64_t there = slot_known(slot);
		if (!there || (there & ~UINT64_C(0xff)) == handle)
			return slot;
	}
}

enum gm_handle_kind gm_handle_kind(const void *handle)
{
	struct table *t = atomic_load_explicit(&current, memory_order_acquire);
	if (!t)
		return GM_HANDLE_UNKNOWN;
	return (enum gm_handle_kind)(slot_known(table_find(t, handle_bits(handle))) & 0xff);
}

/* The table, with room for one more handle; NULL: no host memory. */
static struct table *table_reserve(void)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	struct table *old = atomic_load_explicit(&current, memory_order_relaxed);
	if (old && old->used < old->size / 2)
		return old;
	size_t size = old ? 2 * old->size : LEAST;
	struct table *t = calloc(1, sizeof *t + size * sizeof *t->slot);
	if (!t)
		return NULL;
	t->size = size;
	for (size_t i = 0; old && i < old->size; i++) {
		uint64_t there = slot_known(&old->slot[i]);
		if (!there)
			continue;
		struct slot *slot = table_find(t, there & ~UINT64_C(0xff));
		slot->image = old->slot[i].image;
		slot->name = old->slot[i].name;
		atomic_store_explicit(&slot->known, there, memory_order_relaxed);
		t->used++;
	}
	atomic_store_explicit(&current, t, memory_order_release);
	return t;
}

static void slot_set(struct slot *slot, const void *handle, enum gm_handle_kind kind,
		     const void *image)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	slot->image = image;
	slot->name = NULL;
	atomic_store_explicit(&slot->known, handle_bits(handle) | kind, memory_order_relaxed);
}

static void handle_remember(const void *handle, enum gm_handle_kind kind, const void *image)
{
	if (!handle)
		return;
	gm_lock_take(&lock);
	struct table *t = table_reserve();
	if (t) {
		struct slot *slot = table_find(t, handle_bits(handle));
		t->used += !slot_known(slot);
		slot_set(slot, handle, kind, image);
	}
	gm_lock_release(&lock);
}

void gm_handle_remember(const void *handle, enum gm_handle_kind kind)
{
	handle_remember(handle, kind, NULL);
}

void gm_handle_remember_unread(const void *handle, const void *image)
{
	handle_remember(handle, GM_HANDLE_UNREAD, image);
}

const void *gm_handle_unread(const void *handle)
{
	gm_lock_take(&lock);
	struct table *t = atomic_load_explicit(&current, memory_order_relaxed);
	const void *image = t ? table_find(t, handle_bits(handle))->image : NULL;
	gm_lock_release(&lock);
	return image;
}

void gm_handle_read(const void *handle, const void *image, enum gm_handle_kind kind)
{
	gm_lock_take(&lock);
	struct table *t = atomic_load_explicit(&current, memory_order_relaxed);
	struct slot *slot = t ? table_find(t, handle_bits(handle)) : NULL;
	if (slot && slot->image == image)
		slot_set(slot, handle, kind, NULL);
	gm_lock_release(&lock);
}

/* --- names --- */

static const char *name_keep(const char *text)
{
	struct name *name;
	const size_t length = strlen(text);
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_FIND(hh, names, text, length, name);
	if (name)
		return name->text;
	name = calloc(1, sizeof *name + length + 1);
	if (!name)
		return NULL;
	memcpy(name->text, text, length);
	HASH_ADD_KEYPTR(hh, names, name->text, length, name);
	if (gm_hash_failed(name)) {
		free(name);
		return NULL;
	}
	return name->text;
}

void gm_handle_put_name(const void *handle, const char *name)
{
	gm_lock_take(&lock);
	struct table *t = atomic_load_explicit(&current, memory_order_relaxed);
	struct slot *slot = t && handle ? table_find(t, handle_bits(handle)) : NULL;
	if (slot && slot_known(slot))
		atomic_store_explicit(&slot->name, name_keep(name), memory_order_release);
	gm_lock_release(&lock);
}

const char *gm_handle_name(const void *handle)
{
	struct table *t = atomic_load_explicit(&current, memory_order_acquire);
	return t ? atomic_load_explicit(&table_find(t, handle_bits(handle))->name,
					memory_order_acquire)
		 : NULL;
}

void gm_handle_forget_all(void)
{
	names = NULL;
	atomic_store_explicit(&current, NULL, memory_order_relaxed);
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
}
