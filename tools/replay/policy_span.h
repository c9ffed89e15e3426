/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of addresses, used and free, for policies that split and merge. Neighbours are linked. The
 * free ones are in a tree, ordered by address, or by size and then address: the first one that is
 * large enough is the first fit, or the best fit. All operations are O(log n).
 */
#ifndef GM_TOOLS_REPLAY_POLICY_SPAN_H
#define GM_TOOLS_REPLAY_POLICY_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct gm_span {
	uint64_t address, size;
	struct gm_span *before, *after; /* neighbours; NULL: none */
	bool used;
	/* In the tree of free spans: */
	struct gm_span *left, *right;
	uint64_t most; /* the largest size in the subtree */
	uint64_t rank; /* random; the highest of the subtree */
};

struct gm_spans {
	struct gm_span *root;
	bool by_size; /* else by address */
	uint64_t seed;
};

/* Add a free span after `before`, with no neighbour behind. */
struct gm_span *gm_span_add(struct gm_spans *spans, struct gm_span *before, uint64_t address,
			    uint64_t size);

/* The first free span of `size` bytes or more; NULL: none. */
struct gm_span *gm_span_find(const struct gm_spans *spans, uint64_t size);

/* Make a free span used; if it is longer than `size`, the rest becomes a free span after it. */
void gm_span_take(struct gm_spans *spans, struct gm_span *span, uint64_t size);

/* Make a used span free and merge it with free neighbours; returns the merged span. */
struct gm_span *gm_span_give(struct gm_spans *spans, struct gm_span *span);

/* Lengthen a free span. */
void gm_span_extend(struct gm_spans *spans, struct gm_span *span, uint64_t by);

/* Remove a free span that has no neighbours. */
void gm_span_drop(struct gm_spans *spans, struct gm_span *span);

/* Call `each` for every free span; it may drop the span. */
void gm_span_each(struct gm_spans *spans, void (*each)(void *arg, struct gm_span *span), void *arg);

/* Remove all spans. pre: none is used. */
void gm_spans_close(struct gm_spans *spans);

#endif
