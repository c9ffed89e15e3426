/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of a sample, compared with lists of runs; every list of a few runs, compared with the
 * bounds. */
#include "base/size.h"
#include "log/frag.h"

#include "../tap.h"

#define RUNS 200
#define LISTS 2000
#define UNIT ((uint64_t)GM_SAMPLE_UNIT)

static uint64_t seed = 4711;

static uint64_t next(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 20) % below;
}

static struct gm_sample sample_of(const uint64_t *runs, unsigned n)
{
	struct gm_sample s = {.idle_extents = n};
	for (unsigned i = 0; i < n; i++) {
		unsigned bin = gm_frag_bin(runs[i]);
		s.idle += runs[i];
		s.largest_idle = runs[i] > s.largest_idle ? runs[i] : s.largest_idle;
		s.idle_units[bin] += (uint32_t)(runs[i] / UNIT);
		s.idle_runs[bin]++;
	}
	return s;
}

static uint64_t usable(const uint64_t *runs, unsigned n, uint64_t size)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < n; i++)
		sum += runs[i] >= size ? runs[i] : 0;
	return sum;
}

static void test_bins(void)
{
	TAP_IS(gm_frag_bin(512), 0, "512 bytes are in the first bin");
	TAP_IS(gm_frag_bin(64 * GM_KIB - 512), 0, "all sizes below 64 KiB are in the first bin");
	TAP_IS(gm_frag_bin(64 * GM_KIB), 1, "64 KiB are in the second");
	TAP_IS(gm_frag_bin(16 * GM_GIB - 512), 18, "16 GiB less 512 in the last but one");
	TAP_IS(gm_frag_bin(16 * GM_GIB), 19, "16 GiB in the last");
	TAP_IS(gm_frag_bin(GM_GIB << 10), 19, "sizes beyond all bins are in the last bin");
	for (unsigned i = 1; i < GM_SAMPLE_BINS; i++)
		if (gm_frag_bin(gm_frag_bin_least(i)) != i ||
		    gm_frag_bin(gm_frag_bin_least(i) - 1) != i - 1)
			TAP_OK(false, "bin %u begins where it should", i);
}

/* The bounds hold for any list, and are exact at powers of two. */
static void test_bounds(void)
{
	unsigned outside = 0, inexact = 0;
	for (unsigned list = 0; list < LISTS; list++) {
		uint64_t runs[RUNS], low, high;
		unsigned n = 1 + (unsigned)next(RUNS);
		for (unsigned i = 0; i < n; i++)
			runs[i] = UNIT * (1 + next((uint64_t)1 << next(26)));
		const struct gm_sample s = sample_of(runs, n);
		for (unsigned i = 0; i < 20; i++) {
			uint64_t size = GM_SAMPLE_LEAST + next((uint64_t)1 << (17 + next(19)));
			uint64_t is = usable(runs, n, size);
			gm_frag_usable(&s, size, &low, &high);
			outside += is < low || is > high;
			size = GM_SAMPLE_LEAST << next(20);
			gm_frag_usable(&s, size, &low, &high);
			inexact += gm_frag_bin(size) < GM_SAMPLE_BINS - 1 &&
				   (low != high || low != usable(runs, n, size));
		}
	}
	TAP_IS(outside, 0, "the usable amount is within the bounds");
	TAP_IS(inexact, 0, "the bounds are equal at powers of two");
}

/* Among all lists of three runs of one bin with the same sum, some reach the bounds. */
static void test_tightness(void)
{
	const uint64_t low = 64 * GM_KIB, size = low + 20 * UNIT;
	unsigned loose = 0;
	for (uint64_t sum = 0; sum < 3 * 127; sum++) {
		uint64_t most = 0, least = UINT64_MAX, is_least, is_most;
		struct gm_sample s = {0};
		for (uint64_t a = 0; a <= 127; a++)
			for (uint64_t b = a; b <= 127; b++) {
				uint64_t c = sum - a - b;
				if (a + b > sum || c < b || c > 127)
					continue;
				uint64_t runs[3] = {low + a * UNIT, low + b * UNIT, low + c * UNIT};
				uint64_t is = usable(runs, 3, size);
				s = sample_of(runs, 3);
				least = is < least ? is : least;
				most = is > most ? is : most;
			}
		s.largest_idle = 2 * low; /* another run, of known length */
		s.idle_units[2] = (uint32_t)(2 * low / UNIT);
		s.idle_runs[2] = 1;
		gm_frag_usable(&s, size, &is_least, &is_most);
		is_least -= 2 * low;
		is_most -= 2 * low;
		loose += is_least != least || is_most != most;
	}
	TAP_IS(loose, 0, "the bounds are as narrow as possible");
}

static void test_edges(void)
{
	uint64_t low, high;
	const uint64_t one[] = {100 * GM_KIB};
	struct gm_sample s = sample_of(one, 1);
	gm_frag_usable(&s, 90 * GM_KIB, &low, &high);
	TAP_OK(low == 100 * GM_KIB && high == low, "one run is known exactly: it is enough");
	gm_frag_usable(&s, 101 * GM_KIB, &low, &high);
	TAP_OK(low == 0 && high == 0, "one run is known exactly: it is not enough");
	const uint64_t two[] = {100 * GM_KIB, 80 * GM_KIB};
	s = sample_of(two, 2);
	gm_frag_usable(&s, 90 * GM_KIB, &low, &high);
	TAP_OK(low == 100 * GM_KIB && high == 180 * GM_KIB,
	       "the longest of two runs is enough, and the other may be");
	s.idle_runs[1] = UINT16_MAX;
	gm_frag_usable(&s, 90 * GM_KIB, &low, &high);
	TAP_OK(low == 100 * GM_KIB && high == 180 * GM_KIB,
	       "the longest of too many runs to count is all that is known");
	s = sample_of(one, 1);
	TAP_OK(gm_frag_has_bins(&s), "a sample with bins has them");
	TAP_IS(gm_frag_in_runs(&s), 100 * GM_KIB, "a sample with bins has their sum");
	s = (struct gm_sample){.idle = GM_MIB, .idle_extents = 1};
	TAP_OK(!gm_frag_has_bins(&s), "a sample of an older log has no bins");
	s = (struct gm_sample){.idle = GM_MIB};
	TAP_OK(gm_frag_has_bins(&s), "free slots alone make no run");
}

int main(void)
{
	test_bins();
	test_bounds();
	test_tightness();
	test_edges();
	return tap_done();
}
