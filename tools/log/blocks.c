/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/blocks.h"

#include <stdlib.h>

#include "tools/tool.h"

enum { ROOM_LEAST = 256 };

/* The place where the search for a block begins; `mask`: places - 1. */
static size_t id_place(uint64_t id, size_t mask)
{
	return (size_t)(id * 0x9e3779b97f4a7c15u >> 20) & mask;
}

static struct gm_blocks_one *place_find(const struct gm_blocks *blocks, uint64_t id)
{
	const size_t mask = blocks->room - 1;
	size_t i = id_place(id, mask);
	while (blocks->at[i].id && blocks->at[i].id != id)
		i = (i + 1) & mask;
	return &blocks->at[i];
}

static void blocks_grow(struct gm_blocks *blocks)
{
	const struct gm_blocks old = *blocks;
	blocks->room = old.room ? 2 * old.room : ROOM_LEAST;
	blocks->at = calloc(blocks->room, sizeof *blocks->at);
	if (!blocks->at) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	for (size_t i = 0; i < old.room; i++)
		if (old.at[i].id)
			*place_find(blocks, old.at[i].id) = old.at[i];
	free(old.at);
}

/* Free a place, and move later blocks of its run forward, so that searches still find them. */
static void place_clear(struct gm_blocks *blocks, struct gm_blocks_one *place)
{
	const size_t mask = blocks->room - 1;
	size_t hole = (size_t)(place - blocks->at);
	for (size_t i = (hole + 1) & mask; blocks->at[i].id; i = (i + 1) & mask) {
		size_t home = id_place(blocks->at[i].id, mask);
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			blocks->at[hole] = blocks->at[i];
			hole = i;
		}
	}
	blocks->at[hole].id = 0;
	blocks->n--;
}

static enum gm_blocks_change block_add(struct gm_blocks *blocks, const struct gm_record *r,
				       struct gm_blocks_one *block)
{
	*block = (struct gm_blocks_one){.id = r->id,
					.address = r->address,
					.size = r->size,
					.held = r->held,
					.born = r->kind == GM_RECORD_LIVE ? 0 : r->time,
					.stack = r->stack,
					.device = r->device,
					.driver = r->flags & GM_RECORD_DRIVER};
	if (!r->id)
		return r->kind == GM_RECORD_LIVE ? GM_BLOCKS_SAME : GM_BLOCKS_UNNAMED;
	if (blocks->n >= blocks->room / 2)
		blocks_grow(blocks);
	struct gm_blocks_one *place = place_find(blocks, r->id);
	if (place->id) { /* each segment begins with the live blocks */
		if (place->stack == GM_STACK_BEFORE && r->kind == GM_RECORD_ALLOCATE)
			place->stack = r->stack;
		return GM_BLOCKS_SAME;
	}
	*place = *block;
	blocks->n++;
	return GM_BLOCKS_BORN;
}

enum gm_blocks_change gm_blocks_follow(struct gm_blocks *blocks, const struct gm_record *r,
				       int device, struct gm_blocks_one *block)
{
	if (r->status || (device >= 0 && r->device != device))
		return GM_BLOCKS_SAME;
	if (r->kind == GM_RECORD_ALLOCATE || r->kind == GM_RECORD_LIVE)
		return block_add(blocks, r, block);
	if (r->kind != GM_RECORD_FREE)
		return GM_BLOCKS_SAME;
	struct gm_blocks_one *place = blocks->room && r->id ? place_find(blocks, r->id) : NULL;
	if (!place || !place->id)
		return GM_BLOCKS_UNBORN;
	*block = *place;
	place_clear(blocks, place);
	return GM_BLOCKS_GONE;
}

void gm_blocks_free(struct gm_blocks *blocks)
{
	free(blocks->at);
	*blocks = (struct gm_blocks){0};
}
