/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/extent.h"

#include <stdlib.h>

#include "base/debug.h"
#include "base/lock.h"
#include "base/size.h"

#define ARENA 128    /* extents made at a time */
#define NEAR_FITS 16 /* candidates tried, before one that is long enough at any alignment */

struct gm_extent_arena {
	struct gm_extent_arena *next;
	struct gm_extent extents[ARENA];
};

static uint64_t extent_length(const struct gm_extent *extent)
{
	return GM_GET(extent->piece.held);
}

static CUdeviceptr extent_base(const struct gm_extent *extent)
{
	return GM_GET(extent->piece.base);
}

/* --- unused extents --- */

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
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
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
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!gm_extents_reserve(extents, 1))
		return false;
	extents->n_promised++;
	return true;
}

void gm_extents_absolve(struct gm_extents *extents)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	GM_ASSERT(extents->n_promised > 0);
	extents->n_promised--;
}

static void extent_set(struct gm_extent *extent, enum gm_state state, CUdeviceptr base,
		       uint64_t length)
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

static struct gm_extent *extent_make(struct gm_extents *extents, CUdeviceptr base, uint64_t length)
{
	struct gm_extent *extent = extents->unused;
	GM_ASSERT(extent && "extents are reserved before they are needed");
	extents->unused = extent->left;
	extents->n_unused--;
	extent->before = extent->after = NULL;
	extent->piece.stamp = 0;
	extent_set(extent, GM_IDLE, base, length);
	return extent;
}

static void extent_drop(struct gm_extents *extents, struct gm_extent *extent)
{
	extent_set(extent, GM_UNUSED, 0, 0);
	extent->before = extent->after = NULL;
	extent->left = extents->unused;
	extents->unused = extent;
	extents->n_unused++;
}

bool gm_extent_each(const struct gm_extents *extents,
		    bool (*each)(void *arg, struct gm_extent *extent), void *arg)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (struct gm_extent_arena *arena = extents->arenas; arena; arena = arena->next)
		for (unsigned i = 0; i < ARENA; i++)
			if (GM_GET(arena->extents[i].piece.state) != GM_UNUSED &&
			    !each(arg, &arena->extents[i]))
				return false;
	return true;
}

/* --- the treap of idle extents --- */

static bool node_is_before(const struct gm_extent *a, uint64_t length, CUdeviceptr base)
{
	return extent_length(a) < length || (extent_length(a) == length && extent_base(a) < base);
}

static unsigned length_bin(uint64_t length)
{
	return 63 - (unsigned)__builtin_clzll(length);
}

/* An extent enters (`n` is 1) or leaves the treap. */
static void treap_count(struct gm_extents *extents, const struct gm_extent *extent, uint64_t n)
{
	uint64_t length = extent_length(extent);
	if (extent->piece.stamp) {
		extents->n_hot += n;
		gm_hot_count(&extents->hot, n * length);
		return;
	}
	extents->n_idle += n;
	extents->idle_histogram[length_bin(length)] += n;
	extents->idle_bytes[length_bin(length)] += n * length;
}

