/* SPDX-License-Identifier: BSD-3-Clause */
#include "foreign.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/hash.h"

struct entry {
	struct gm_foreign what; /* keyed by `key` and `space`, which lie side by side */
	UT_hash_handle hh;
};

#define KEY_SIZE (sizeof(uint64_t) * 2)
_Static_assert(offsetof(struct gm_foreign, space) == sizeof(uint64_t), "the key is one piece");

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static struct entry *table;
static atomic_size_t entries; /* saves the lock where there are none */
static uint64_t driver_bytes[GM_COUNTER_DEVICES];
static atomic_uint_fast64_t last_id;

/* They count down from the top. */
uint64_t gm_foreign_next_id(void)
{
	return UINT64_MAX - atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed);
}

/* Under the lock: the entry of a name, or NULL. */
static struct entry *lookup(uint64_t space, uint64_t key)
{
	const uint64_t name[2] = {key, space};
	struct entry *e;
	HASH_FIND(hh, table, name, KEY_SIZE, e);
	return e;
}

/* Under the lock. */
static void unlink_entry(struct entry *e)
{
	HASH_DEL(table, e);
	if (e->what.kind == GM_FOREIGN_DRIVER)
		driver_bytes[e->what.ordinal] -= e->what.size;
	atomic_fetch_sub_explicit(&entries, 1, memory_order_relaxed);
}

static void forget_piece(const struct gm_foreign *f)
{
	gm_account_out(f->kind, f->ordinal, f->size);
	gm_account_freed(f->kind, f->ordinal, f->size);
}

/* `count` is done under the lock: whoever frees the piece finds it counted. */
static void insert(const struct gm_foreign *what,
		   void (*count)(enum gm_foreign_kind kind, unsigned ordinal, size_t size))
{
	struct entry *e = malloc(sizeof *e);
	if (!e)
		return;
	e->what = *what;
	gm_lock_take(&lock);
	/* The driver hands a name out twice only if we missed the free between. */
	struct entry *stale = lookup(what->space, what->key);
	if (stale) {
		unlink_entry(stale);
		forget_piece(&stale->what);
	}
	HASH_ADD(hh, table, what.key, KEY_SIZE, e);
	bool failed = gm_hash_failed(e);
	if (!failed) {
		if (what->kind == GM_FOREIGN_DRIVER)
			driver_bytes[what->ordinal] += what->size;
		atomic_fetch_add_explicit(&entries, 1, memory_order_relaxed);
		count(what->kind, what->ordinal, what->size);
	}
	gm_lock_release(&lock);
	free(stale);
	if (failed)
		free(e);
}

void gm_foreign_add(const struct gm_foreign *what)
{
	insert(what, gm_account_given);
	gm_shim_happened(gm_clock_ns());
}

void gm_foreign_add_here(struct gm_foreign what)
{
	CUresult ignored;
	const struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	if (!context)
		return;
	what.ordinal = context->ordinal;
	what.context = context->key;
	gm_foreign_add(&what);
}

bool gm_foreign_take(enum gm_foreign_space space, uint64_t key, struct gm_foreign *what)
{
	*what = (struct gm_foreign){.key = key, .space = space, .kind = GM_FOREIGN_KINDS};
	if (!key || !atomic_load_explicit(&entries, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	struct entry *e = lookup(space, key);
	if (e) {
		unlink_entry(e);
		gm_account_out(e->what.kind, e->what.ordinal, e->what.size);
	}
	gm_lock_release(&lock);
	if (!e)
		return false;
	*what = e->what;
	free(e);
	return true;
}

CUresult gm_foreign_took(const struct gm_foreign *what, bool known, CUresult result)
{
	if (known && result != CUDA_SUCCESS)
		insert(what, gm_account_back);
	else if (known)
		gm_account_freed(what->kind, what->ordinal, what->size);
	else if (result == CUDA_SUCCESS && what->key)
		gm_counter_add(0, GM_C_foreign_unknown, 1);
	return result;
}

bool gm_foreign_look(enum gm_foreign_space space, uint64_t key, struct gm_foreign *what)
{
	if (!atomic_load_explicit(&entries, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	const struct entry *e = lookup(space, key);
	if (e)
		*what = e->what;
	gm_lock_release(&lock);
	return e != NULL;
}

static void gone(bool (*goes)(const struct gm_foreign *f, uint64_t with), uint64_t with,
		 void (*each)(const struct gm_foreign *gone))
{
	struct entry *e, *next, *list = NULL;
	gm_lock_take(&lock);
	HASH_ITER(hh, table, e, next)
	{
		if (!goes(&e->what, with))
			continue;
		unlink_entry(e);
		forget_piece(&e->what);
		e->hh.next = list;
		list = e;
	}
	gm_lock_release(&lock);
	while ((e = list)) {
		list = e->hh.next;
		if (each)
			each(&e->what);
		free(e);
	}
}

static bool of_context(const struct gm_foreign *f, uint64_t key)
{
	return f->context == key;
}

static bool of_group(const struct gm_foreign *f, uint64_t group)
{
	return f->group == group;
}

void gm_foreign_context_gone(uint64_t key, void (*each)(const struct gm_foreign *gone))
{
	gone(of_context, key, each);
}

void gm_foreign_group_gone(uint64_t group)
{
	gone(of_group, group, NULL);
}

uint64_t gm_foreign_bytes(unsigned ordinal)
{
	gm_lock_take(&lock);
	uint64_t sum = driver_bytes[ordinal];
	gm_lock_release(&lock);
	return sum;
}

void gm_foreign_forget_all(void)
{
	gm_lock_init(&lock, GM_RANK_TABLE);
	table = NULL;
	atomic_store(&entries, 0);
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		driver_bytes[i] = 0;
}
