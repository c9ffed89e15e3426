/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/extent.h"

#include <stdlib.h>

#include "base/debug.h"
#include "base/size.h"

#define ARENA 128    /* extents made at a time */
#define NEAR_FITS 16 /* misaligned candidates looked at before a roomier one is asked for */

struct gm_extent_arena {
	struct gm_extent_arena *next;
	struct gm_extent extents[ARENA];
};

static uint64_t length_of(const struct gm_extent *extent)
{
	return GM_GET(extent->piece.held);
}

static CUdeviceptr base_of(const struct gm_extent *extent)
{
	return GM_GET(extent->piece.base);
}

/* --- making and dropping extents --- */

void gm_extents_open(struct gm_extents *extents, struct gm_table *table)
{
	*extents = (struct gm_extents){.table = table, .random = 2463534242u};
}

void gm_extents_close(struct gm_extents *extents)
{
	for (struct gm_extent_arena *arena = extents->arenas, *next; arena; arena = next) {
		next = arena->next;
		free(arena);
	}
	*extents = (struct gm_extents){0};
}

bool gm_extents_reserve(struct gm_extents *extents, size_t n)
{
	while (extents->n_unused < extents->n_promised + n) {
		struct gm_extent_arena *arena = gm_piece_memory(sizeof *arena);
		if (!arena)
			return false;
		arena->next = extents->arenas;
		extents->arenas = arena;
		for (int i = ARENA - 1; i >= 0; i--) {
			arena->extents[i].left = extents->unused;
			extents->unused = &arena->extents[i];
		}
		extents->n_unused += ARENA;
		extents->n_all += ARENA;
	}
	return true;
}

bool gm_extents_promise(struct gm_extents *extents)
{
	if (!gm_extents_reserve(extents, 1))
		return false;
	extents->n_promised++;
	return true;
}

void gm_extents_absolve(struct gm_extents *extents)
{
	GM_ASSERT(extents->n_promised > 0);
	extents->n_promised--;
}

static void set(struct gm_extent *extent, enum gm_state state, CUdeviceptr base, uint64_t length)
{
	struct gm_piece *piece = &extent->piece;
	gm_piece_begin(piece);
	GM_SET(piece->state, state);
	GM_SET(piece->base, base);
	GM_SET(piece->held, length);
	GM_SET(piece->size, 0);
	GM_SET(piece->id, 0);
	GM_SET(piece->context, 0);
	gm_piece_end(piece);
}

static struct gm_extent *make(struct gm_extents *extents, CUdeviceptr base, uint64_t length)
{
	struct gm_extent *extent = extents->unused;
	GM_ASSERT(extent && "extents are reserved before they are needed");
	extents->unused = extent->left;
	extents->n_unused--;
	extent->before = extent->after = NULL;
	set(extent, GM_IDLE, base, length);
	return extent;
}

static void drop(struct gm_extents *extents, struct gm_extent *extent)
{
	set(extent, GM_UNUSED, 0, 0);
	extent->before = extent->after = NULL;
	extent->left = extents->unused;
	extents->unused = extent;
	extents->n_unused++;
}

bool gm_extent_each(const struct gm_extents *extents,
		    bool (*each)(void *arg, struct gm_extent *extent), void *arg)
{
	for (struct gm_extent_arena *arena = extents->arenas; arena; arena = arena->next)
		for (unsigned i = 0; i < ARENA; i++)
			if (GM_GET(arena->extents[i].piece.state) != GM_UNUSED &&
			    !each(arg, &arena->extents[i]))
				return false;
	return true;
}

/* --- the treap of idle extents --- */

static bool is_before(const struct gm_extent *a, uint64_t length, CUdeviceptr base)
{
	return length_of(a) < length || (length_of(a) == length && base_of(a) < base);
}

static unsigned bin_of(uint64_t length)
{
	return 63 - (unsigned)__builtin_clzll(length);
}

static void insert(struct gm_extents *extents, struct gm_extent *extent)
{
	uint64_t length = length_of(extent);
	CUdeviceptr base = base_of(extent);
	uint32_t r = extents->random;
	r ^= r << 13, r ^= r >> 17, r ^= r << 5;
	extent->priority = extents->random = r;
	struct gm_extent **link = &extents->root;
	while (*link && (*link)->priority >= r)
		link = is_before(*link, length, base) ? &(*link)->right : &(*link)->left;
	/* Split the subtree there into what is before and what is after the new one. */
	struct gm_extent *rest = *link, **before = &extent->left, **after = &extent->right;
	*link = extent;
	while (rest) {
		if (is_before(rest, length, base)) {
			*before = rest;
			before = &rest->right;
			rest = rest->right;
		} else {
			*after = rest;
			after = &rest->left;
			rest = rest->left;
		}
	}
	*before = *after = NULL;
	extents->n_idle++;
	extents->idle_histogram[bin_of(length)]++;
	extents->idle_bytes[bin_of(length)] += length;
}

