/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/foreign/foreign.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "log/count.h"
#include "shim/foreign/account.h"
#include "shim/foreign/managed.h"

struct entry {
	struct gm_foreign piece; /* the table's key: `key` and `space`, side by side */
	UT_hash_handle hh;
};

#define KEY_SIZE (sizeof(uint64_t) * 2)
_Static_assert(offsetof(struct gm_foreign, space) == sizeof(uint64_t), "the key is one piece");

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static struct entry *table;
static atomic_bool any; /* avoids the lock while there never was a piece */
static atomic_uint_fast64_t last_id;

/* Ids of blocks count up from 0, these ids down from the top. */
uint64_t gm_foreign_next_id(void)
{
	return UINT64_MAX - atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed);
}

static struct entry *piece_find(uint64_t space, uint64_t key)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	const uint64_t name[2] = {key, space};
	struct entry *e;
	HASH_FIND(hh, table, name, KEY_SIZE, e);
	return e;
}

static void piece_unlink(struct entry *e)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_DEL(table, e);
}

/* Count a piece as freed after a missed free, or with its context or graph. */
static void piece_lost(const struct gm_foreign *f)
{
	gm_account_out(f->kind, f->ordinal, f->size);
	gm_account_freed(f->kind, f->ordinal, f->size);
}

/* `count` runs under the lock, so that a free of the piece finds it counted. */
static void piece_insert(const struct gm_foreign *piece,
			 void (*count)(enum gm_foreign_kind kind, unsigned ordinal, size_t size))
{
	struct entry *e = malloc(sizeof *e);
	if (!e)
		return;
	e->piece = *piece;
	gm_lock_take(&lock);
	/* The driver reuses a name only after a free, which we missed here. */
	struct entry *stale = piece_find(piece->space, piece->key);
	if (stale) {
		piece_unlink(stale);
		piece_lost(&stale->piece);
	}
	HASH_ADD(hh, table, piece.key, KEY_SIZE, e);
	bool failed = gm_hash_failed(e);
	if (!failed) {
		atomic_store_explicit(&any, true, memory_order_relaxed);
		count(piece->kind, piece->ordinal, piece->size);
	}
	gm_lock_release(&lock);
	free(stale);
	if (failed)
		free(e);
}

void gm_foreign_add(const struct gm_foreign *piece)
{
	piece_insert(piece, gm_account_given);
	gm_shim_happened(gm_clock_ns());
}

void gm_foreign_add_here(struct gm_foreign piece)
{
	CUresult ignored;
	const struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	if (!context)
		return;
	piece.ordinal = context->ordinal;
	piece.context = context->key;
	gm_foreign_add(&piece);
}

bool gm_foreign_take(enum gm_foreign_space space, uint64_t key, struct gm_foreign *piece)
{
	*piece = (struct gm_foreign){.key = key, .space = space, .kind = GM_FOREIGN_KINDS};
	if (!key || !atomic_load_explicit(&any, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	struct entry *e = piece_find(space, key);
	if (e) {
		piece_unlink(e);
		gm_account_out(e->piece.kind, e->piece.ordinal, e->piece.size);
	}
	gm_lock_release(&lock);
	if (!e)
		return false;
	*piece = e->piece;
	free(e);
	return true;
}

CUresult gm_foreign_took(const struct gm_foreign *piece, bool known, CUresult result)
{
	if (known && result != CUDA_SUCCESS)
		piece_insert(piece, gm_account_back);
	else if (known)
		gm_account_freed(piece->kind, piece->ordinal, piece->size);
	else if (result == CUDA_SUCCESS && piece->key)
		gm_counter_add(0, GM_C_foreign_unknown, 1);
	if (known && piece->kind == GM_FOREIGN_MANAGED)
		gm_managed_changed();
	return result;
}

bool gm_foreign_find(enum gm_foreign_space space, uint64_t key, struct gm_foreign *piece)
{
	if (!atomic_load_explicit(&any, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	const struct entry *e = piece_find(space, key);
	if (e)
		*piece = e->piece;
	gm_lock_release(&lock);
	return e != NULL;
}

static void pieces_gone(bool (*goes)(const struct gm_foreign *f, uint64_t with), uint64_t with,
			void (*each)(const struct gm_foreign *gone))
{
	struct entry *e, *next, *list = NULL;
	gm_lock_take(&lock);
	HASH_ITER(hh, table, e, next)
	{
		if (!goes(&e->piece, with))
			continue;
		piece_unlink(e);
		piece_lost(&e->piece);
		e->hh.next = list;
		list = e;
	}
	gm_lock_release(&lock);
	while ((e = list)) {
		list = e->hh.next;
		if (each)
			each(&e->piece);
		free(e);
	}
}

static bool piece_of_context(const struct gm_foreign *f, uint64_t key)
{
	return f->context == key;
}

static bool piece_of_group(const struct gm_foreign *f, uint64_t group)
{
	return f->group == group;
}

void gm_foreign_context_gone(uint64_t key, void (*each)(const struct gm_foreign *gone))
{
	pieces_gone(piece_of_context, key, each);
	gm_managed_changed();
}

void gm_foreign_group_gone(uint64_t group)
{
	pieces_gone(piece_of_group, group, NULL);
}

void gm_foreign_each(enum gm_foreign_kind kind,
		     void (*each)(void *arg, const struct gm_foreign *piece), void *arg)
{
	const struct entry *e, *next;
	if (!atomic_load_explicit(&any, memory_order_relaxed))
		return;
	gm_lock_take(&lock);
	HASH_ITER(hh, table, e, next)
	if (e->piece.kind == kind)
		each(arg, &e->piece);
	gm_lock_release(&lock);
}

void gm_foreign_forget_all(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	table = NULL;
	atomic_store(&any, false);
}
