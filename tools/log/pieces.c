/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/pieces.h"

#include <stdlib.h>

#include "log/frag.h"
#include "tools/tool.h"

#define SLAB ((uint64_t)128 << 10) /* the shortest slab, and its alignment */

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* --- records --- */

static void chunk_follow(struct gm_pieces *pieces, const struct gm_record *r)
{
	const struct gm_pieces_chunk chunk = {
		.address = r->address, .size = r->size, .serial = r->id};
	size_t i = 0;
	while (i < pieces->chunks.n && pieces->chunks.at[i].serial != r->id)
		i++;
	const bool known = i < pieces->chunks.n;
	if (r->kind == GM_RECORD_UNMAP && known)
		pieces->chunks.at[i] = pieces->chunks.at[--pieces->chunks.n];
	else if (r->kind != GM_RECORD_UNMAP && known)
		pieces->chunks.at[i] = chunk;
	else if (r->kind != GM_RECORD_UNMAP && !gm_array_push(&pieces->chunks, chunk))
		memory_exhausted();
}

/* Mark the chunk at an address as lent to a device heap. */
static void chunk_lend(struct gm_pieces *pieces, uint64_t address)
{
	for (size_t i = 0; i < pieces->chunks.n; i++) {
		struct gm_pieces_chunk *chunk = &pieces->chunks.at[i];
		chunk->lent |= address >= chunk->address && address - chunk->address < chunk->size;
	}
}

bool gm_pieces_follow(struct gm_pieces *pieces, const struct gm_log_entry *entry, unsigned device)
{
	const struct gm_record *r = &entry->record;
	struct gm_blocks_one block;
	if (r->device != device)
		return false;
	switch (r->kind) {
	case GM_RECORD_MAP:
	case GM_RECORD_UNMAP:
	case GM_RECORD_REMAP:
		chunk_follow(pieces, r);
		return true;
	case GM_RECORD_GROW:
	case GM_RECORD_TAKEOVER:
		if (!r->status)
			chunk_lend(pieces, r->address);
		return !r->status;
	case GM_RECORD_HEAP_SAMPLE:
		chunk_lend(pieces, entry->heap->heap);
		return true;
	default:
		return gm_blocks_follow(&pieces->blocks, r, (int)device, &block) != GM_BLOCKS_SAME;
	}
}

void gm_pieces_free(struct gm_pieces *pieces)
{
	gm_blocks_free(&pieces->blocks);
	gm_array_free(&pieces->chunks);
}

/* --- the figures --- */

static int chunk_compare(const void *a, const void *b)
{
	const struct gm_pieces_chunk *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

void gm_pieces_sort(struct gm_pieces *pieces)
{
	if (pieces->chunks.n)
		qsort(pieces->chunks.at, pieces->chunks.n, sizeof *pieces->chunks.at,
		      chunk_compare);
}

/* Addresses in use. `small`: a block of a slab. */
struct span {
	uint64_t from, to;
	bool small;
};

static int span_compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

/* The pool's blocks by address, and their sums. The caller frees. */
static struct span *spans_make(const struct gm_pieces *pieces, struct gm_sample *out, size_t *n)
{
	struct span *spans = malloc((pieces->blocks.n + 1) * sizeof *spans);
	if (!spans)
		memory_exhausted();
	*n = 0;
	for (size_t i = 0; i < pieces->blocks.room; i++) {
		const struct gm_blocks_one *b = &pieces->blocks.at[i];
		if (!b->id || b->driver)
			continue;
		spans[(*n)++] = (struct span){b->address, b->address + b->held,
					      b->held <= GM_PIECES_SMALL_MOST};
		out->requested += b->size;
		out->handed_out += b->held;
	}
	out->live_blocks = *n;
	if (*n)
		qsort(spans, *n, sizeof *spans, span_compare);
	return spans;
}

static void run_add(struct gm_sample *out, uint64_t from, uint64_t to)
{
	if (to <= from)
		return;
	const uint64_t length = to - from, units = length / GM_SAMPLE_UNIT;
	const unsigned bin = gm_frag_bin(length);
	out->idle_extents++;
	out->idle_runs[bin] += out->idle_runs[bin] < UINT16_MAX;
	out->idle_units[bin] = units < UINT32_MAX - out->idle_units[bin]
				       ? out->idle_units[bin] + (uint32_t)units
				       : UINT32_MAX;
	out->largest_idle = length > out->largest_idle ? length : out->largest_idle;
}

/* Count the runs of [from, to), chunks that touch, between the spans from *next on; the first span
 * behind becomes *next. */
static void runs_count(struct gm_sample *out, uint64_t from, uint64_t to, const struct span *spans,
		       size_t n, size_t *next)
{
	uint64_t at = from;
	for (; *next < n && spans[*next].from < to; ++*next) {
		const struct span *s = &spans[*next];
		const uint64_t begin = s->small ? s->from / SLAB * SLAB : s->from;
		const uint64_t end = s->small ? (s->to + SLAB - 1) / SLAB * SLAB : s->to;
		run_add(out, at, begin);
		at = end > at ? end : at;
	}
	run_add(out, at, to);
}

/* Bytes in use of each chunk, which are sorted: blocks of several chunks are split. False: a block
 * is not in chunks of the pool. */
static bool chunks_count(const struct gm_pieces *pieces, const struct span *spans, size_t n,
			 struct gm_sample *out)
{
	uint64_t whole = 0, inside = 0;
	size_t s = 0;
	for (size_t i = 0; i < pieces->chunks.n; i++) {
		const struct gm_pieces_chunk *chunk = &pieces->chunks.at[i];
		const uint64_t end = chunk->address + chunk->size;
		uint64_t used = 0;
		if (chunk->lent) {
			out->lent += chunk->size;
			continue;
		}
		while (s < n && spans[s].to <= chunk->address)
			s++;
		for (size_t j = s; j < n && spans[j].from < end; j++) {
			const uint64_t from =
				spans[j].from > chunk->address ? spans[j].from : chunk->address;
			used += (spans[j].to < end ? spans[j].to : end) - from;
		}
		inside += used;
		out->mapped += chunk->size;
		out->chunks++;
		*(used ? &out->unreclaimable : &whole) += used ? chunk->size - used : chunk->size;
	}
	out->idle = out->mapped > inside ? out->mapped - inside : 0;
	out->largest_after_remap = whole;
	return inside == out->handed_out;
}

bool gm_pieces_sample(struct gm_pieces *pieces, struct gm_sample *out)
{
	size_t n, next = 0;
	*out = (struct gm_sample){0};
	gm_pieces_sort(pieces);
	struct span *spans = spans_make(pieces, out, &n);
	bool fits = chunks_count(pieces, spans, n, out);
	for (size_t i = 0; fits && i < pieces->chunks.n;) {
		const uint64_t from = pieces->chunks.at[i].address;
		uint64_t to = from;
		for (; i < pieces->chunks.n && pieces->chunks.at[i].address == to &&
		       !pieces->chunks.at[i].lent;
		     i++)
			to += pieces->chunks.at[i].size;
		if (to > from)
			runs_count(out, from, to, spans, n, &next);
		else
			i++; /* lent */
	}
	if (out->largest_idle > out->largest_after_remap)
		out->largest_after_remap = out->largest_idle;
	free(spans);
	return fits;
}