static void take_out(struct gm_extents *extents, struct gm_extent *extent)
{
	uint64_t length = length_of(extent);
	struct gm_extent **link = &extents->root;
	while (*link != extent) {
		GM_ASSERT(*link && "an idle extent is in the treap");
		link = is_before(*link, length, base_of(extent)) ? &(*link)->right : &(*link)->left;
	}
	struct gm_extent *left = extent->left, *right = extent->right;
	while (left && right) {
		if (left->priority >= right->priority) {
			*link = left;
			link = &left->right;
			left = left->right;
		} else {
			*link = right;
			link = &right->left;
			right = right->left;
		}
	}
	*link = left ? left : right;
	extents->n_idle--;
	extents->idle_histogram[bin_of(length)]--;
	extents->idle_bytes[bin_of(length)] -= length;
}

/* The first idle extent that is not before (length, base). */
static struct gm_extent *first_from(const struct gm_extents *extents, uint64_t length,
				    CUdeviceptr base)
{
	struct gm_extent *best = NULL;
	for (struct gm_extent *at = extents->root; at;) {
		if (is_before(at, length, base)) {
			at = at->right;
		} else {
			best = at;
			at = at->left;
		}
	}
	return best;
}

struct gm_extent *gm_extent_longest(const struct gm_extents *extents)
{
	struct gm_extent *at = extents->root;
	while (at && at->right)
		at = at->right;
	return at;
}

static struct gm_extent *list(struct gm_extent *at, uint64_t length, struct gm_extent *tail)
{
	if (!at)
		return tail;
	tail = list(at->right, length, tail);
	if (length_of(at) < length)
		return tail;
	at->piece.next = tail ? &tail->piece : NULL;
	return list(at->left, length, at);
}

struct gm_extent *gm_extent_list_idle(const struct gm_extents *extents, uint64_t length)
{
	return list(extents->root, length, NULL);
}

static struct gm_extent *idle_at(struct gm_extent *at, CUdeviceptr address)
{
	struct gm_extent *found = NULL;
	for (; at && !found; at = at->right) {
		if (address - base_of(at) < length_of(at))
			return at;
		found = idle_at(at->left, address);
	}
	return found;
}

struct gm_extent *gm_extent_idle_at(const struct gm_extents *extents, CUdeviceptr address)
{
	return idle_at(extents->root, address);
}

/* --- cutting and joining --- */

static void link_up(struct gm_extent *a, struct gm_extent *b)
{
	if (a)
		a->after = b;
	if (b)
		b->before = a;
}

static bool is_idle(const struct gm_extent *extent)
{
	return extent && GM_GET(extent->piece.state) == GM_IDLE;
}

/* Join an extent that is out of the treap with its idle neighbours, and put the whole in. */
static void settle(struct gm_extents *extents, struct gm_extent *extent)
{
	struct gm_extent *before = extent->before, *after = extent->after;
	CUdeviceptr base = base_of(extent);
	uint64_t length = length_of(extent);
	if (is_idle(before)) {
		take_out(extents, before);
		base = base_of(before);
		length += length_of(before);
		link_up(before->before, extent);
		drop(extents, before);
	}
	if (is_idle(after)) {
		take_out(extents, after);
		length += length_of(after);
		link_up(extent, after->after);
		drop(extents, after);
	}
	set(extent, GM_IDLE, base, length);
	gm_table_enter_ends(extents->table, extent);
	insert(extents, extent);
}

void gm_extent_add(struct gm_extents *extents, CUdeviceptr base, uint64_t length)
{
	struct gm_extent *before = gm_table_ends_at(extents->table, base);
	struct gm_extent *after = gm_table_begins_at(extents->table, base + length);
	gm_extents_absolve(extents);
	struct gm_extent *extent = make(extents, base, length);
	link_up(before, extent);
	link_up(extent, after);
	settle(extents, extent);
}

void gm_extent_give(struct gm_extents *extents, struct gm_extent *extent)
{
	settle(extents, extent);
}

