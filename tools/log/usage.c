/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/usage.h"

#include <string.h>

void gm_usage_begin(struct gm_usage *usage, const struct gm_log_about *about, unsigned device)
{
	const uint32_t blocks = 1u << GM_RECORD_ALLOCATE | 1u << GM_RECORD_FREE;
	const uint32_t chunks = 1u << GM_RECORD_MAP;
	const bool events = strcmp(about->level, "events") == 0;
	*usage = (struct gm_usage){
		.about = about,
		.device = device,
		.blocks_known = events && (about->kept & blocks) == blocks,
		.chunks_known = events && (about->kept & chunks) == chunks,
		.based = about->since <= about->start,
	};
}

static bool block_follow(struct gm_usage *usage, const struct gm_record *r)
{
	const struct gm_blocks_one *block = &usage->block;
	usage->change = gm_blocks_follow(&usage->blocks, r, (int)usage->device, &usage->block);
	if (usage->change != GM_BLOCKS_BORN && usage->change != GM_BLOCKS_GONE)
		return false;
	/* -1, modulo 2^64 */
	const uint64_t sign = usage->change == GM_BLOCKS_BORN ? 1 : UINT64_MAX;
	if (block->driver) {
		usage->driver += sign * block->size;
	} else {
		usage->requested += sign * block->size;
		usage->in_use += sign * block->held;
	}
	return true;
}

static bool chunk_follow(struct gm_usage *usage, const struct gm_record *r)
{
	if (r->kind == GM_RECORD_GROW && !r->status) {
		usage->now.lent += r->size; /* until the next sample */
		return true;
	}
	if (r->kind != GM_RECORD_MAP && r->kind != GM_RECORD_UNMAP)
		return false;
	usage->chunks += r->kind == GM_RECORD_MAP ? r->size : -r->size;
	return true;
}

/* A sample says all at once. It counts where events do not say it, or not all. */
static void sample_follow(struct gm_usage *usage, const struct gm_sample *s)
{
	if (!usage->blocks_known || !usage->based) {
		usage->requested = s->requested;
		usage->in_use = s->handed_out;
	}
	if (!usage->chunks_known || !usage->based)
		usage->chunks = s->mapped + s->lent;
	usage->now.lent = s->lent;
	usage->based = true;
}

bool gm_usage_follow(struct gm_usage *usage, const struct gm_log_entry *entry)
{
	const struct gm_record *r = &entry->record;
	bool changed = entry->sample;
	usage->change = GM_BLOCKS_SAME;
	if (r->device != usage->device)
		return false;
	if (entry->sample)
		sample_follow(usage, entry->sample);
	if (usage->blocks_known)
		changed |= block_follow(usage, r);
	if (usage->chunks_known)
		changed |= chunk_follow(usage, r);
	if (!changed)
		return false;
	struct gm_usage_now *now = &usage->now;
	now->time = r->time;
	now->requested = usage->requested;
	now->in_use = usage->in_use;
	now->driver = usage->driver;
	now->mapped = usage->chunks > now->lent ? usage->chunks - now->lent : 0;
	/* The map of a chunk may be logged behind the first block in it. */
	if (now->mapped < now->in_use)
		now->mapped = now->in_use;
	return true;
}

void gm_usage_free(struct gm_usage *usage)
{
	gm_blocks_free(&usage->blocks);
}
