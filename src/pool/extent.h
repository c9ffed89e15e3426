/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extents: all mapped addresses of a pool, cut into runs that are idle or in use. Every extent
 * knows the ones that touch it; idle ones never touch, whatever chunks they lie in. Idle extents
 * stand in a treap by (length, address) for best fit. Called under the pool's lock.
 */
#ifndef GM_POOL_EXTENT_H
#define GM_POOL_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/block.h"

struct gm_extent {
	struct gm_piece piece;		  /* base, held (the length) and what is there */
	_Atomic(struct gm_slab *) slab;	  /* while the state is GM_SLAB */
	struct gm_extent *before, *after; /* those that touch it, or NULL */
	struct gm_extent *left, *right;	  /* treap, while idle; left: next unused one */
	uint32_t priority;
};

struct gm_extent_arena;

struct gm_extents {
	struct gm_table *table;
	struct gm_extent *root;				     /* idle ones */
	uint64_t n_idle, idle_histogram[64], idle_bytes[64]; /* by floor(log2(length)) */
	struct gm_extent *unused;
	size_t n_unused, n_promised, n_all;
	struct gm_extent_arena *arenas;
	uint32_t random;
};

void gm_extents_open(struct gm_extents *extents, struct gm_table *table);
void gm_extents_close(struct gm_extents *extents);

/* Make sure that `n` more extents, beyond the promised ones, can be made without asking for host
 * memory before the lock is dropped. False: no host memory. */
bool gm_extents_reserve(struct gm_extents *extents, size_t n);

/* Promise one extent to a later gm_extent_add, which may come after the lock was dropped. */
bool gm_extents_promise(struct gm_extents *extents);
void gm_extents_absolve(struct gm_extents *extents);

/* Freshly mapped addresses become idle; keeps one promise. */
void gm_extent_add(struct gm_extents *extents, CUdeviceptr base, uint64_t length);

/* The shortest idle extent that holds `length` bytes at a multiple of `align` (a power of two up to
 * 2 MiB), cut to size; NULL: none. It is out of the treap; the caller calls gm_extent_use. Takes up
 * to two reserved extents. */
struct gm_extent *gm_extent_take(struct gm_extents *extents, uint64_t length, uint64_t align);

/* A taken extent comes into use as `state`. `slab` is NULL but for GM_SLAB. */
void gm_extent_use(struct gm_extents *extents, struct gm_extent *extent, enum gm_state state,
		   struct gm_slab *slab);

/* An extent in use becomes idle, and one with its idle neighbours. */
void gm_extent_give(struct gm_extents *extents, struct gm_extent *extent);

/* Take [base, +length) out of the idle extent that holds it, because it will be unmapped. Returns
 * the idle extent that is left behind it, or NULL. Takes one reserved extent. */
struct gm_extent *gm_extent_remove(struct gm_extents *extents, struct gm_extent *idle,
				   CUdeviceptr base, uint64_t length);

/* The longest idle extent; the next shorter one; NULL at the end. */
struct gm_extent *gm_extent_longest(const struct gm_extents *extents);

/* The idle extent that holds an address; NULL: none does. */
struct gm_extent *gm_extent_idle_at(const struct gm_extents *extents, CUdeviceptr address);

/* The idle extents of at least `length` bytes, shortest first, linked through piece.next. */
struct gm_extent *gm_extent_list_idle(const struct gm_extents *extents, uint64_t length);

/* Call `each` for every extent that is not unused, in no order, until it returns false; false
 * then. */
bool gm_extent_each(const struct gm_extents *extents,
		    bool (*each)(void *arg, struct gm_extent *extent), void *arg);

/* NULL, or the invariant of the treap that is broken. */
const char *gm_extents_check(const struct gm_extents *extents);

#endif
