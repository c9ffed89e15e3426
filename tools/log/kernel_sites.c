/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/kernel_sites.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/tool.h"

static bool site_has(const struct gm_figures_site *site, unsigned d)
{
	return site->device == d && (site->mallocs || site->nulls || site->twice || site->invalid);
}

bool gm_kernel_sites_any(const struct gm_figures *f, unsigned d)
{
	for (size_t i = 0; i < f->sites.n; i++)
		if (site_has(&f->sites.at[i], d))
			return true;
	return false;
}

static uint64_t site_faults(const struct gm_figures_site *site)
{
	return site->nulls + site->twice + site->invalid;
}

static int site_compare(const void *a, const void *b)
{
	const struct gm_figures_site *x = a, *y = b;
	if (x->live != y->live)
		return x->live < y->live ? 1 : -1;
	if (site_faults(x) != site_faults(y))
		return site_faults(x) < site_faults(y) ? 1 : -1;
	return x->context != y->context ? (x->context > y->context) - (x->context < y->context)
					: (x->number > y->number) - (x->number < y->number);
}

static void site_json(struct gm_emit *emit, const struct gm_figures_site *site)
{
	char place[4096];
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "place", GM_TEXT(gm_figures_site_place(site, place, sizeof place)));
	gm_emit_value(emit, "calls", GM_COUNT(site->calls));
	gm_emit_value(emit, "bytes", GM_BYTES(site->live));
	gm_emit_value(emit, "blocks", GM_COUNT(site->blocks));
	gm_emit_value(emit, "peak", GM_BYTES(site->peak));
	gm_emit_value(emit, "mallocs", GM_COUNT(site->mallocs));
	gm_emit_value(emit, "nulls", GM_COUNT(site->nulls));
	gm_emit_value(emit, "freed_twice", GM_COUNT(site->twice));
	gm_emit_value(emit, "invalid_frees", GM_COUNT(site->invalid));
	gm_emit_value(emit, "file", *site->file ? GM_TEXT(site->file) : GM_NONE);
	gm_emit_value(emit, "line", *site->file ? GM_COUNT(site->line) : GM_NONE);
	gm_emit_value(emit, "function", *site->function ? GM_TEXT(site->function) : GM_NONE);
	gm_emit_value(emit, "offset", *site->function ? GM_COUNT(site->offset) : GM_NONE);
	gm_emit_value(emit, "address", site->address ? GM_COUNT(site->address) : GM_NONE);
	gm_emit_value(emit, "context", GM_COUNT(site->context));
	gm_emit_end(emit);
}

/* "; 3 got NULL, 2 frees of a free block": what went wrong, if anything. */
static void faults_text(const struct gm_figures_site *site, char *buf, size_t n)
{
	const struct {
		uint64_t count;
		const char *one, *many;
	} faults[] = {
		{site->nulls, "malloc got NULL", "mallocs got NULL"},
		{site->twice, "free of a free block", "frees of a free block"},
		{site->invalid, "free of no block", "frees of no block"},
	};
	size_t at = 0;
	char count[32];
	*buf = '\0';
	for (unsigned i = 0; i < 3; i++)
		if (faults[i].count && at < n)
			at += (size_t)snprintf(buf + at, n - at, "%s%s %s", at ? ", " : "",
					       gm_tool_count(faults[i].count, count, sizeof count),
					       faults[i].count == 1 ? faults[i].one
								    : faults[i].many);
}

static void site_text(struct gm_emit *emit, const struct gm_figures_site *site)
{
	char label[32] = "", blocks[32], peak[32], faults[160], place[4096];
	faults_text(site, faults, sizeof faults);
	gm_figures_site_place(site, place, sizeof place);
	if (site->blocks || !*faults)
		gm_value_format(GM_BYTES(site->live), emit->options->unit, label, sizeof label);
	gm_value_format(GM_BYTES(site->peak), emit->options->unit, peak, sizeof peak);
	gm_emit_break(emit);
	if (*label)
		gm_emit_line(emit, label, "%s block%s of malloc in kernels, at most %s%s%s",
			     gm_tool_count(site->blocks, blocks, sizeof blocks),
			     site->blocks == 1 ? "" : "s", peak, *faults ? "; " : "", faults);
	else
		gm_emit_line(emit, "0 B", "in kernels: %s", faults);
	gm_emit_line(emit, "", "%s", place);
}

void gm_kernel_sites_show(struct gm_emit *emit, struct gm_figures *f, unsigned d, size_t rows)
{
	size_t hidden = 0, shown = 0;
	gm_figures_sites_name(f);
	if (f->sites.n)
		qsort(f->sites.at, f->sites.n, sizeof *f->sites.at, site_compare);
	gm_emit_list(emit, "sites");
	for (size_t i = 0; i < f->sites.n; i++) {
		const struct gm_figures_site *site = &f->sites.at[i];
		if (!site_has(site, d))
			continue;
		if (emit->options->json)
			site_json(emit, site);
		else if (!site->blocks && !site_faults(site))
			continue;
		else if (shown++ < rows)
			site_text(emit, site);
		else
			hidden++;
	}
	gm_emit_end(emit);
	if (hidden)
		gm_emit_line(emit, "", "%zu more calls in kernels: -n", hidden);
}
