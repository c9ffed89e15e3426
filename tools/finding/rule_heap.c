/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements for the rules about malloc in kernels; gpumemstat(1), FINDINGS, has each formula. */
#include "tools/finding/findings.h"

#define SUM(name) gm_figures_sum(f, GM_C_##name)

/* Mallocs that returned NULL. `why`: this rule has the reason. */
static bool nulls_measure(const struct gm_figures *f, bool why, struct gm_finding *out)
{
	out->value = GM_COUNT(SUM(heap_nulls));
	out->of = GM_BYTES(SUM(heap_mapped_peak));
	return why;
}

bool gm_rule_heap_limit(struct gm_figures *f, struct gm_finding *out)
{
	return nulls_measure(f, SUM(heap_refused_limit) > 0, out);
}

bool gm_rule_heap_full(struct gm_figures *f, struct gm_finding *out)
{
	return nulls_measure(f, SUM(heap_refused) > 0 && SUM(heap_refused_limit) == 0, out);
}

bool gm_rule_heap_nulls(struct gm_figures *f, struct gm_finding *out)
{
	return nulls_measure(f, SUM(heap_refused) == 0, out);
}

bool gm_rule_heap_bad_free(struct gm_figures *f, struct gm_finding *out)
{
	out->value = GM_COUNT(SUM(heap_foreign_frees));
	for (size_t i = 0; i < f->sites.n; i++) /* else other findings name the places */
		if (f->sites.at[i].twice || f->sites.at[i].invalid)
			return false;
	return true;
}

/* Measure one of the counts of calls, and name the call with the highest. `at`: the offset of the
 * count. */
static bool sites_measure(struct gm_figures *f, size_t at, struct gm_finding *out)
{
	const struct gm_figures_site *most = NULL;
	uint64_t sum = 0, highest = 0;
	gm_figures_sites_name(f);
	for (size_t i = 0; i < f->sites.n; i++) {
		const struct gm_figures_site *site = &f->sites.at[i];
		uint64_t count = *(const uint64_t *)((const char *)site + at);
		sum += count;
		if (count <= highest)
			continue;
		highest = count;
		most = site;
	}
	out->value = GM_COUNT(sum);
	out->other = GM_COUNT(highest);
	if (most)
		gm_figures_site_place(most, out->place, sizeof out->place);
	return most;
}

bool gm_rule_heap_null_place(struct gm_figures *f, struct gm_finding *out)
{
	return sites_measure(f, offsetof(struct gm_figures_site, nulls), out);
}

bool gm_rule_heap_freed_twice(struct gm_figures *f, struct gm_finding *out)
{
	return sites_measure(f, offsetof(struct gm_figures_site, twice), out);
}

bool gm_rule_heap_invalid_free(struct gm_figures *f, struct gm_finding *out)
{
	return sites_measure(f, offsetof(struct gm_figures_site, invalid), out);
}

/* The place with most bytes. A running program may free them yet. */
bool gm_rule_heap_leaks(struct gm_figures *f, struct gm_finding *out)
{
	uint64_t blocks = 0;
	if (f->about->running || !sites_measure(f, offsetof(struct gm_figures_site, live), out))
		return false;
	for (size_t i = 0; i < f->sites.n; i++)
		blocks += f->sites.at[i].blocks;
	out->of = GM_BYTES(out->value.n);
	out->value = GM_COUNT(blocks);
	return true;
}

/* The reason of the first context; a small log may have no room for it. */
bool gm_rule_kernels_native(struct gm_figures *f, struct gm_finding *out)
{
	out->value = GM_COUNT(SUM(takeovers_native));
	out->other = GM_TEXT("the log does not say why");
	for (size_t i = f->contexts.n; i-- > 0;)
		if (!f->contexts.at[i].taken)
			out->other = GM_TEXT(f->contexts.at[i].text);
	return true;
}

/* The device with the longest median. */
bool gm_rule_heap_growth(struct gm_figures *f, struct gm_finding *out)
{
	for (unsigned d = 0; d < f->n_devices; d++) {
		uint64_t median = gm_figures_growth(f, d).least;
		if (median <= out->value.n)
			continue;
		out->device = d;
		out->value = GM_NS(median);
		out->of = GM_COUNT(gm_figures_device(f, d, GM_C_heap_growths));
		out->other = GM_NS(gm_figures_device(f, d, GM_C_heap_growth_longest));
	}
	return out->value.n > 0;
}

/* The device with the longest waits of kernels. `again`: among devices with heaps that grew by more
 * than their peak; else among the others. */
static bool waits_measure(const struct gm_figures *f, bool again, struct gm_finding *out)
{
	for (unsigned d = 0; d < f->n_devices; d++) {
		uint64_t waited = gm_figures_device(f, d, GM_C_heap_wait_ns);
		uint64_t grown = gm_figures_device(f, d, GM_C_heap_growth_bytes);
		uint64_t peak = gm_figures_device(f, d, GM_C_heap_mapped_peak);
		if (waited <= out->value.n || (grown > peak) != again)
			continue;
		out->device = d;
		out->value = GM_NS(waited);
		out->of = GM_BYTES(grown);
		out->other = GM_BYTES(peak);
	}
	return out->value.n > 0;
}

bool gm_rule_heap_regrown(struct gm_figures *f, struct gm_finding *out)
{
	return waits_measure(f, true, out);
}

bool gm_rule_heap_waits(struct gm_figures *f, struct gm_finding *out)
{
	return waits_measure(f, false, out);
}
