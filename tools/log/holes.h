/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of addresses as intervals that do not touch, each as long as possible, with the longest one
 * at hand: a treap by address, in which each node knows the longest of its subtree (Seidel and
 * Aragon, "Randomized Search Trees", Algorithmica 16, 1996). Each call takes O(log n) for an
 * interval that is added or removed. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_HOLES_H
#define GM_TOOLS_LOG_HOLES_H

#include <stdint.h>

#include "base/array.h"
#include "log/record.h"

struct gm_hole {
	uint64_t from, to;
	uint64_t longest; /* of the subtree */
	uint32_t lower, upper, priority;
};

/* Begins zeroed. */
struct gm_holes {
	GM_ARRAY(struct gm_hole) nodes; /* the first one is no interval */
	uint32_t root, free, random;
	/* The intervals by length, as in struct gm_sample, but without a limit. */
	uint64_t n, runs[GM_SAMPLE_BINS], units[GM_SAMPLE_BINS];
};

/* Add the addresses [from, to), or remove them; what is there already, or is not, does not matter.
 * Ends the program when memory is short. */
void gm_holes_add(struct gm_holes *holes, uint64_t from, uint64_t to);
void gm_holes_cut(struct gm_holes *holes, uint64_t from, uint64_t to);

/* The length of the longest interval; 0: there is none. */
static inline uint64_t gm_holes_longest(const struct gm_holes *holes)
{
	return holes->root ? holes->nodes.at[holes->root].longest : 0;
}

/* Find the first interval with addresses in [*from, to), and set *from and *end to the ends of
 * those addresses. False: there is none. */
bool gm_holes_find(const struct gm_holes *holes, uint64_t *from, uint64_t to, uint64_t *end);

void gm_holes_free(struct gm_holes *holes);

#endif
