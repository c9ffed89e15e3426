/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/export/segments.h"

#include "tools/tool.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

void gm_segments_follow(struct gm_segments *segments, const struct gm_record *r)
{
	const struct gm_segments_chunk chunk = {r->address, r->size, r->id, 0, false};
	size_t i = 0;
	if (r->kind != GM_RECORD_MAP && r->kind != GM_RECORD_UNMAP && r->kind != GM_RECORD_REMAP)
		return;
	while (i < segments->chunks.n && segments->chunks.at[i].serial != r->id)
		i++;
	const bool known = i < segments->chunks.n;
	if (r->kind == GM_RECORD_UNMAP && known)
		segments->chunks.at[i] = segments->chunks.at[--segments->chunks.n];
	else if (r->kind != GM_RECORD_UNMAP && known)
		segments->chunks.at[i] = chunk;
	else if (r->kind != GM_RECORD_UNMAP && !gm_array_push(&segments->chunks, chunk))
		memory_exhausted();
}

void gm_segments_add_block(struct gm_segments *segments, const struct gm_blocks_one *block)
{
	const struct gm_segments_chunk chunk = {block->address, block->size, block->id,
						block->stack, true};
	if (!gm_array_push(&segments->chunks, chunk))
		memory_exhausted();
}

static int chunk_compare(const void *a, const void *b)
{
	const struct gm_segments_chunk *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

static int block_compare(const void *a, const void *b)
{
	const struct gm_blocks_one *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

static void segment_add(struct gm_segments *segments, struct gm_segment segment)
{
	if (!gm_array_push(&segments->at, segment))
		memory_exhausted();
}

/* Join adjacent chunks to one segment. */
static void chunks_join(struct gm_segments *segments)
{
	for (size_t i = 0; i < segments->chunks.n; i++) {
		const struct gm_segments_chunk *chunk = &segments->chunks.at[i];
		struct gm_segment *last =
			segments->at.n ? &segments->at.at[segments->at.n - 1] : NULL;
		const uint64_t end = last ? last->address + last->size : 0;
		if (!chunk->size || chunk->size > UINT64_MAX - chunk->address ||
		    (last && chunk->address < end))
			continue; /* damaged */
		if (last && chunk->address == end && !chunk->separate)
			last->size += chunk->size;
		else
			segment_add(segments, (struct gm_segment){.address = chunk->address,
								  .size = chunk->size,
								  .stack = chunk->stack,
								  .driver = chunk->separate});
	}
}

static void blocks_sort(struct gm_segments *segments, const struct gm_blocks *alive)
{
	for (size_t i = 0; i < alive->room; i++)
		if (alive->at[i].id && !gm_array_push(&segments->blocks, alive->at[i]))
			memory_exhausted();
	if (segments->blocks.n)
		qsort(segments->blocks.at, segments->blocks.n, sizeof *segments->blocks.at,
		      block_compare);
}

/* A block takes the size handed out. */
static uint64_t block_end(const struct gm_blocks_one *block)
{
	const uint64_t held = block->held > block->size ? block->held : block->size;
	return held > UINT64_MAX - block->address ? UINT64_MAX : block->address + held;
}

/* Assign each block to one of the first `n` segments, made of chunks, or to a new segment. */
static void blocks_place(struct gm_segments *segments, size_t n)
{
	size_t s = 0;
	uint64_t free = 0; /* end of the previous block */
	for (size_t i = 0; i < segments->blocks.n; i++) {
		const struct gm_blocks_one *block = &segments->blocks.at[i];
		const uint64_t end = block_end(block);
		while (s < n &&
		       segments->at.at[s].address + segments->at.at[s].size <= block->address)
			s++;
		struct gm_segment *segment = s < n ? &segments->at.at[s] : NULL;
		if (block->address < free || end == block->address)
			continue; /* damaged, or of no size */
		free = end;
		if (!segment || block->address < segment->address ||
		    end > segment->address + segment->size) {
			segment_add(segments, (struct gm_segment){.address = block->address,
								  .size = end - block->address,
								  .used = end - block->address,
								  .requested = block->size,
								  .blocks = block,
								  .n_blocks = 1,
								  .driver = true});
			continue;
		}
		segment->blocks = segment->n_blocks ? segment->blocks : block;
		segment->n_blocks = (size_t)(block - segment->blocks) + 1;
		segment->used += end - block->address;
		segment->requested += block->size;
	}
}

void gm_segments_finish(struct gm_segments *segments, const struct gm_blocks *alive)
{
	if (segments->chunks.n)
		qsort(segments->chunks.at, segments->chunks.n, sizeof *segments->chunks.at,
		      chunk_compare);
	chunks_join(segments);
	blocks_sort(segments, alive);
	blocks_place(segments, segments->at.n);
}

void gm_segment_walk(const struct gm_segment *segment,
		     void (*each)(void *arg, uint64_t address, uint64_t size,
				  const struct gm_blocks_one *block),
		     void *arg)
{
	const uint64_t end = segment->address + segment->size;
	uint64_t at = segment->address;
	for (size_t i = 0; i < segment->n_blocks; i++) {
		const struct gm_blocks_one *block = &segment->blocks[i];
		if (block->address < at || block_end(block) > end ||
		    block_end(block) == block->address)
			continue;
		if (block->address > at)
			each(arg, at, block->address - at, NULL);
		at = block_end(block);
		each(arg, block->address, at - block->address, block);
	}
	if (at < end)
		each(arg, at, end - at, NULL);
}

void gm_segments_free(struct gm_segments *segments)
{
	gm_array_free(&segments->chunks);
	gm_array_free(&segments->blocks);
	gm_array_free(&segments->at);
}
