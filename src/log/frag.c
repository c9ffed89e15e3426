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