static void treap_insert(struct gm_extents *extents, struct gm_extent *extent)
{
	uint64_t length = extent_length(extent);
	CUdeviceptr base = extent_base(extent);
	uint32_t r = extents->random;
	r ^= r << 13, r ^= r >> 17, r ^= r << 5;
	extent->priority = extents->random = r;
	struct gm_extent **link = &extents->root;
	while (*link && (*link)->priority >= r)
		link = node_is_before(*link, length, base) ? &(*link)->right : &(*link)->left;
	/* Split the subtree at the new node: the nodes before it, and the nodes after it. */
	struct gm_extent *rest = *link, **before = &extent->left, **after = &extent->right;
	*link = extent;
	while (rest) {
		if (node_is_before(rest, length, base)) {
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
	treap_count(extents, extent, 1);
}

static void treap_remove(struct gm_extents *extents, struct gm_extent *extent)
{
	uint64_t length = extent_length(extent);
	struct gm_extent **link = &extents->root;
	while (*link != extent) {
		GM_ASSERT(*link && "an idle extent is in the treap");
		link = node_is_before(*link, length, extent_base(extent)) ? &(*link)->right
									  : &(*link)->left;
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
	treap_count(extents, extent, (uint64_t)-1);
}

/* The first idle extent that is not before (length, base). */
static struct gm_extent *treap_first_from(const struct gm_extents *extents, uint64_t length,
					  CUdeviceptr base)
{
	struct gm_extent *best = NULL;
	for (struct gm_extent *at = extents->root; at;) {
		if (node_is_before(at, length, base)) {
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
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_extent *at = extents->root;
	while (at && at->right)
		at = at->right;
	return at;
}

static const struct gm_extent *longest_idle(const struct gm_extent *at)
{
	if (!at)
		return NULL;
	const struct gm_extent *right = longest_idle(at->right);
	if (right || !at->piece.stamp)
		return right ? right : at;
	return longest_idle(at->left);
}

const struct gm_extent *gm_extent_longest_idle(const struct gm_extents *extents)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return longest_idle(extents->root);
}

static struct gm_extent *idle_list(struct gm_extent *at, uint64_t length, struct gm_extent *tail)
{
	if (!at)
		return tail;
	tail = idle_list(at->right, length, tail);
	if (extent_length(at) < length)
		return tail;
	at->piece.next = tail ? &tail->piece : NULL;
	return idle_list(at->left, length, at);
}

struct gm_extent *gm_extent_list_idle(const struct gm_extents *extents, uint64_t length)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return idle_list(extents->root, length, NULL);
}

static struct gm_extent *idle_find(struct gm_extent *at, CUdeviceptr address)
{
	struct gm_extent *found = NULL;
	for (; at && !found; at = at->right) {
		if (address - extent_base(at) < extent_length(at))
			return at;
		found = idle_find(at->left, address);
	}
	return found;
}

struct gm_extent *gm_extent_idle_at(const struct gm_extents *extents, CUdeviceptr address)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return idle_find(extents->root, address);
}

/* --- cutting and joining --- */

static void extent_link(struct gm_extent *a, struct gm_extent *b)
{
	if (a)
		a->after = b;
	if (b)
		b->before = a;
}

static bool extent_is_idle(const struct gm_extent *extent)
{
	return extent && GM_GET(extent->piece.state) == GM_IDLE;
}

/* Join with this neighbour? Hot and idle extents stay apart, unless `any`. */
static bool extent_joins(const struct gm_extent *extent, const struct gm_extent *other, bool any)
{
	return extent_is_idle(other) && (any || !extent->piece.stamp == !other->piece.stamp);
}

static void stamp_raise(struct gm_extent *extent, const struct gm_extent *other)
{
	if (extent->piece.stamp < other->piece.stamp)
		extent->piece.stamp = other->piece.stamp;
}

/* Join an extent outside the treap with its idle neighbours, and insert the joined extent. */
static void idle_join(struct gm_extents *extents, struct gm_extent *extent, bool any)
{
	struct gm_extent *before = extent->before, *after = extent->after;
	CUdeviceptr base = extent_base(extent);
	uint64_t length = extent_length(extent);
	bool joins_after = extent_joins(extent, after, any);
	if (extent_joins(extent, before, any)) {
		treap_remove(extents, before);
		base = extent_base(before);
		length += extent_length(before);
		stamp_raise(extent, before);
		extent_link(before->before, extent);
		extent_drop(extents, before);
	}
	if (joins_after) {
		treap_remove(extents, after);
		length += extent_length(after);
		stamp_raise(extent, after);
		extent_link(extent, after->after);
		extent_drop(extents, after);
	}
	extent_set(extent, GM_IDLE, base, length);
	gm_table_enter_ends(extents->table, extent);
	treap_insert(extents, extent);
}

static struct gm_extent *extent_add(struct gm_extents *extents, CUdeviceptr base, uint64_t length)
{
	struct gm_extent *before = gm_table_ends_at(extents->table, base);
	struct gm_extent *after = gm_table_begins_at(extents->table, base + length);
	gm_extents_absolve(extents);
	struct gm_extent *extent = extent_make(extents, base, length);
	extent_link(before, extent);
	extent_link(extent, after);
	return extent;
}

void gm_extent_add(struct gm_extents *extents, CUdeviceptr base, uint64_t length)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	idle_join(extents, extent_add(extents, base, length), false);
}

struct gm_extent *gm_extent_add_used(struct gm_extents *extents, CUdeviceptr base, uint64_t length,
				     enum gm_state state)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_extent *extent = extent_add(extents, base, length);
	gm_extent_use(extents, extent, state, NULL);
	return extent;
}

void gm_extent_give(struct gm_extents *extents, struct gm_extent *extent)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	idle_join(extents, extent, false);
}

void gm_extent_take_hot(struct gm_extents *extents, struct gm_extent *extent)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	GM_ASSERT(extent_is_idle(extent) && extent->piece.stamp);
	treap_remove(extents, extent);
	gm_extent_use(extents, extent, GM_RETIRED, NULL);
}

void gm_extents_cool(struct gm_extents *extents, uint64_t stamp)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_extent *at = extents->n_hot ? gm_extent_list_idle(extents, 1) : NULL;
	for (struct gm_piece *next; at; at = (struct gm_extent *)next) {
		next = at->piece.next;
		/* An extent that was joined with an earlier one is unused now. */
		if (!extent_is_idle(at) || !at->piece.stamp || at->piece.stamp > stamp)
			continue;
		treap_remove(extents, at);
		at->piece.stamp = 0;
		idle_join(extents, at, false);
	}
}

bool gm_extents_join_hot(struct gm_extents *extents)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	bool any = false;
	struct gm_extent *at = extents->n_hot ? gm_extent_list_idle(extents, 1) : NULL;
	for (struct gm_piece *next; at; at = (struct gm_extent *)next) {
		next = at->piece.next;
		if (!extent_is_idle(at) || !at->piece.stamp ||
		    (!extent_is_idle(at->before) && !extent_is_idle(at->after)))
			continue;
		treap_remove(extents, at);
		idle_join(extents, at, true);
		any = true;
	}
	return any;
}

