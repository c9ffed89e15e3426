/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/sites.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/diff/diff.h"
#include "tools/log/level.h"

enum { ROWS_DEFAULT = 10, TEXT_MOST = 640 };

/* Tensors, if both runs have them: else they cannot be compared. */
static enum gm_level level_of(const struct gm_diff_run *old, const struct gm_diff_run *new,
			      const struct gm_options *options)
{
	const struct gm_diff_run *const runs[] = {old, new};
	if (options->blocks)
		return GM_LEVEL_BLOCKS;
	for (unsigned i = 0; i < 2; i++)
		for (size_t j = 0; j < runs[i]->n; j++)
			if (gm_level_of(runs[i]->logs[j].figures.file) == GM_LEVEL_BLOCKS)
				return GM_LEVEL_BLOCKS;
	return GM_LEVEL_TENSORS;
}

/* False: `missing` names the log that does not know its sites, and the reason. */
static bool run_read(struct gm_sites *sites, const struct gm_diff_run *run,
		     const struct gm_moment_wish *wish, char *missing, size_t n)
{
	for (size_t i = 0; i < run->n; i++) {
		const struct gm_figures *f = &run->logs[i].figures;
		const char *why = gm_sites_add(sites, f->file, wish);
		if (!why)
			continue;
		snprintf(missing, n, "%s: %s", f->about->path, why);
		return false;
	}
	return true;
}

/* "at the peak of each" */
static const char *moment_text(const struct gm_moment_wish *wish, char *buf, size_t n)
{
	static const char *const texts[] = {
		[GM_MOMENT_PEAK] = "at the peak of each",
		[GM_MOMENT_OOM] = "when memory lacked first",
		[GM_MOMENT_EXIT] = "at the end of each",
	};
	char from[32], time[32];
	gm_time_format(wish->time, time, sizeof time);
	if (wish->range)
		snprintf(buf, n, "allocated from %s on and alive at %s",
			 gm_time_format(wish->from, from, sizeof from), time);
	else if (wish->kind == GM_MOMENT_TIME)
		snprintf(buf, n, "at %s", time);
	else
		snprintf(buf, n, "%s", texts[wish->kind]);
	return buf;
}

/* "train (train.py:9), line 7 before", "only new: train (train.py:9)" */
static const char *diff_text(const struct gm_site_diff *diff, char *buf, size_t n)
{
	if (!diff->old)
		snprintf(buf, n, "only new: %s", diff->new->name);
	else if (!diff->new)
		snprintf(buf, n, "only old: %s", diff->old->name);
	else if (diff->old->line != diff->new->line)
		snprintf(buf, n, "%s, line %u before", diff->new->name, diff->old->line);
	else if (strcmp(diff->old->name, diff->new->name) != 0)
		snprintf(buf, n, "%s, before %s", diff->new->name, diff->old->name);
	else
		snprintf(buf, n, "%s", diff->new->name);
	return buf;
}

static void row_text(struct gm_emit *emit, uint64_t old, uint64_t new, int64_t blocks,
		     const char *text)
{
	char change[40], count[40];
	gm_emit_row(
		emit, NULL,
		(struct gm_value[]){
			GM_BYTES(old), GM_BYTES(new),
			GM_TEXT(gm_diff_change(emit, GM_VALUE_BYTES, (int64_t)(new - old), change,
					       sizeof change)),
			GM_TEXT(gm_diff_change(emit, GM_VALUE_COUNT, blocks, count, sizeof count)),
			GM_TEXT(text)});
}

/* Rows of the sites that changed most, one of all others, and the sum. */
static void diffs_text(struct gm_emit *emit, const struct gm_site_diffs *diffs,
		       const struct gm_sites *old, const struct gm_sites *new, enum gm_level level)
{
	const bool tensors = level == GM_LEVEL_TENSORS;
	const struct gm_column columns[] = {
		{NULL, "old", 0},
		{NULL, "new", 0},
		{NULL, "change", 0},
		{NULL, tensors ? "tensors" : "blocks", 0},
		{NULL, "site", GM_COLUMN_LEFT | GM_COLUMN_WRAP | GM_COLUMN_BELOW},
	};
	const size_t most = emit->options->rows == UINT_MAX ? ROWS_DEFAULT : emit->options->rows;
	const size_t shown = diffs->changed < most ? diffs->changed : most;
	uint64_t bytes_old = old->bytes, bytes_new = new->bytes;
	int64_t blocks = (int64_t)(new->blocks - old->blocks);
	const int64_t all = blocks;
	char text[TEXT_MOST];
	gm_emit_break(emit);
	gm_emit_table(emit, NULL, true, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < shown; i++) {
		const struct gm_site_diff *diff = &diffs->all.at[i];
		const uint64_t before = diff->old ? diff->old->bytes : 0;
		const uint64_t after = diff->new ? diff->new->bytes : 0;
		row_text(emit, before, after, gm_site_diff_blocks(diff),
			 diff_text(diff, text, sizeof text));
		bytes_old -= before;
		bytes_new -= after;
		blocks -= gm_site_diff_blocks(diff);
	}
	const size_t rest = diffs->all.n - shown, changed = diffs->changed - shown;
	snprintf(text, sizeof text, "%zu other%s%s", rest, rest == 1 ? "" : "s",
		 changed ? ": -n" : ", as before");
	if (rest)
		row_text(emit, bytes_old, bytes_new, blocks, text);
	row_text(emit, old->bytes, new->bytes, all, "all");
	gm_emit_table_end(emit);
}

