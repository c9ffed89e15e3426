/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/sites.h"

#include <stdlib.h>
#include <string.h>

#include "tools/log/groups.h"
#include "tools/stack/frames.h"
#include "tools/tool.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* --- the sites of a run --- */

static const char *text_keep(struct gm_sites *sites, const char *text)
{
	char *copy = strdup(text);
	if (!copy || !gm_array_push(&sites->texts, copy))
		memory_exhausted();
	return copy;
}

static int site_compare(const void *a, const void *b)
{
	const struct gm_site *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* Add up the sites of one name. */
static void sites_merge(struct gm_sites *sites)
{
	struct gm_site *at = sites->all.at;
	size_t to = 0;
	if (sites->all.n)
		qsort(at, sites->all.n, sizeof *at, site_compare);
	for (size_t i = 0; i < sites->all.n; i++) {
		if (to && !strcmp(at[to - 1].name, at[i].name)) {
			at[to - 1].bytes += at[i].bytes;
			at[to - 1].blocks += at[i].blocks;
		} else {
			at[to++] = at[i];
		}
	}
	sites->all.n = to;
	sites->nameless = 0;
	for (size_t i = 0; i < to; i++)
		sites->nameless += !at[i].line && strstr(at[i].name, "+0x");
}

static void site_add(struct gm_sites *sites, const struct gm_frames_site *named,
		     const struct gm_groups_one *group)
{
	const struct gm_site site = {text_keep(sites, named->name),
				     text_keep(sites, named->file),
				     text_keep(sites, named->stem),
				     named->line,
				     group->bytes,
				     group->blocks};
	if (!gm_array_push(&sites->all, site))
		memory_exhausted();
	sites->bytes += group->bytes;
	sites->blocks += group->blocks;
}

static void group_add(struct gm_sites *sites, const struct gm_symbols *symbols,
		      const struct gm_groups_one *group)
{
	const uint32_t stack = (uint32_t)group->key;
	struct gm_frames_site named;
	gm_frames_site(symbols, stack, &named);
	if (!*named.name)
		snprintf(named.name, sizeof named.name,
			 stack ? "a stack that the log lacks" : "without a stack");
	site_add(sites, &named, group);
}

static void groups_add(struct gm_sites *sites, struct gm_log_file *file,
		       const struct gm_groups *groups, bool stacks)
{
	static const struct gm_frames_site without = {.name = "without a stack"};
	static const struct gm_frames_site rest = {.name = "not in the record of the refusal"};
	struct gm_symbols symbols = {.file = file};
	for (size_t i = 0; stacks && i < groups->all.n; i++)
		gm_frames_want(&symbols, (uint32_t)groups->all.at[i].key);
	gm_symbols_resolve(&symbols);
	for (size_t i = 0; i < groups->all.n; i++)
		if (stacks)
			group_add(sites, &symbols, &groups->all.at[i]);
		else
			site_add(sites, &without, &groups->all.at[i]);
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		if (groups->rest[d].blocks)
			site_add(sites, &rest, &groups->rest[d]);
	gm_symbols_free(&symbols);
	sites_merge(sites);
}

/* A log without events has the blocks of its first refusal. */
static bool refusal_add(struct gm_sites *sites, struct gm_log_file *file)
{
	struct gm_alive_moment moments[GM_COUNTER_DEVICES];
	struct gm_groups groups;
	enum gm_group by;
	const bool any = gm_groups_of_refusal(&groups, file, moments, &by);
	if (any)
		groups_add(sites, file, &groups, by == GM_GROUP_STACK);
	gm_groups_free(&groups);
	return any;
}

const char *gm_sites_add(struct gm_sites *sites, struct gm_log_file *file,
			 const struct gm_moment_wish *wish)
{
	const char *missing = gm_alive_missing(gm_log_read_about(file));
	struct gm_alive_moment moments[GM_COUNTER_DEVICES] = {0};
	struct gm_alive alive;
	struct gm_groups groups;
	if (missing)
		return wish->kind == GM_MOMENT_OOM && refusal_add(sites, file) ? NULL : missing;
	gm_alive_moments(file, wish, moments);
	missing = gm_alive_unknown(file, wish);
	if (missing)
		return missing;
	gm_alive_find(file, moments, false, wish->level, &alive);
	gm_groups_make(&groups, &alive, GM_GROUP_STACK);
	groups_add(sites, file, &groups, true);
	gm_groups_free(&groups);
	gm_alive_free(&alive);
	return NULL;
}

void gm_sites_free(struct gm_sites *sites)
{
	for (size_t i = 0; i < sites->texts.n; i++)
		free(sites->texts.at[i]);
	gm_array_free(&sites->texts);
	gm_array_free(&sites->all);
}

/* --- two runs --- */

int64_t gm_site_diff_bytes(const struct gm_site_diff *diff)
{
	return (int64_t)((diff->new ? diff->new->bytes : 0) - (diff->old ? diff->old->bytes : 0));
}

int64_t gm_site_diff_blocks(const struct gm_site_diff *diff)
{
	return (int64_t)((diff->new ? diff->new->blocks : 0) - (diff->old ? diff->old->blocks : 0));
}

static const char *diff_name(const struct gm_site_diff *diff)
{
	return diff->new ? diff->new->name : diff->old->name;
}

static int sizes_compare(int64_t x, int64_t y)
{
	const uint64_t p = x < 0 ? -(uint64_t)x : (uint64_t)x;
	const uint64_t q = y < 0 ? -(uint64_t)y : (uint64_t)y;
	return (p < q) - (p > q);
}

static int diff_compare(const void *a, const void *b)
{
	const struct gm_site_diff *x = a, *y = b;
	int order = sizes_compare(gm_site_diff_bytes(x), gm_site_diff_bytes(y));
	if (!order)
		order = sizes_compare(gm_site_diff_blocks(x), gm_site_diff_blocks(y));
	return order ? order : strcmp(diff_name(x), diff_name(y));
}

/* The texts by which sites of two runs match if their names differ, in the order of the attempts.
 */
static const char *site_text(const struct gm_site *site, unsigned attempt)
{
	return attempt ? site->stem : site->file;
}
enum { ATTEMPTS = 2 };

/* The sites of a run, sorted by each of the texts. */
struct run {
	const struct gm_sites *sites;
	const struct gm_site **by[ATTEMPTS];
};

static int file_compare(const void *a, const void *b)
{
	const struct gm_site *const *x = a, *const *y = b;
	return strcmp((*x)->file, (*y)->file);
}

static int stem_compare(const void *a, const void *b)
{
	const struct gm_site *const *x = a, *const *y = b;
	return strcmp((*x)->stem, (*y)->stem);
}

static struct run run_make(const struct gm_sites *sites)
{
	static int (*const compare[ATTEMPTS])(const void *, const void *) = {file_compare,
									     stem_compare};
	struct run run = {.sites = sites};
	for (unsigned t = 0; t < ATTEMPTS; t++) {
		run.by[t] = calloc(sites->all.n + 1, sizeof *run.by[t]);
		if (!run.by[t])
			memory_exhausted();
		for (size_t i = 0; i < sites->all.n; i++)
			run.by[t][i] = &sites->all.at[i];
		qsort(run.by[t], sites->all.n, sizeof *run.by[t], compare[t]);
	}
	return run;
}

static void run_free(struct run *run)
{
	for (unsigned t = 0; t < ATTEMPTS; t++)
		free(run->by[t]);
}

/* The only site of a run with this text; NULL: none, or several. */
static const struct gm_site *only_find(const struct run *run, unsigned attempt, const char *text)
{
	const struct gm_site *const *by = run->by[attempt];
	size_t low = 0, high = run->sites->all.n;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (strcmp(site_text(by[middle], attempt), text) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == run->sites->all.n || strcmp(site_text(by[low], attempt), text) != 0)
		return NULL;
	const bool several =
		low + 1 < run->sites->all.n && !strcmp(site_text(by[low + 1], attempt), text);
	return several ? NULL : by[low];
}

/* The site of the other run that is this one of `own`; NULL: none. Each step is the same from both
 * sides. */
static const struct gm_site *site_find(const struct gm_site *site, const struct run *own,
				       const struct run *other)
{
	const struct gm_site *found = NULL;
	if (other->sites->all.n)
		found = bsearch(site, other->sites->all.at, other->sites->all.n, sizeof *site,
				site_compare);
	for (unsigned t = 0; t < ATTEMPTS && !found; t++) {
		const char *text = site_text(site, t);
		if (*text && only_find(own, t, text))
			found = only_find(other, t, text);
	}
	return found;
}

static void diff_push(struct gm_site_diffs *diffs, const struct gm_site *old,
		      const struct gm_site *new)
{
	if (!gm_array_push(&diffs->all, ((struct gm_site_diff){old, new})))
		memory_exhausted();
}

void gm_site_diffs_make(struct gm_site_diffs *diffs, const struct gm_sites *old,
			const struct gm_sites *new)
{
	struct run before = run_make(old), after = run_make(new);
	*diffs = (struct gm_site_diffs){0};
	for (size_t i = 0; i < new->all.n; i++)
		diff_push(diffs, site_find(&new->all.at[i], &after, &before), &new->all.at[i]);
	for (size_t i = 0; i < old->all.n; i++)
		if (!site_find(&old->all.at[i], &before, &after))
			diff_push(diffs, &old->all.at[i], NULL);
	run_free(&before);
	run_free(&after);
	if (diffs->all.n)
		qsort(diffs->all.at, diffs->all.n, sizeof *diffs->all.at, diff_compare);
	while (diffs->changed < diffs->all.n &&
	       (gm_site_diff_bytes(&diffs->all.at[diffs->changed]) ||
		gm_site_diff_blocks(&diffs->all.at[diffs->changed])))
		diffs->changed++;
}

void gm_site_diffs_free(struct gm_site_diffs *diffs)
{
	gm_array_free(&diffs->all);
}
