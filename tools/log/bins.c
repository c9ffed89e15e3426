/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/bins.h"

#include "tools/log/blocks.h"

static unsigned bin_of(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

uint64_t gm_bins_least(unsigned bin)
{
	return bin ? 1ull << (bin - 1) : 0;
}

static void bin_count(struct gm_bin *bin, uint64_t bytes)
{
	bin->blocks++;
	bin->bytes += bytes;
}

static void change_count(struct gm_bins *bins, enum gm_blocks_change change,
			 const struct gm_blocks_one *block, const struct gm_record *r)
{
	if (r->kind == GM_RECORD_ALLOCATE &&
	    (change == GM_BLOCKS_BORN || change == GM_BLOCKS_UNNAMED))
		bin_count(&bins->sizes[bin_of(block->size)], block->size);
	if (change == GM_BLOCKS_GONE && block->born)
		bin_count(&bins->lives[bin_of(r->time > block->born ? r->time - block->born : 0)],
			  block->size);
	else if (change == GM_BLOCKS_GONE || change == GM_BLOCKS_UNBORN)
		bin_count(&bins->unknown, r->size);
}

void gm_bins_read(struct gm_bins *bins, struct gm_log_file *file, int device, enum gm_level level)
{
	struct gm_blocks blocks = {0};
	struct gm_blocks_one block;
	struct gm_log_entry entry;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record r = gm_level_view(level, &entry.record);
		const enum gm_blocks_change change = gm_blocks_follow(&blocks, &r, device, &block);
		if (change != GM_BLOCKS_SAME)
			change_count(bins, change, &block, &r);
	}
	for (size_t i = 0; i < blocks.room; i++)
		if (blocks.at[i].id)
			bin_count(&bins->kept, blocks.at[i].size);
	gm_blocks_free(&blocks);
}

struct gm_bin gm_bins_sum(const struct gm_bin bins[GM_BINS])
{
	struct gm_bin sum = {0};
	for (unsigned i = 0; i < GM_BINS; i++) {
		sum.blocks += bins[i].blocks;
		sum.bytes += bins[i].bytes;
	}
	return sum;
}

bool gm_bins_span(const struct gm_bin bins[GM_BINS], unsigned *first, unsigned *last)
{
	bool any = false;
	for (unsigned i = 0; i < GM_BINS; i++)
		if (bins[i].blocks) {
			*first = any ? *first : i;
			*last = i;
			any = true;
		}
	return any;
}
