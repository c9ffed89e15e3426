/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define SLAB ((uint64_t)128 << 10) /* the shortest slab, and its alignment */

/* Addresses [from, to). In a damaged log a range may wrap around; it has no addresses then. */
struct range {
	uint64_t from, to;
};

static struct range range_make(uint64_t address, uint64_t size)
{
	return size <= UINT64_MAX - address ? (struct range){address, address + size}
					    : (struct range){0};
}

static struct range range_both(struct range a, struct range b)
{
	return (struct range){a.from > b.from ? a.from : b.from, a.to < b.to ? a.to : b.to};
}

static uint64_t range_bytes(struct range r)
{
	return r.to > r.from ? r.to - r.from : 0;
}

static struct range chunk_range(const struct gm_pieces_chunk *chunk)
{
	return range_make(chunk->address, chunk->size);
}

static bool block_is_small(const struct gm_blocks_one *block)
{
	return block->held <= GM_PIECES_SMALL_MOST;
}

/* The slabs around a block, or the block itself. */
static struct range block_region(struct range block, bool small)
{
	return small ? (struct range){block.from / SLAB * SLAB, (block.to + SLAB - 1) / SLAB * SLAB}
		     : block;
}

/* --- sums of chunks --- */

/* Add what a chunk adds to the sums, or remove it (`sign` -1). The same is removed that was added,
 * so that the sums are right whatever a damaged log has. */
static void chunk_sum(struct gm_pieces *p, const struct gm_pieces_chunk *chunk, int sign)
{
	const uint64_t one = (uint64_t)(int64_t)sign;
	const uint64_t idle = chunk->size > chunk->used ? chunk->size - chunk->used : 0;
	if (chunk->lent) {
		p->n_lent += one;
		p->lent += one * chunk->size;
		return;
	}
	p->mapped += one * chunk->size;
	p->inside += one * chunk->used;
	*(chunk->used ? &p->unreclaimable : &p->whole) += one * idle;
}

static void chunk_use(struct gm_pieces *p, struct gm_pieces_chunk *chunk, uint64_t bytes, bool more)
{
	chunk_sum(p, chunk, -1);
	chunk->used = more ? chunk->used + bytes : chunk->used > bytes ? chunk->used - bytes : 0;
	chunk_sum(p, chunk, 1);
}

