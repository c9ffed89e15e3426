/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue of batches: lists of retired pieces that become usable as a whole, in the order of their
 * numbers, which grow. Nothing here walks a list, for each piece is a cache line, most likely in
 * another processor's cache: a batch is added and taken in O(1).
 */
#ifndef GM_POOL_BATCH_H
#define GM_POOL_BATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Those that wait for a fence, GM_RETIRE_FENCES of them, and as many that have passed. */
#define GM_BATCHES 128

struct gm_piece;

/* Pieces, linked through piece->next, which end with NULL; `bytes` is what they hold. */
struct gm_retiring {
	struct gm_piece *first, *last;
	uint64_t n, bytes;
};

struct gm_batch {
	struct gm_retiring list; /* not empty */
	uint64_t number;	 /* usable once that many retirements have passed */
};

/* All zeros: none. */
struct gm_batches {
	unsigned first, n;
	struct gm_batch ring[GM_BATCHES]; /* oldest first, from `first` on */
};

/* The pieces of `list`, at least one, come with the batch of that number, the greatest so far. With
 * `join`, or where there is no place, the newest batch gets them, and that number: it only waits
 * longer. */
void gm_batch_add(struct gm_batches *batches, const struct gm_retiring *list, uint64_t number,
		  bool join);

/* The number of the oldest one; UINT64_MAX: there is none. */
uint64_t gm_batch_oldest(const struct gm_batches *batches);

/* Take the oldest ones with numbers up to `passed`, in their order: one, if there is any, and more
 * as long as they are not above `most` pieces together. */
struct gm_retiring gm_batch_take(struct gm_batches *batches, uint64_t passed, uint64_t most);

/* NULL, or the invariant that is broken: `n` pieces in all, and `newest` the last number. */
const char *gm_batch_check(const struct gm_batches *batches, uint64_t n, uint64_t newest);

#endif
