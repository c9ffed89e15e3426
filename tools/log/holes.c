/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/holes.h"

#include <stdlib.h>

#include "log/frag.h"
#include "tools/tool.h"

#define AT(i) (h->nodes.at[i])

static void node_update(struct gm_holes *h, uint32_t i)
{
	const uint64_t low = AT(AT(i).lower).longest, high = AT(AT(i).upper).longest;
	uint64_t longest = AT(i).to - AT(i).from;
	longest = low > longest ? low : longest;
	AT(i).longest = high > longest ? high : longest;
}

static void node_count(struct gm_holes *h, uint32_t i, bool more)
{
	const uint64_t length = AT(i).to - AT(i).from, one = more ? 1 : UINT64_MAX;
	const unsigned bin = gm_frag_bin(length);
	h->n += one;
	h->runs[bin] += one;
	h->units[bin] += one * (length / GM_SAMPLE_UNIT);
}

static void node_push(struct gm_holes *h)
{
	if (gm_array_push(&h->nodes, (struct gm_hole){0}))
		return;
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* Xorshift (Marsaglia, 2003); the same for each run, so that the output is. */
static uint32_t random_next(struct gm_holes *h)
{
	h->random = h->random ? h->random : 2463534242u;
	h->random ^= h->random << 13;
	h->random ^= h->random >> 17;
	h->random ^= h->random << 5;
	return h->random;
}

static uint32_t node_make(struct gm_holes *h, uint64_t from, uint64_t to)
{
	uint32_t i = h->free;
	if (!h->nodes.n)
		node_push(h);
	if (i)
		h->free = AT(i).lower;
	else
		node_push(h);
	i = i ? i : (uint32_t)h->nodes.n - 1;
	AT(i) = (struct gm_hole){
		.from = from, .to = to, .longest = to - from, .priority = random_next(h)};
	node_count(h, i, true);
	return i;
}

static void node_drop(struct gm_holes *h, uint32_t i)
{
	node_count(h, i, false);
	AT(i) = (struct gm_hole){.lower = h->free};
	h->free = i;
}

/* *low gets the intervals that begin below `address`, *high the others. */
static void tree_split(struct gm_holes *h, uint32_t i, uint64_t address, uint32_t *low,
		       uint32_t *high)
{
	uint32_t part;
	*low = *high = 0;
	if (!i)
		return;
	if (AT(i).from < address) {
		tree_split(h, AT(i).upper, address, &part, high);
		AT(i).upper = part;
		*low = i;
	} else {
		tree_split(h, AT(i).lower, address, low, &part);
		AT(i).lower = part;
		*high = i;
	}
	node_update(h, i);
}

/* All of `low` are below all of `high`. */
static uint32_t tree_join(struct gm_holes *h, uint32_t low, uint32_t high)
{
	uint32_t top = !low || (high && AT(high).priority > AT(low).priority) ? high : low;
	if (!low || !high)
		return top;
	if (top == low)
		AT(low).upper = tree_join(h, AT(low).upper, high);
	else
		AT(high).lower = tree_join(h, low, AT(high).lower);
	node_update(h, top);
	return top;
}

static void tree_drop(struct gm_holes *h, uint32_t i)
{
	if (!i)
		return;
	tree_drop(h, AT(i).lower);
	tree_drop(h, AT(i).upper);
	node_drop(h, i);
}

/* Take the last interval out of *tree if it ends at `address` or behind. 0: it does not. */
static uint32_t last_take(struct gm_holes *h, uint32_t *tree, uint64_t address)
{
	uint32_t i = *tree, low, last;
	while (i && AT(i).upper)
		i = AT(i).upper;
	if (!i || AT(i).to < address)
		return 0;
	tree_split(h, *tree, AT(i).from, &low, &last);
	*tree = low;
	return last;
}

/* The same for the first one, if it begins at `address`. */
static uint32_t first_take(struct gm_holes *h, uint32_t *tree, uint64_t address)
{
	uint32_t i = *tree, first, high;
	while (i && AT(i).lower)
		i = AT(i).lower;
	if (!i || AT(i).from != address)
		return 0;
	tree_split(h, *tree, address + 1, &first, &high);
	*tree = high;
	return first;
}

/* Remove [from, to): *low gets what is below, *high what is above. */
static void tree_cut(struct gm_holes *h, uint64_t from, uint64_t to, uint32_t *low, uint32_t *high)
{
	uint32_t middle, last;
	uint64_t end = 0;
	tree_split(h, h->root, from, low, &middle);
	tree_split(h, middle, to, &middle, high);
	for (uint32_t i = middle; i; i = AT(i).upper)
		end = AT(i).to;
	tree_drop(h, middle);
	last = last_take(h, low, from);
	if (last) {
		const uint64_t begin = AT(last).from;
		end = AT(last).to > end ? AT(last).to : end;
		node_drop(h, last);
		*low = tree_join(h, *low, node_make(h, begin, from));
	}
	if (end > to)
		*high = tree_join(h, node_make(h, to, end), *high);
}

void gm_holes_cut(struct gm_holes *h, uint64_t from, uint64_t to)
{
	uint32_t low, high;
	if (from >= to || !h->root)
		return;
	tree_cut(h, from, to, &low, &high);
	h->root = tree_join(h, low, high);
}

void gm_holes_add(struct gm_holes *h, uint64_t from, uint64_t to)
{
	uint32_t low = 0, high = 0, before, behind;
	if (from >= to)
		return;
	if (h->root)
		tree_cut(h, from, to, &low, &high);
	before = last_take(h, &low, from);
	behind = first_take(h, &high, to);
	from = before ? AT(before).from : from;
	to = behind ? AT(behind).to : to;
	if (before)
		node_drop(h, before);
	if (behind)
		node_drop(h, behind);
	low = tree_join(h, low, node_make(h, from, to));
	h->root = tree_join(h, low, high);
}

bool gm_holes_find(const struct gm_holes *h, uint64_t *from, uint64_t to, uint64_t *end)
{
	uint32_t found = 0;
	for (uint32_t i = h->root; i;) {
		const bool ends_behind = AT(i).to > *from;
		found = ends_behind ? i : found;
		i = ends_behind ? AT(i).lower : AT(i).upper;
	}
	if (!found || *from >= to || AT(found).from >= to)
		return false;
	*from = AT(found).from > *from ? AT(found).from : *from;
	*end = AT(found).to < to ? AT(found).to : to;
	return true;
}

void gm_holes_free(struct gm_holes *h)
{
	gm_array_free(&h->nodes);
	*h = (struct gm_holes){0};
}
