/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/frag.h"

static double ratio_or(double part, double whole, double otherwise)
{
	return whole > 0 ? part / whole : otherwise;
}

static uint64_t difference_or_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* The largest run is part of idle memory; in an inconsistent sample it may be larger. */
uint64_t gm_frag_external_ppm(uint64_t idle, uint64_t largest)
{
	return idle ? (uint64_t)((unsigned __int128)difference_or_zero(idle, largest) * 1000000 /
				 idle)
		    : 0;
}

static double external_ratio(uint64_t idle, uint64_t largest)
{
	return ratio_or((double)difference_or_zero(idle, largest), (double)idle, 0);
}

void gm_frag_now(const struct gm_sample *sample, struct gm_frag *out)
{
	out->internal = (double)difference_or_zero(sample->handed_out, sample->requested);
	out->external = external_ratio(sample->idle, sample->largest_idle);
	out->external_remap = external_ratio(sample->idle, sample->largest_after_remap);
	out->unreclaimable = (double)sample->unreclaimable;
	out->utilisation = ratio_or((double)sample->requested, (double)sample->mapped, 1);
}

void gm_frag_peak(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out)
{
	out->internal = (double)counters[GM_C_internal_peak];
	out->external = (double)counters[GM_C_external_peak] / 1e6;
	out->external_remap = (double)counters[GM_C_external_remap_peak] / 1e6;
	out->unreclaimable = (double)counters[GM_C_unreclaimable_peak];
	out->utilisation = ratio_or((double)counters[GM_C_requested_peak],
				    (double)counters[GM_C_mapped_peak], 1);
}

void gm_frag_mean(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out)
{
	double seconds = (double)counters[GM_C_sampled_ns] / 1e9;
	out->internal = ratio_or((double)counters[GM_C_internal_seconds], seconds, 0);
	out->external = ratio_or((double)counters[GM_C_external_seconds] / 1e6, seconds, 0);
	out->external_remap =
		ratio_or((double)counters[GM_C_external_remap_seconds] / 1e6, seconds, 0);
	out->unreclaimable = ratio_or((double)counters[GM_C_unreclaimable_seconds], seconds, 0);
	out->utilisation = ratio_or((double)counters[GM_C_requested_seconds],
				    (double)counters[GM_C_mapped_seconds], 1);
}

unsigned gm_frag_bin(uint64_t size)
{
	if (size < GM_SAMPLE_LEAST)
		return 0;
	unsigned bin = (unsigned)(__builtin_clzll(GM_SAMPLE_LEAST) - __builtin_clzll(size)) + 1;
	return bin < GM_SAMPLE_BINS ? bin : GM_SAMPLE_BINS - 1;
}

uint64_t gm_frag_bin_least(unsigned bin)
{
	return bin ? GM_SAMPLE_LEAST << (bin - 1) : GM_SAMPLE_UNIT;
}

static uint64_t bin_bytes(const struct gm_sample *sample, unsigned bin)
{
	return (uint64_t)sample->idle_units[bin] * GM_SAMPLE_UNIT;
}

bool gm_frag_has_bins(const struct gm_sample *sample)
{
	return gm_frag_in_runs(sample) > 0 || sample->idle_extents == 0;
}

uint64_t gm_frag_in_runs(const struct gm_sample *sample)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < GM_SAMPLE_BINS; i++)
		sum += bin_bytes(sample, i);
	return sum;
}

/* `n` runs of one bin, each at least `low`, have `bytes` bytes together. The most bytes of them in
 * runs of at least `size`: the other runs are as short as possible. */
static uint64_t bin_usable_most(uint64_t bytes, uint64_t n, uint64_t low, uint64_t size)
{
	uint64_t spare = difference_or_zero(bytes, n * low), many = spare / (size - low);
	return many >= n ? bytes : many ? bytes - (n - many) * low : 0;
}

/* The least bytes in runs of at least `size`: runs below `size` are as long as possible, and so are
 * the runs above, up to `high`. */
static uint64_t bin_usable_least(uint64_t bytes, uint64_t n, uint64_t high, uint64_t size)
{
	uint64_t below = size - GM_SAMPLE_UNIT, over = difference_or_zero(bytes, n * below);
	uint64_t step = high - size;
	uint64_t few = step ? (over + step - 1) / step : 0;
	return few ? bytes - (n - (few < n ? few : n)) * below : 0;
}

void gm_frag_usable(const struct gm_sample *sample, uint64_t size, uint64_t *least, uint64_t *most)
{
	unsigned bin = gm_frag_bin(size);
	uint64_t low = gm_frag_bin_least(bin), bytes = bin_bytes(sample, bin);
	uint64_t n = sample->idle_runs[bin];
	uint64_t high = sample->largest_idle + GM_SAMPLE_UNIT; /* above every run */
	if (bin + 1 < GM_SAMPLE_BINS && high > 2 * low)
		high = 2 * low;
	*least = *most = 0;
	if (size > sample->largest_idle)
		return;
	for (unsigned i = bin + 1; i < GM_SAMPLE_BINS; i++)
		*least += bin_bytes(sample, i);
	*most = *least;
	size = (size + GM_SAMPLE_UNIT - 1) / GM_SAMPLE_UNIT * GM_SAMPLE_UNIT;
	if (size <= low) {
		*least += bytes;
		*most += bytes;
	} else if (n == UINT16_MAX) { /* the number of runs is not known */
		*most += bytes;
	} else if (n) {
		*least += bin_usable_least(bytes, n, high, size);
		*most += bin_usable_most(bytes, n, low, size);
	}
	*least = *least > sample->largest_idle ? *least : sample->largest_idle;
	*most = *most > *least ? *most : *least;
}
