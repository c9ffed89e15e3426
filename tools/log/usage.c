/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/usage.h"

#include <string.h>

static bool kinds_kept(const struct gm_log_about *about, uint32_t kinds)
{
	return strcmp(about->level, "events") == 0 && (about->kept & kinds) == kinds;
}

bool gm_usage_has_blocks(const struct gm_log_about *about)
{
	return kinds_kept(about, 1u << GM_RECORD_ALLOCATE | 1u << GM_RECORD_FREE);
}

/* Sums of a damaged log may wrap. */
static void sum_add(int64_t *sum, uint64_t n)
{
	*sum = (int64_t)((uint64_t)*sum + n);
}

static uint64_t sum_clamp(int64_t sum)
{
	const int64_t highest = (int64_t)1 << 53;
	return sum < 0 ? 0 : (uint64_t)(sum < highest ? sum : highest);
}

static bool block_follow(struct gm_usage *usage, const struct gm_record *r)
{
	const bool born = r->kind == GM_RECORD_ALLOCATE;
	if ((!born && r->kind != GM_RECORD_FREE) || r->status || !usage->blocks_known)
		return false;
	if (r->flags & GM_RECORD_DRIVER) {
		sum_add(&usage->sums.driver, born ? r->size : -r->size);
		return true;
	}
	sum_add(&usage->sums.requested, born ? r->size : -r->size);
	sum_add(&usage->sums.in_use, born ? r->held : -r->held);
	return true;
}

static bool chunk_follow(struct gm_usage *usage, const struct gm_record *r)
{
	const bool came = r->kind == GM_RECORD_MAP, went = r->kind == GM_RECORD_UNMAP;
	if ((!came && !went && r->kind != GM_RECORD_REMAP) || r->status || !usage->chunks_known)
		return false;
	sum_add(&usage->sums.chunks, came ? r->size : went ? -r->size : 0);
	if (r->flags & (GM_RECORD_LENT | GM_RECORD_RETURNED)) {
		sum_add(&usage->sums.lent, r->flags & GM_RECORD_LENT ? r->size : -r->size);
		usage->lent_known = true;
	}
	return true;
}

static bool growth_follow(struct gm_usage *usage, const struct gm_record *r)
{
	if (r->kind != GM_RECORD_GROW || r->status || !usage->chunks_known)
		return false;
	usage->lent += r->size; /* until the next sample */
	return true;
}

/* A sample sets the sums that events do not give. */
static void sample_follow(struct gm_usage *usage, const struct gm_sample *s)
{
	if (!usage->blocks_known) {
		usage->sums.requested = (int64_t)s->requested;
		usage->sums.in_use = (int64_t)s->handed_out;
	}
	if (!usage->chunks_known)
		usage->sums.chunks = (int64_t)(s->mapped + s->lent);
	usage->lent = s->lent;
}

bool gm_usage_follow(struct gm_usage *usage, const struct gm_log_entry *entry)
{
	const struct gm_record *r = &entry->record;
	struct gm_usage_now *now = &usage->now;
	if (r->device != usage->device)
		return false;
	if (entry->sample)
		sample_follow(usage, entry->sample);
	else if (!block_follow(usage, r) && !chunk_follow(usage, r) && !growth_follow(usage, r))
		return false;
	now->time = r->time;
	now->requested = sum_clamp(usage->sums.requested);
	now->in_use = sum_clamp(usage->sums.in_use);
	now->driver = sum_clamp(usage->sums.driver);
	const int64_t lent = usage->lent_known ? usage->sums.lent : (int64_t)usage->lent;
	now->lent = sum_clamp(lent);
	now->mapped = sum_clamp((int64_t)((uint64_t)usage->sums.chunks - (uint64_t)lent));
	/* The log may have the first block of a chunk before the chunk's MAP. */
	if (now->mapped < now->in_use)
		now->mapped = now->in_use;
	return true;
}

/* The sums before the first record: the counters less the sums of the events. */
static void usage_base(struct gm_usage *usage, const struct gm_figures *figures)
{
	const struct gm_usage_sums events = usage->sums;
#define C(name) gm_figures_device(figures, usage->device, GM_C_##name)
	usage->sums = (struct gm_usage_sums){
		.requested = (int64_t)(C(requested) - (uint64_t)events.requested),
		.in_use = (int64_t)(C(handed_out) - (uint64_t)events.in_use),
		.driver = (int64_t)(C(foreign_driver) - (uint64_t)events.driver),
		.chunks = (int64_t)(C(mapped) + C(lent) - (uint64_t)events.chunks),
		.lent = (int64_t)(C(lent) - (uint64_t)events.lent),
	};
#undef C
	usage->lent = 0;
	usage->now = (struct gm_usage_now){0};
}

void gm_usages_begin(struct gm_usage usages[GM_COUNTER_DEVICES], const struct gm_figures *figures)
{
	const struct gm_log_about *about = figures->about;
	const bool blocks = gm_usage_has_blocks(about);
	const bool chunks = kinds_kept(about, 1u << GM_RECORD_MAP | 1u << GM_RECORD_UNMAP);
	struct gm_log_entry entry;
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		usages[d] = (struct gm_usage){
			.device = d, .blocks_known = blocks, .chunks_known = chunks};
	gm_log_read_rewind(figures->file);
	/* A log that was cut has its first events; its counters are of later ones. */
	if (about->complete || (*about->damage && about->since == about->start) ||
	    (!blocks && !chunks))
		return;
	while (gm_log_read_next(figures->file, &entry))
		if (entry.record.device < GM_COUNTER_DEVICES)
			gm_usage_follow(&usages[entry.record.device], &entry);
	gm_log_read_rewind(figures->file);
	for (unsigned d = 0; d < figures->n_devices && d < GM_COUNTER_DEVICES; d++)
		usage_base(&usages[d], figures);
}