/* Where a block would begin in an idle extent; 0: it does not fit. */
static CUdeviceptr place(const struct gm_extent *extent, uint64_t length, uint64_t align)
{
	CUdeviceptr at = gm_round_up(base_of(extent), align);
	uint64_t gap = at - base_of(extent);
	return length_of(extent) >= gap && length_of(extent) - gap >= length ? at : 0;
}

static struct gm_extent *best_fit(const struct gm_extents *extents, uint64_t length, uint64_t align)
{
	struct gm_extent *at = first_from(extents, length, 0);
	for (unsigned i = 0; at && i < NEAR_FITS; i++) {
		if (place(at, length, align))
			return at;
		at = first_from(extents, length_of(at), base_of(at) + 1);
	}
	return at ? first_from(extents, length + align - 1, 0) : NULL;
}

/* What is left of an idle extent after a cut: idle again, between its old neighbours. */
static void leave(struct gm_extents *extents, struct gm_extent *extent)
{
	gm_table_enter_ends(extents->table, extent);
	insert(extents, extent);
}

struct gm_extent *gm_extent_take(struct gm_extents *extents, uint64_t length, uint64_t align)
{
	struct gm_extent *extent = best_fit(extents, length, align);
	if (!extent)
		return NULL;
	take_out(extents, extent);
	CUdeviceptr base = base_of(extent), at = place(extent, length, align);
	CUdeviceptr end = base + length_of(extent);
	if (at > base) {
		struct gm_extent *front = make(extents, base, at - base);
		link_up(extent->before, front);
		link_up(front, extent);
		leave(extents, front);
	}
	if (at + length < end) {
		struct gm_extent *tail = make(extents, at + length, end - at - length);
		link_up(tail, extent->after);
		link_up(extent, tail);
		leave(extents, tail);
	}
	if (length_of(extent) != length)
		set(extent, GM_IDLE, at, length);
	return extent;
}

void gm_extent_use(struct gm_extents *extents, struct gm_extent *extent, enum gm_state state,
		   struct gm_slab *slab)
{
	gm_piece_begin(&extent->piece);
	GM_SET(extent->piece.state, state);
	GM_SET(extent->slab, slab);
	gm_piece_end(&extent->piece);
	gm_table_enter(extents->table, extent);
}

struct gm_extent *gm_extent_remove(struct gm_extents *extents, struct gm_extent *idle,
				   CUdeviceptr base, uint64_t length)
{
	CUdeviceptr from = base_of(idle), end = from + length_of(idle);
	GM_ASSERT(is_idle(idle) && base >= from && base + length <= end);
	take_out(extents, idle);
	struct gm_extent *rest = NULL, *after = idle->after;
	if (base + length < end) {
		rest = make(extents, base + length, end - base - length);
		link_up(rest, after);
		leave(extents, rest);
	} else if (after) {
		after->before = NULL;
	}
	if (base > from) {
		idle->after = NULL;
		set(idle, GM_IDLE, from, base - from);
		leave(extents, idle);
	} else {
		if (idle->before)
			idle->before->after = NULL;
		drop(extents, idle);
	}
	return rest;
}

/* --- checking --- */

struct walk {
	const struct gm_extent *last;
	uint64_t n, histogram[64], bytes[64];
};

static const char *check(const struct gm_extent *at, struct walk *walk)
{
	if (!at)
		return NULL;
	if ((at->left && at->left->priority > at->priority) ||
	    (at->right && at->right->priority > at->priority))
		return "the treap of idle extents is a heap";
	const char *why = check(at->left, walk);
	if (why)
		return why;
	if (!is_idle(at))
		return "the treap holds idle extents only";
	if (walk->last && !is_before(walk->last, length_of(at), base_of(at)))
		return "the treap of idle extents is in order";
	walk->last = at;
	walk->n++;
	walk->histogram[bin_of(length_of(at))]++;
	walk->bytes[bin_of(length_of(at))] += length_of(at);
	return check(at->right, walk);
}

const char *gm_extents_check(const struct gm_extents *extents)
{
	struct walk walk = {0};
	const char *why = check(extents->root, &walk);
	if (why)
		return why;
	if (walk.n != extents->n_idle)
		return "idle extents are counted";
	for (unsigned i = 0; i < 64; i++)
		if (walk.histogram[i] != extents->idle_histogram[i] ||
		    walk.bytes[i] != extents->idle_bytes[i])
			return "idle extents are counted by size";
	return NULL;
}
