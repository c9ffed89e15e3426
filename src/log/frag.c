/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/frag.h"

static double ratio(double part, double whole, double otherwise)
{
	return whole > 0 ? part / whole : otherwise;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* The largest run is part of what is idle; a sample taken askew may claim otherwise. */
uint64_t gm_frag_external_ppm(uint64_t idle, uint64_t largest)
{
	return idle ? (uint64_t)((unsigned __int128)minus(idle, largest) * 1000000 / idle) : 0;
}

static double external(uint64_t idle, uint64_t largest)
{
	return ratio((double)minus(idle, largest), (double)idle, 0);
}

void gm_frag_now(const struct gm_sample *sample, struct gm_frag *out)
{
	out->internal = (double)minus(sample->handed_out, sample->requested);
	out->external = external(sample->idle, sample->largest_idle);
	out->external_remap = external(sample->idle, sample->largest_after_remap);
	out->unreclaimable = (double)sample->unreclaimable;
	out->utilisation = ratio((double)sample->requested, (double)sample->mapped, 1);
}

void gm_frag_peak(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out)
{
	out->internal = (double)counters[GM_C_internal_peak];
	out->external = (double)counters[GM_C_external_peak] / 1e6;
	out->external_remap = (double)counters[GM_C_external_remap_peak] / 1e6;
	out->unreclaimable = (double)counters[GM_C_unreclaimable_peak];
	out->utilisation =
		ratio((double)counters[GM_C_requested_peak], (double)counters[GM_C_mapped_peak], 1);
}

void gm_frag_mean(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out)
{
	double seconds = (double)counters[GM_C_sampled_ns] / 1e9;
	out->internal = ratio((double)counters[GM_C_internal_seconds], seconds, 0);
	out->external = ratio((double)counters[GM_C_external_seconds] / 1e6, seconds, 0);
	out->external_remap =
		ratio((double)counters[GM_C_external_remap_seconds] / 1e6, seconds, 0);
	out->unreclaimable = ratio((double)counters[GM_C_unreclaimable_seconds], seconds, 0);
	out->utilisation = ratio((double)counters[GM_C_requested_seconds],
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

static uint64_t bytes_in(const struct gm_sample *sample, unsigned bin)
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
		sum += bytes_in(sample, i);
	return sum;
}

/* Of `n` runs of one bin, `bytes` in all and each at least `low`: the most that runs of `size` and
 * above can come to, when the others are as short as can be. */
static uint64_t at_most(uint64_t bytes, uint64_t n, uint64_t low, uint64_t size)
{
	uint64_t spare = minus(bytes, n * low), many = spare / (size - low);
	return many >= n ? bytes : many ? bytes - (n - many) * low : 0;
}

/* And the least, when those below `size` are as long as can be, and so are those above, up to
 * `high`. */
static uint64_t at_least(uint64_t bytes, uint64_t n, uint64_t high, uint64_t size)
{
	uint64_t below = size - GM_SAMPLE_UNIT, over = minus(bytes, n * below);
	uint64_t step = high - size;
	uint64_t few = step ? (over + step - 1) / step : 0;
	return few ? bytes - (n - (few < n ? few : n)) * below : 0;
}

void gm_frag_usable(const struct gm_sample *sample, uint64_t size, uint64_t *least, uint64_t *most)
{
	unsigned bin = gm_frag_bin(size);
	uint64_t low = gm_frag_bin_least(bin), bytes = bytes_in(sample, bin);
	uint64_t n = sample->idle_runs[bin];
	uint64_t high = sample->largest_idle + GM_SAMPLE_UNIT; /* none is as long */
	if (bin + 1 < GM_SAMPLE_BINS && high > 2 * low)
		high = 2 * low;
	*least = *most = 0;
	if (size > sample->largest_idle)
		return;
	for (unsigned i = bin + 1; i < GM_SAMPLE_BINS; i++)
		*least += bytes_in(sample, i);
	*most = *least;
	size = (size + GM_SAMPLE_UNIT - 1) / GM_SAMPLE_UNIT * GM_SAMPLE_UNIT;
	if (size <= low) {
		*least += bytes;
		*most += bytes;
	} else if (n == UINT16_MAX) { /* how many they are is not known */
		*most += bytes;
	} else if (n) {
		*least += at_least(bytes, n, high, size);
		*most += at_most(bytes, n, low, size);
	}
	*least = *least > sample->largest_idle ? *least : sample->largest_idle;
	*most = *most > *least ? *most : *least;
}
