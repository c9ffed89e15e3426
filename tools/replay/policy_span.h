/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of addresses, used and free, for policies that split and merge. Neighbours are linked. A
 * tree has the free spans, ordered by address, or by size and then address: its first span with
 * room is the first fit, or the best fit. All operations are O(log n).
 */
#ifndef GM_TOOLS_REPLAY_POLICY_SPAN_H
#define GM_TOOLS_REPLAY_POLICY_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct gm_span {
	uint64_t address, size;
	struct gm_span *before, *after; /* neighbours; NULL: none */
	bool used;
	bool absent; /* not mapped: neither used nor free, `used` is set */
	/* In the tree of free spans: */
	struct gm_span *left, *right;
	uint64_t most; /* the largest size in the subtree */
	uint64_t rank; /* random, the highest in the subtree */
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

/* Make a free span used; any rest beyond `size` becomes a free span after it. */
void gm_span_take(struct gm_spans *spans, struct gm_span *span, uint64_t size);

/* Make a used span free and merge it with free neighbours; returns the merged span. */
struct gm_span *gm_span_give(struct gm_spans *spans, struct gm_span *span);

/* Lengthen a free span. */
void gm_span_extend(struct gm_spans *spans, struct gm_span *span, uint64_t by);

/* Remove a free span that has no neighbours. */
void gm_span_drop(struct gm_spans *spans, struct gm_span *span);

/* The next free span in the order of the tree; NULL: there is none. */
struct gm_span *gm_span_next(const struct gm_spans *spans, const struct gm_span *span);

/*
 * Absent spans. _reserve: make one, without neighbours. _map: its first `size` bytes become free
 * and merge with free neighbours; returns the merged span. _unmap: the bytes [from, end) of a free
 * span become absent and merge with absent neighbours. Of merged spans, the first one stays.
 */
struct gm_span *gm_span_reserve(uint64_t address, uint64_t size);
struct gm_span *gm_span_map(struct gm_spans *spans, struct gm_span *span, uint64_t size);
void gm_span_unmap(struct gm_spans *spans, struct gm_span *span, uint64_t from, uint64_t end);

/* Call `each` for every free span; it may drop or unmap the span. */
void gm_span_each(struct gm_spans *spans, void (*each)(void *arg, struct gm_span *span), void *arg);

/* Remove all spans. pre: none is used. */
void gm_spans_close(struct gm_spans *spans);

#endif
