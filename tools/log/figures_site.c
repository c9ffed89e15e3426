/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of malloc in kernels by call. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/log/figures.h"
#include "tools/stack/child.h"

static const char *record_text(const struct gm_figures *f, uint32_t string)
{
	const char *text = gm_log_read_string(f->file, string);
	return text ? text : "";
}

/* The call of a record, from the last one on: a context may end, and its key be used again. */
static struct gm_figures_site *site_find(struct gm_figures *f, const struct gm_record *r)
{
	for (size_t i = f->sites.n; i-- > 0;) {
		struct gm_figures_site *site = &f->sites.at[i];
		if (site->number == (uint32_t)r->id && site->context == r->context &&
		    site->device == r->device && (!site->ended || r->flags & GM_RECORD_LAST))
			return site;
	}
	const struct gm_figures_site site = {.function = "",
					     .file = "",
					     .number = (uint32_t)r->id,
					     .calls = 1,
					     .context = r->context,
					     .device = r->device};
	return gm_array_push(&f->sites, site) ? &f->sites.at[f->sites.n - 1] : NULL;
}

bool gm_figures_add_site(struct gm_figures *f, const struct gm_record *r)
{
	struct gm_figures_site *site = site_find(f, r);
	if (!site)
		return false;
	site->ended = r->flags & GM_RECORD_LAST;
	switch (r->kind) {
	case GM_RECORD_SITE:
		site->address = r->address;
		site->offset = r->size;
		site->function = record_text(f, r->string);
		site->file = record_text(f, (uint32_t)r->held);
		site->line = (uint32_t)(r->held >> 32);
		break;
	case GM_RECORD_SITE_BLOCKS:
		site->live = r->address;
		site->blocks = r->size;
		site->peak = r->held;
		break;
	default:
		site->mallocs = r->address;
		site->nulls = r->size;
		site->twice = (uint32_t)r->held;
		site->invalid = r->held >> 32;
		break;
	}
	return true;
}

static int line_compare(const void *a, const void *b)
{
	const struct gm_figures_site *x = a, *y = b;
	int order = (x->device > y->device) - (x->device < y->device);
	if (!order)
		order = (x->context > y->context) - (x->context < y->context);
	if (!order)
		order = strcmp(x->file, y->file);
	if (!order)
		order = (x->line > y->line) - (x->line < y->line);
	return order ? order : strcmp(x->function, y->function);
}

static void site_add(struct gm_figures_site *to, const struct gm_figures_site *site)
{
	to->calls += site->calls;
	to->live += site->live;
	to->blocks += site->blocks;
	to->peak += site->peak;
	to->mallocs += site->mallocs;
	to->nulls += site->nulls;
	to->twice += site->twice;
	to->invalid += site->invalid;
}

void gm_figures_sites_join(struct gm_figures *f)
{
	struct gm_figures_site *at = f->sites.at;
	size_t to = 0;
	if (f->sites.n)
		qsort(at, f->sites.n, sizeof *at, line_compare);
	for (size_t i = 0; i < f->sites.n; i++)
		if (to && *at[i].file && line_compare(&at[to - 1], &at[i]) == 0)
			site_add(&at[to - 1], &at[i]);
		else
			at[to++] = at[i];
	f->sites.n = to;
}

void gm_figures_sites_name(struct gm_figures *f)
{
	const char **names =
		f->sites.n && !f->site_names ? calloc(f->sites.n, sizeof *names) : NULL;
	for (size_t i = 0; names && i < f->sites.n; i++)
		names[i] = f->sites.at[i].function;
	if (names)
		gm_child_demangle(names, f->sites.n, &f->site_names);
	for (size_t i = 0; names && i < f->sites.n; i++)
		f->sites.at[i].shown = names[i];
	free(names);
}

char *gm_figures_site_place(const struct gm_figures_site *site, char *buf, size_t n)
{
	const char *function = site->shown ? site->shown : site->function;
	if (!site->address)
		snprintf(buf, n, "unknown calls");
	else if (*site->file)
		snprintf(buf, n, "%s:%" PRIu32 "%s%s", site->file, site->line,
			 *function ? " in " : "", function);
	else if (*function)
		snprintf(buf, n, "%s+0x%" PRIx64, function, site->offset);
	else
		snprintf(buf, n, "0x%" PRIx64, site->address);
	return buf;
}
