/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of addresses, used and free, for the policies that split and merge. Neighbours are linked;
 * the free ones stand in a tree, by address or by size and then address. The first in that order
 * that is large enough is the first fit or the best fit. All in O(log n).
 */
#ifndef GM_TOOLS_POLICY_SPAN_H
#define GM_TOOLS_POLICY_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct gm_span {
	uint64_t address, size;
	struct gm_span *before, *after; /* what lies beside it; NULL: nothing */
	bool used;
	/* Of a free one, in the tree: */
	struct gm_span *left, *right;
	uint64_t most; /* the largest size below and including it */
	uint64_t rank; /* at random; none below it has a higher one */
};

struct gm_spans {
	struct gm_span *root;
	bool by_size; /* else by address */
	uint64_t seed;
};

/* A free span between `before` and nothing. */
struct gm_span *gm_span_add(struct gm_spans *spans, struct gm_span *before, uint64_t address,
			    uint64_t size);

/* The first free one of `size` bytes or more; NULL: none. */
struct gm_span *gm_span_find(const struct gm_spans *spans, uint64_t size);

/* A free one becomes used; if `size` is less than it has, the rest becomes a free one after it. */
void gm_span_take(struct gm_spans *spans, struct gm_span *span, uint64_t size);

/* A used one becomes free and takes free neighbours in; returns what it is now. */
struct gm_span *gm_span_give(struct gm_spans *spans, struct gm_span *span);

/* Make a free one longer. */
void gm_span_extend(struct gm_spans *spans, struct gm_span *span, uint64_t by);

/* Forget a free one that has no neighbours. */
void gm_span_drop(struct gm_spans *spans, struct gm_span *span);

/* Call `each`, which may drop it, for every free one. */
void gm_span_each(struct gm_spans *spans, void (*each)(void *arg, struct gm_span *span), void *arg);

/* Forget all; none is used any more. */
void gm_spans_close(struct gm_spans *spans);

#endif