/* The address of a block in an idle extent; 0: the block does not fit. */
static CUdeviceptr extent_place(const struct gm_extent *extent, uint64_t length, uint64_t align)
{
	CUdeviceptr at = gm_round_up(extent_base(extent), align);
	uint64_t gap = at - extent_base(extent);
	return extent_length(extent) >= gap && extent_length(extent) - gap >= length ? at : 0;
}

static struct gm_extent *treap_best_fit(const struct gm_extents *extents, uint64_t length,
					uint64_t align)
{
	struct gm_extent *at = treap_first_from(extents, length, 0);
	for (unsigned i = 0; at && i < NEAR_FITS; i++) {
		if (extent_place(at, length, align))
			return at;
		at = treap_first_from(extents, extent_length(at), extent_base(at) + 1);
	}
	return at ? treap_first_from(extents, length + align - 1, 0) : NULL;
}

bool gm_extents_fit(const struct gm_extents *extents, uint64_t length, uint64_t align)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return treap_best_fit(extents, length, align) != NULL;
}

/* After a cut, make the remainder, linked to its old neighbours, idle again. */
static void rest_insert(struct gm_extents *extents, struct gm_extent *extent)
{
	gm_table_enter_ends(extents->table, extent);
	treap_insert(extents, extent);
}

struct gm_extent *gm_extent_take(struct gm_extents *extents, uint64_t length, uint64_t align)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_extent *extent = treap_best_fit(extents, length, align);
	if (!extent)
		return NULL;
	treap_remove(extents, extent);
	CUdeviceptr base = extent_base(extent), at = extent_place(extent, length, align);
	CUdeviceptr end = base + extent_length(extent);
	if (at > base) {
		struct gm_extent *front = extent_make(extents, base, at - base);
		front->piece.stamp = extent->piece.stamp;
		extent_link(extent->before, front);
		extent_link(front, extent);
		rest_insert(extents, front);
	}
	if (at + length < end) {
		struct gm_extent *tail = extent_make(extents, at + length, end - at - length);
		tail->piece.stamp = extent->piece.stamp;
		extent_link(tail, extent->after);
		extent_link(extent, tail);
		rest_insert(extents, tail);
	}
	if (extent_length(extent) != length)
		extent_set(extent, GM_IDLE, at, length);
	return extent;
}

void gm_extent_use(struct gm_extents *extents, struct gm_extent *extent, enum gm_state state,
		   struct gm_slab *slab)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_piece_begin(&extent->piece);
	GM_SET(extent->piece.state, state);
	GM_SET(extent->slab, slab);
	gm_piece_end(&extent->piece);
	gm_table_enter(extents->table, extent);
}

struct gm_extent *gm_extent_remove(struct gm_extents *extents, struct gm_extent *idle,
				   CUdeviceptr base, uint64_t length)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	CUdeviceptr from = extent_base(idle), end = from + extent_length(idle);
	GM_ASSERT(extent_is_idle(idle) && base >= from && base + length <= end);
	treap_remove(extents, idle);
	struct gm_extent *rest = NULL, *after = idle->after;
	if (base + length < end) {
		rest = extent_make(extents, base + length, end - base - length);
		rest->piece.stamp = idle->piece.stamp;
		extent_link(rest, after);
		rest_insert(extents, rest);
	} else if (after) {
		after->before = NULL;
	}
	if (base > from) {
		idle->after = NULL;
		extent_set(idle, GM_IDLE, from, base - from);
		rest_insert(extents, idle);
	} else {
		if (idle->before)
			idle->before->after = NULL;
		extent_drop(extents, idle);
	}
	return rest;
}

/* --- checking --- */

struct walk {
	const struct gm_extent *last;
	uint64_t n, n_hot, histogram[64], bytes[64];
};

static const char *treap_check(const struct gm_extent *at, struct walk *walk)
{
	if (!at)
		return NULL;
	if ((at->left && at->left->priority > at->priority) ||
	    (at->right && at->right->priority > at->priority))
		return "the treap of idle extents is a heap";
	const char *why = treap_check(at->left, walk);
	if (why)
		return why;
	if (!extent_is_idle(at))
		return "the treap holds idle extents only";
	if (walk->last && !node_is_before(walk->last, extent_length(at), extent_base(at)))
		return "the treap of idle extents is in order";
	walk->last = at;
	if (at->piece.stamp) {
		walk->n_hot++;
		return treap_check(at->right, walk);
	}
	walk->n++;
	walk->histogram[length_bin(extent_length(at))]++;
	walk->bytes[length_bin(extent_length(at))] += extent_length(at);
	return treap_check(at->right, walk);
}

const char *gm_extents_check(const struct gm_extents *extents)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct walk walk = {0};
	const char *why = treap_check(extents->root, &walk);
	if (why)
		return why;
	if (walk.n != extents->n_idle || walk.n_hot != extents->n_hot)
		return "idle extents are counted";
	for (unsigned i = 0; i < 64; i++)
		if (walk.histogram[i] != extents->idle_histogram[i] ||
		    walk.bytes[i] != extents->idle_bytes[i])
			return "idle extents are counted by size";
	return NULL;
}
