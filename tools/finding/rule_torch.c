/* SPDX-License-Identifier: BSD-3-Clause */
/* Why PyTorch's cache gave up for the first time, and what would have helped: the first rule of a
 * table that applies. gpumemstat(1), FINDINGS, has each formula. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/finding/findings.h"
#include "tools/log/groups.h"
#include "tools/log/owners.h"
#include "tools/stack/frames.h"

/* What the context and the libraries of one process may have on a device. */
#define OWN_CONTEXT GM_GIB

typedef const struct gm_figures_giveup giveup;

/* --- figures --- */

static uint64_t giveup_unused(giveup *g)
{
	return g->segments > g->tensors ? g->segments - g->tensors : 0;
}

static uint64_t giveup_needed(const struct gm_figures *f, giveup *g)
{
	return gm_figures_needed(f, g->device, &g->sample, g->asked);
}

/* `foreign`: all of this process that is not the pool's, at its peak. */
static uint64_t giveup_others(const struct gm_figures *f, giveup *g)
{
	return gm_owners_others(&g->sample, gm_figures_foreign(f, g->device, &g->sample));
}

/* --- rules --- */

static uint64_t device_total(const struct gm_figures *f, giveup *g)
{
	return g->device < f->about->n_devices ? f->about->devices[g->device].total : 0;
}

static bool is_size(const struct gm_figures *f, giveup *g)
{
	const uint64_t total = device_total(f, g);
	return total && g->asked > total;
}

/* Not what was lent: the segments have less memory then. */
static bool is_pieces(const struct gm_figures *f, giveup *g)
{
	return giveup_unused(g) >= g->asked && !gm_figures_device(f, g->device, GM_C_lend_bytes);
}

static bool is_fraction(const struct gm_figures *f, giveup *g)
{
	(void)f;
	return !g->refused;
}

static bool is_limit(const struct gm_figures *f, giveup *g)
{
	const struct gm_sample *s = &g->sample;
	return s->limit && s->device_total > s->limit && giveup_needed(f, g) > s->limit;
}

static bool is_others(const struct gm_figures *f, giveup *g)
{
	const uint64_t others = giveup_others(f, g);
	return others > OWN_CONTEXT && others - OWN_CONTEXT >= g->asked;
}

static bool is_line(const struct gm_figures *f, giveup *g)
{
	(void)f;
	(void)g;
	return true;
}

static bool (*const rules[])(const struct gm_figures *f, giveup *g) = {
	is_size, is_pieces, is_fraction, is_limit, is_others, is_line,
};

/* The first time that the cache gave up, if this rule is the first that applies; else NULL. */
static giveup *giveup_first(const struct gm_figures *f,
			    bool (*rule)(const struct gm_figures *f, giveup *g),
			    struct gm_finding *out)
{
	giveup *g = gm_figures_giveup(f, -1);
	size_t i = 0;
	if (!g || g->device >= GM_COUNTER_DEVICES)
		return NULL;
	while (!rules[i](f, g))
		i++;
	out->device = g->device;
	out->of = GM_BYTES(g->asked);
	return rules[i] == rule ? g : NULL;
}

bool gm_rule_torch_oom_size(struct gm_figures *f, struct gm_finding *out)
{
	giveup *g = giveup_first(f, is_size, out);
	out->value = out->of;
	out->of = GM_BYTES(g ? device_total(f, g) : 0);
	return g;
}

bool gm_rule_torch_oom_pieces(struct gm_figures *f, struct gm_finding *out)
{
	giveup *g = giveup_first(f, is_pieces, out);
	out->value = GM_BYTES(g ? giveup_unused(g) : 0);
	return g;
}

bool gm_rule_torch_oom_fraction(struct gm_figures *f, struct gm_finding *out)
{
	giveup *g = giveup_first(f, is_fraction, out);
	out->value = GM_COUNT(f->giveups.n);
	out->other = GM_BYTES(g ? g->segments : 0);
	return g;
}

bool gm_rule_torch_oom_limit(struct gm_figures *f, struct gm_finding *out)
{
	giveup *g = giveup_first(f, is_limit, out);
	if (!g)
		return false;
	out->value = GM_BYTES(giveup_needed(f, g));
	out->of = GM_BYTES(g->sample.limit);
	out->other = GM_BYTES(g->asked);
	return true;
}

bool gm_rule_torch_oom_others(struct gm_figures *f, struct gm_finding *out)
{
	giveup *g = giveup_first(f, is_others, out);
	out->value = GM_BYTES(g ? giveup_others(f, g) : 0);
	return g;
}

/* --- the line with most bytes --- */

struct line {
	uint64_t bytes;
	char place[GM_FINDING_PLACE];
};

static int line_compare(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->place, ((const struct line *)b)->place);
}

/* Add up the lines of the same place. */
static struct line lines_most(struct line *lines, size_t n)
{
	struct line most = {0}, now = {0};
	if (n)
		qsort(lines, n, sizeof *lines, line_compare);
	for (size_t i = 0; i < n; i++) {
		now.bytes = i && !strcmp(lines[i].place, lines[i - 1].place) ? now.bytes : 0;
		now.bytes += lines[i].bytes;
		memcpy(now.place, lines[i].place, sizeof now.place);
		most = now.bytes > most.bytes ? now : most;
	}
	return most;
}

/* Lines of Python need no symbols; the stacks of C go by their objects. */
static struct line line_find(struct gm_figures *f, unsigned device)
{
	const struct gm_moment_wish wish = {.kind = GM_MOMENT_OOM, .level = GM_LEVEL_TENSORS};
	const struct gm_symbols symbols = {.file = f->file};
	struct gm_alive_moment moments[GM_COUNTER_DEVICES] = {0};
	struct gm_alive alive;
	struct gm_groups groups;
	gm_alive_moments(f->file, &wish, moments);
	gm_alive_find(f->file, moments, false, GM_LEVEL_TENSORS, &alive);
	gm_groups_make(&groups, &alive, GM_GROUP_STACK);
	const struct gm_groups_part part = gm_groups_part(&groups, device);
	struct line *lines = calloc(part.n + 1, sizeof *lines), most = {0};
	for (size_t i = 0; lines && i < part.n; i++) {
		lines[i].bytes = part.at[i].bytes;
		gm_frames_place(&symbols, (uint32_t)part.at[i].key, lines[i].place,
				sizeof lines[i].place);
	}
	if (lines)
		most = lines_most(lines, part.n);
	free(lines);
	gm_groups_free(&groups);
	gm_alive_free(&alive);
	return most;
}

bool gm_rule_torch_oom_line(struct gm_figures *f, struct gm_finding *out)
{
	giveup *g = giveup_first(f, is_line, out);
	if (!g)
		return false;
	struct line line = {g->tensors, "lines that only a log of events has"};
	if (!gm_alive_missing(f->about))
		line = line_find(f, g->device);
	out->value = GM_BYTES(line.bytes);
	out->other = GM_BYTES(g->tensors);
	snprintf(out->place, sizeof out->place, "%s",
		 *line.place ? line.place : "calls that the log does not know");
	return true;
}
