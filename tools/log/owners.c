/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/owners.h"

#include "base/size.h"
#include "tools/log/cache.h"
#include "tools/log/usage.h"

static uint64_t less(uint64_t from, uint64_t other)
{
	return from > other ? from - other : 0;
}

uint64_t gm_owners_others(const struct gm_sample *s, uint64_t driver)
{
	return less(less(s->device_total, s->device_free), s->mapped + s->lent + driver);
}

static void tensors_add(struct gm_owners *owners, struct gm_log_file *file,
			const struct gm_alive_moment *moments)
{
	struct gm_alive tensors;
	gm_alive_find(file, moments, false, GM_LEVEL_TENSORS, &tensors);
	for (size_t i = 0; i < tensors.blocks.n; i++)
		owners[tensors.blocks.at[i].device].bytes[GM_OWNER_tensors] +=
			tensors.blocks.at[i].size;
	gm_alive_free(&tensors);
}

/* Blocks of the driver are added to driver[], others to pool[]. */
static void blocks_add(struct gm_owners *owners, struct gm_log_file *file,
		       const struct gm_alive_moment *moments, uint64_t *driver, uint64_t *pool)
{
	struct gm_cache cache;
	struct gm_alive blocks;
	gm_cache_find(&cache, file);
	gm_alive_find(file, moments, false, GM_LEVEL_BLOCKS, &blocks);
	for (size_t i = 0; i < blocks.blocks.n; i++) {
		const struct gm_alive_block *b = &blocks.blocks.at[i];
		const bool segment = gm_cache_has(&cache, b->device, b->id);
		owners[b->device].bytes[segment ? GM_OWNER_cache : GM_OWNER_blocks] += b->size;
		(b->driver ? driver : pool)[b->device] += b->size;
	}
	gm_alive_free(&blocks);
	gm_cache_free(&cache);
}

/* The pool's chunks at the moments. */
static void usages_read(struct gm_usage *usages, const struct gm_figures *figures,
			const struct gm_alive_moment *moments)
{
	struct gm_log_entry entry;
	gm_usages_begin(usages, figures);
	for (uint64_t n = 1; gm_log_read_next(figures->file, &entry); n++) {
		const unsigned d = entry.record.device;
		if (d < GM_COUNTER_DEVICES && n <= moments[d].at.records)
			gm_usage_follow(&usages[d], &entry);
	}
}

/* Memory of others at the last query of the driver; foreign memory that is in no block belongs to
 * libraries. */
static void others_ask(struct gm_owners *owners, const struct gm_figures *figures, unsigned d)
{
#define C(name) gm_figures_device(figures, d, GM_C_##name)
	const uint64_t foreign = less(C(foreign), C(foreign_driver));
	owners->others_known = C(device_asked);
	owners->asked = C(device_asked_time);
	owners->bytes[GM_OWNER_others] = less(C(device_used), less(C(device_accounted), foreign));
#undef C
}

static void device_find(struct gm_owners *owners, const struct gm_figures *figures, unsigned d,
			const struct gm_alive_moment *moment, const struct gm_usage_now *now,
			uint64_t driver, uint64_t pool)
{
	const struct gm_figures_giveup *giveup = gm_figures_giveup(figures, (int)d);
	const bool sampled = giveup && giveup->refused && moment->at.time == giveup->time &&
			     giveup->sample.device_total;
	const uint64_t mapped = sampled ? giveup->sample.mapped : now->mapped;
	uint64_t *bytes = owners->bytes;
	owners->time = moment->at.time;
	owners->known = moment->known && bytes[GM_OWNER_cache] >= bytes[GM_OWNER_tensors];
	bytes[GM_OWNER_cache] = less(bytes[GM_OWNER_cache], bytes[GM_OWNER_tensors]);
	bytes[GM_OWNER_pool] = less(mapped, pool);
	bytes[GM_OWNER_heaps] = sampled ? giveup->sample.lent : now->lent;
	if (sampled) {
		owners->others_known = true;
		owners->asked = moment->at.time;
		bytes[GM_OWNER_others] = gm_owners_others(&giveup->sample, driver);
	} else {
		others_ask(owners, figures, d);
	}
	for (unsigned i = 0; i < GM_OWNER_COUNT; i++)
		owners->used += bytes[i];
}

void gm_owners_find(struct gm_owners owners[GM_COUNTER_DEVICES], const struct gm_figures *figures,
		    const struct gm_alive_moment moments[GM_COUNTER_DEVICES])
{
	struct gm_usage usages[GM_COUNTER_DEVICES];
	uint64_t driver[GM_COUNTER_DEVICES] = {0}, pool[GM_COUNTER_DEVICES] = {0};
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		owners[d] = (struct gm_owners){0};
	tensors_add(owners, figures->file, moments);
	blocks_add(owners, figures->file, moments, driver, pool);
	usages_read(usages, figures, moments);
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		device_find(&owners[d], figures, d, &moments[d], &usages[d].now, driver[d],
			    pool[d]);
}

/* --- the table --- */

/* Sums of a damaged log may wrap. */
static struct gm_value share_of(uint64_t part, uint64_t whole)
{
	return whole && part <= whole ? GM_PPM((uint64_t)((double)part / (double)whole * 1e6 + 0.5))
				      : GM_NONE;
}

static void owner_row(struct gm_emit *emit, const struct gm_owners *owners, enum gm_owner owner)
{
	static const struct {
		const char *key, *text;
	} names[] = {
#define GM_OWNER(name, text) {#name, text},
		GM_OWNERS(GM_OWNER)
#undef GM_OWNER
	};
	const bool known = owner != GM_OWNER_others || owners->others_known;
	const uint64_t bytes = owners->bytes[owner];
	gm_emit_row(emit, names[owner].key,
		    (struct gm_value[]){GM_TEXT(names[owner].text),
					known ? GM_BYTES(bytes) : GM_NONE,
					known ? share_of(bytes, owners->used) : GM_NONE});
}

/* Text leaves out owners without bytes, and says where others are not known. */
void gm_owners_show(struct gm_emit *emit, const struct gm_owners *owners,
		    const struct gm_figures *figures)
{
	const struct gm_column columns[] = {
		{"owner", "in use on the device", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"bytes", "bytes", 0},
		{"share", "share", 0}};
	char at[32];
	if (!owners->known) {
		gm_emit_value(emit, "owners", GM_NONE);
		return;
	}
	gm_emit_break(emit);
	gm_emit_table(emit, "owners", true, columns, 3);
	for (unsigned i = 0; i < GM_OWNER_COUNT; i++)
		if (owners->bytes[i] || emit->options->json)
			owner_row(emit, owners, (enum gm_owner)i);
	gm_emit_row(emit, "all",
		    (struct gm_value[]){GM_TEXT("all"), GM_BYTES(owners->used),
					share_of(owners->used, owners->used)});
	gm_emit_table_end(emit);
	gm_emit_value(emit, "others_ns",
		      owners->others_known ? GM_NS(gm_figures_at(figures, owners->asked))
					   : GM_NONE);
	if (!owners->others_known)
		gm_emit_line(emit, "", "The driver was not asked what others use.");
	else if (owners->bytes[GM_OWNER_others] && owners->asked != owners->time)
		gm_emit_line(emit, "", "The memory of others is that of %s.",
			     gm_time_format(gm_figures_at(figures, owners->asked), at, sizeof at));
}
