/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extents: all mapped addresses of a pool, cut into runs that are idle or in use.
 *
 *     chunk A                chunk B                chunk C
 *     |----------------------|----------------------|         |----------
 *     [ used ][ used ][      idle      ][   used    ] unmapped [  idle
 *
 * Every extent points to the extents that touch it. No two idle extents touch, nor two hot ones
 * (hot.h): they are joined, across chunks too. Both kinds are in a treap by (length, address), for
 * best fit.
 *
 * The pool's lock guards everything here; the caller holds it.
 */
#ifndef GM_POOL_EXTENT_H
#define GM_POOL_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/block.h"
#include "pool/hot.h"

struct gm_extent {
	struct gm_piece piece;		  /* base, held (the length), state, block */
	_Atomic(struct gm_slab *) slab;	  /* while the state is GM_SLAB */
	struct gm_extent *before, *after; /* the extents that touch it, or NULL */
	struct gm_extent *left, *right;	  /* in the treap, while idle; left: the next unused */
	uint32_t priority;
};

struct gm_extent_arena;

struct gm_extents {
	struct gm_table *table;
	struct gm_extent *root;				     /* of the treap */
	uint64_t n_idle, idle_histogram[64], idle_bytes[64]; /* by floor(log2(length)) */
	uint64_t n_hot;
	struct gm_hot hot; /* of hot extents, and of the free slots of hot slabs */
	struct gm_extent *unused;
	size_t n_unused, n_promised, n_all;
	struct gm_extent_arena *arenas;
	uint32_t random;
};

void gm_extents_open(struct gm_extents *extents, struct gm_table *table);
void gm_extents_close(struct gm_extents *extents);

/* Make sure that `n` extents can be made without host memory until the lock is released, besides
 * the promised ones. False: no host memory. */
bool gm_extents_reserve(struct gm_extents *extents, size_t n);

/* Promise: reserve one extent for a later gm_extent_add; the promise outlasts the lock. False: no
 * host memory. Absolve: end a promise that is not needed. */
bool gm_extents_promise(struct gm_extents *extents);
void gm_extents_absolve(struct gm_extents *extents);

/* Make newly mapped addresses idle. Uses one promised extent. */
void gm_extent_add(struct gm_extents *extents, CUdeviceptr base, uint64_t length);

/* Put newly mapped addresses into use in this state. Uses one promised extent. */
struct gm_extent *gm_extent_add_used(struct gm_extents *extents, CUdeviceptr base, uint64_t length,
				     enum gm_state state);

/* The shortest idle extent that holds `length` bytes at a multiple of `align` (a power of two up to
 * 2 MiB), cut to size; NULL: none. It is no longer in the treap; the caller calls gm_extent_use.
 * Uses up to two reserved extents. */
struct gm_extent *gm_extent_take(struct gm_extents *extents, uint64_t length, uint64_t align);

/* Would gm_extent_take find an extent? */
bool gm_extents_fit(const struct gm_extents *extents, uint64_t length, uint64_t align);

/* Put a taken extent into use in this state. `slab` is NULL except for GM_SLAB. */
void gm_extent_use(struct gm_extents *extents, struct gm_extent *extent, enum gm_state state,
		   struct gm_slab *slab);

/* Make an extent in use idle, or hot if it has a stamp, and join it with its neighbours of that
 * kind. */
void gm_extent_give(struct gm_extents *extents, struct gm_extent *extent);

/* Take [base, +length), which will be unmapped, out of the idle extent that holds it. Returns the
 * idle extent behind it, or NULL. Uses one reserved extent. */
struct gm_extent *gm_extent_remove(struct gm_extents *extents, struct gm_extent *idle,
				   CUdeviceptr base, uint64_t length);

/* --- hot extents --- */

/* A hot extent leaves the treap and becomes retired. */
void gm_extent_take_hot(struct gm_extents *extents, struct gm_extent *extent);

/* Hot extents with stamps up to this one become idle. */
void gm_extents_cool(struct gm_extents *extents, uint64_t stamp);

/* Join hot extents with idle neighbours; false: there was no such pair. */
bool gm_extents_join_hot(struct gm_extents *extents);

/* --- */

/* The longest extent, idle or hot, or NULL; the longest idle one. */
struct gm_extent *gm_extent_longest(const struct gm_extents *extents);
const struct gm_extent *gm_extent_longest_idle(const struct gm_extents *extents);

/* The idle or hot extent that holds an address, or NULL. */
struct gm_extent *gm_extent_idle_at(const struct gm_extents *extents, CUdeviceptr address);

/* The idle and hot extents of at least `length` bytes, shortest first, linked through piece.next.
 */
struct gm_extent *gm_extent_list_idle(const struct gm_extents *extents, uint64_t length);

/* Call `each` for every extent, idle or in use, in no order, until it returns false; then false. */
bool gm_extent_each(const struct gm_extents *extents,
		    bool (*each)(void *arg, struct gm_extent *extent), void *arg);

/* NULL, or the broken invariant of the treap. */
const char *gm_extents_check(const struct gm_extents *extents);

#endif