static void sum_json(struct gm_emit *emit, const char *key, const struct gm_sites *sites)
{
	gm_emit_object(emit, key);
	gm_emit_value(emit, "bytes", GM_BYTES(sites->bytes));
	gm_emit_value(emit, "blocks", GM_COUNT(sites->blocks));
	gm_emit_value(emit, "nameless", GM_COUNT(sites->nameless));
	gm_emit_end(emit);
}

static void site_json(struct gm_emit *emit, const char *key, const struct gm_site *site)
{
	if (!site) {
		gm_emit_value(emit, key, GM_NONE);
		return;
	}
	gm_emit_object(emit, key);
	gm_emit_value(emit, "site", GM_TEXT(site->name));
	gm_emit_value(emit, "bytes", GM_BYTES(site->bytes));
	gm_emit_value(emit, "blocks", GM_COUNT(site->blocks));
	gm_emit_end(emit);
}

static void diffs_json(struct gm_emit *emit, const struct gm_site_diffs *diffs,
		       const struct gm_sites *old, const struct gm_sites *new)
{
	sum_json(emit, "old", old);
	sum_json(emit, "new", new);
	gm_emit_list(emit, "rows");
	for (size_t i = 0; i < diffs->all.n; i++) {
		const struct gm_site_diff *diff = &diffs->all.at[i];
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "bytes", GM_INT(gm_site_diff_bytes(diff)));
		gm_emit_value(emit, "blocks", GM_INT(gm_site_diff_blocks(diff)));
		site_json(emit, "old", diff->old);
		site_json(emit, "new", diff->new);
		gm_emit_end(emit);
	}
	gm_emit_end(emit);
}

static const char *sum_text(const struct gm_emit *emit, const struct gm_sites *sites,
			    enum gm_level level, char *buf, size_t n)
{
	char bytes[32], count[32];
	gm_value_format(GM_BYTES(sites->bytes), emit->options->unit, bytes, sizeof bytes);
	snprintf(buf, n, "%s in %s %s%s", bytes, gm_tool_count(sites->blocks, count, sizeof count),
		 gm_level_name(level), sites->blocks == 1 ? "" : "s");
	return buf;
}

static void sites_text(struct gm_emit *emit, const struct gm_sites *old, const struct gm_sites *new,
		       const struct gm_moment_wish *wish)
{
	char when[128], sum[96];
	struct gm_site_diffs diffs;
	moment_text(wish, when, sizeof when);
	gm_site_diffs_make(&diffs, old, new);
	if (diffs.changed)
		gm_emit_line(emit, "sites", "%s", when);
	else if (diffs.all.n)
		gm_emit_line(emit, "sites", "%s as before: %s", when,
			     sum_text(emit, new, wish->level, sum, sizeof sum));
	else
		gm_emit_line(emit, "sites", "%s none", when);
	if (diffs.changed)
		diffs_text(emit, &diffs, old, new, wish->level);
	if (old->nameless || new->nameless)
		gm_emit_line(emit, "symbols",
			     "sites without a name: %zu of old, %zu of new; live says why",
			     old->nameless, new->nameless);
	gm_site_diffs_free(&diffs);
}

static void sites_json(struct gm_emit *emit, const struct gm_sites *old, const struct gm_sites *new)
{
	struct gm_site_diffs diffs;
	gm_site_diffs_make(&diffs, old, new);
	diffs_json(emit, &diffs, old, new);
	gm_site_diffs_free(&diffs);
}

void gm_diff_show_sites(struct gm_emit *emit, const struct gm_diff_run *old,
			const struct gm_diff_run *new)
{
	static const char *const ats[] = {"peak", "oom", "exit", "time"};
	struct gm_moment_wish wish = emit->options->at;
	struct gm_sites before = {0}, after = {0};
	char missing[512];
	wish.level = level_of(old, new, emit->options);
	const bool known = run_read(&before, old, &wish, missing, sizeof missing) &&
			   run_read(&after, new, &wish, missing, sizeof missing);
	gm_emit_break(emit);
	gm_emit_object(emit, "sites");
	gm_emit_value(emit, "at", GM_TEXT(wish.range ? "range" : ats[wish.kind]));
	gm_emit_value(emit, "level", GM_TEXT(gm_level_name(wish.level)));
	gm_emit_value(emit, "missing", known ? GM_NONE : GM_TEXT(missing));
	if (!known)
		gm_emit_line(emit, "sites", "not known: %s", missing);
	else if (emit->options->json)
		sites_json(emit, &before, &after);
	else
		sites_text(emit, &before, &after, &wish);
	gm_emit_end(emit);
	gm_sites_free(&before);
	gm_sites_free(&after);
}