/* The first chunk that may have addresses from `address` on. */
static size_t chunk_first(const struct gm_pieces *p, uint64_t address)
{
	size_t low = 0, high = p->chunks.n;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (p->chunks.at[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : 0;
}

/* --- idle runs --- */

/* What of a range lies in chunks of the pool becomes idle. */
static void idle_add(struct gm_pieces *p, struct range range)
{
	for (size_t i = chunk_first(p, range.from);
	     i < p->chunks.n && p->chunks.at[i].address < range.to; i++) {
		const struct range both = range_both(range, chunk_range(&p->chunks.at[i]));
		if (!p->chunks.at[i].lent)
			gm_holes_add(&p->holes, both.from, both.to);
	}
}

/* Blocks of a set within a range are not idle. Returns their bytes. */
static uint64_t idle_cut(struct gm_pieces *p, struct range range, bool small)
{
	uint64_t from = range.from, end, bytes = 0;
	while (gm_holes_find(small ? &p->small : &p->large, &from, range.to, &end)) {
		const struct range region = block_region((struct range){from, end}, small);
		gm_holes_cut(&p->holes, region.from, region.to);
		bytes += end - from;
		from = end;
	}
	return bytes;
}

/* Slabs of a range that have no block any more become idle. */
static void slabs_add(struct gm_pieces *p, struct range range)
{
	for (uint64_t at = range.from; at < range.to; at += SLAB) {
		uint64_t from = at, end;
		if (!gm_holes_find(&p->small, &from, at + SLAB, &end))
			idle_add(p, (struct range){at, at + SLAB});
	}
}

/* --- blocks --- */

static void block_begin(struct gm_pieces *p, struct range range, bool small)
{
	struct gm_holes *set = small ? &p->small : &p->large;
	const struct range region = block_region(range, small);
	uint64_t from = range.from, end;
	p->overlaps += gm_holes_find(set, &from, range.to, &end);
	gm_holes_add(set, range.from, range.to);
	gm_holes_cut(&p->holes, region.from, region.to);
}

static void block_end(struct gm_pieces *p, struct range range, bool small)
{
	gm_holes_cut(small ? &p->small : &p->large, range.from, range.to);
	if (small)
		slabs_add(p, block_region(range, true));
	else
		idle_add(p, range);
}

/* Begin all blocks again: one of two that overlapped has ended. */
static void blocks_again(struct gm_pieces *p)
{
	gm_holes_free(&p->large);
	gm_holes_free(&p->small);
	p->overlaps = 0;
	for (size_t i = 0; i < p->chunks.n; i++)
		idle_add(p, chunk_range(&p->chunks.at[i]));
	for (size_t i = 0; i < p->blocks.room; i++) {
		const struct gm_blocks_one *b = &p->blocks.at[i];
		if (b->id && !b->driver)
			block_begin(p, range_make(b->address, b->held), block_is_small(b));
	}
}

static void block_follow(struct gm_pieces *p, const struct gm_blocks_one *block, bool born)
{
	const struct range range = range_make(block->address, block->held);
	const uint64_t one = born ? 1 : UINT64_MAX;
	if (block->driver)
		return;
	p->live += one;
	p->requested += one * block->size;
	p->handed_out += one * block->held;
	for (size_t i = chunk_first(p, range.from);
	     i < p->chunks.n && p->chunks.at[i].address < range.to; i++) {
		const struct range both = range_both(range, chunk_range(&p->chunks.at[i]));
		chunk_use(p, &p->chunks.at[i], range_bytes(both), born);
	}
	if (born)
		block_begin(p, range, block_is_small(block));
	else if (p->overlaps)
		blocks_again(p);
	else
		block_end(p, range, block_is_small(block));
}

/* --- chunks --- */

static void chunk_remove(struct gm_pieces *p, size_t i)
{
	struct gm_pieces_chunk *chunk = &p->chunks.at[i];
	const struct range range = chunk_range(chunk);
	chunk_sum(p, chunk, -1);
	gm_holes_cut(&p->holes, range.from, range.to);
	memmove(chunk, chunk + 1, (--p->chunks.n - i) * sizeof *chunk);
}

static void chunk_insert(struct gm_pieces *p, struct gm_pieces_chunk chunk)
{
	const struct range range = chunk_range(&chunk);
	size_t i = p->chunks.n;
	if (!gm_array_push(&p->chunks, chunk)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	for (; i > 0 && p->chunks.at[i - 1].address > chunk.address; i--)
		p->chunks.at[i] = p->chunks.at[i - 1];
	if (!chunk.lent) {
		gm_holes_add(&p->holes, range.from, range.to);
		chunk.used = idle_cut(p, range, false) + idle_cut(p, range, true);
	}
	p->chunks.at[i] = chunk;
	chunk_sum(p, &chunk, 1);
}

static void chunk_follow(struct gm_pieces *p, const struct gm_record *r)
{
	size_t i = 0;
	while (i < p->chunks.n && p->chunks.at[i].serial != r->id)
		i++;
	if (i < p->chunks.n)
		chunk_remove(p, i);
	if (r->kind != GM_RECORD_UNMAP)
		chunk_insert(p, (struct gm_pieces_chunk){.address = r->address,
							 .size = r->size,
							 .serial = r->id,
							 .lent = r->flags & GM_RECORD_LENT});
}

/* Mark the chunk at an address as lent to a device heap: in older logs its MAP does not. */
static void chunk_lend(struct gm_pieces *p, uint64_t address)
{
	const size_t i = chunk_first(p, address);
	struct gm_pieces_chunk *chunk = &p->chunks.at[i];
	if (i >= p->chunks.n || address < chunk->address ||
	    address - chunk->address >= chunk->size || chunk->lent)
		return;
	const struct range range = chunk_range(chunk);
	chunk_sum(p, chunk, -1);
	chunk->lent = true;
	chunk_sum(p, chunk, 1);
	gm_holes_cut(&p->holes, range.from, range.to);
}

bool gm_pieces_follow(struct gm_pieces *p, const struct gm_log_entry *entry, unsigned device)
{
	const struct gm_record *r = &entry->record;
	struct gm_blocks_one block;
	if (r->device != device)
		return false;
	switch (r->kind) {
	case GM_RECORD_MAP:
	case GM_RECORD_UNMAP:
	case GM_RECORD_REMAP:
		chunk_follow(p, r);
		return true;
	case GM_RECORD_GROW:
	case GM_RECORD_TAKEOVER:
		if (!r->status)
			chunk_lend(p, r->address);
		return !r->status;
	case GM_RECORD_HEAP_SAMPLE:
		chunk_lend(p, entry->heap->heap);
		return true;
	default:
		break;
	}
	const enum gm_blocks_change change = gm_blocks_follow(&p->blocks, r, (int)device, &block);
	if (change == GM_BLOCKS_BORN || change == GM_BLOCKS_GONE)
		block_follow(p, &block, change == GM_BLOCKS_BORN);
	return change != GM_BLOCKS_SAME;
}

void gm_pieces_free(struct gm_pieces *p)
{
	gm_blocks_free(&p->blocks);
	gm_array_free(&p->chunks);
	gm_holes_free(&p->holes);
	gm_holes_free(&p->large);
	gm_holes_free(&p->small);
}

/* --- the figures --- */

bool gm_pieces_sample(const struct gm_pieces *p, struct gm_sample *out)
{
	const uint64_t longest = gm_holes_longest(&p->holes);
	*out = (struct gm_sample){.requested = p->requested,
				  .handed_out = p->handed_out,
				  .mapped = p->mapped,
				  .idle = p->mapped > p->inside ? p->mapped - p->inside : 0,
				  .lent = p->lent,
				  .largest_idle = longest,
				  .largest_after_remap = p->whole > longest ? p->whole : longest,
				  .unreclaimable = p->unreclaimable,
				  .live_blocks = p->live,
				  .chunks = p->chunks.n - p->n_lent,
				  .idle_extents = p->holes.n};
	for (unsigned i = 0; i < GM_SAMPLE_BINS; i++) {
		const uint64_t runs = p->holes.runs[i], units = p->holes.units[i];
		out->idle_runs[i] = (uint16_t)(runs < UINT16_MAX ? runs : UINT16_MAX);
		out->idle_units[i] = (uint32_t)(units < UINT32_MAX ? units : UINT32_MAX);
	}
	return p->inside == p->handed_out;
}
