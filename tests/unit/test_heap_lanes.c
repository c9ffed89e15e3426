/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel whose lanes each allocate one block gets no NULL while the blocks together are at most a
 * quarter of the device: blocks of 16 bytes to 1 GiB, of one lane to 4,096, each in a fresh heap
 * that starts small and has to grow. The heap has the default limit, or one that a program set
 * before its first launch: a few MiB more than its blocks.
 */
#include "tests/unit/heap_host_help.h"

#include "knob/knob.h"

#define MIB ((uint64_t)1 << 20)
#define DEVICE "4G"
#define QUARTER ((uint64_t)1 << 30)
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { MOST_LANES = 512 }; /* emulated lanes are slow under the sanitizers */
#else
enum { MOST_LANES = 4096 };
#endif

struct work {
	struct site site;
	const struct gm_policy *policy;
	uint32_t lanes, running;
	size_t size;
	unsigned char *block[MOST_LANES];
	uint64_t null, wrong;
};

/* Each block has its lane's number at both ends: its memory is there, and no other block's. */
static void block_mark(struct work *work, uint32_t lane)
{
	unsigned char *block = work->block[lane];
	memcpy(block, &lane, sizeof lane);
	memcpy(block + work->size - sizeof lane, &lane, sizeof lane);
}

static bool block_is_marked(const struct work *work, uint32_t lane)
{
	const unsigned char *block = work->block[lane];
	return memcmp(block, &lane, sizeof lane) == 0 &&
	       memcmp(block + work->size - sizeof lane, &lane, sizeof lane) == 0;
}

static void lane_allocates(struct work *work, uint32_t lane)
{
	work->block[lane] = work->policy->malloc(site_device(&work->site), work->size);
	if (work->block[lane])
		block_mark(work, lane);
	else
		test_count(&work->null);
}

/* Warp 0 is the host. */
static void launch_lane(void *arg, uint32_t thread)
{
	struct work *work = arg;
	if (thread >= 32) {
		if (thread - 32 < work->lanes)
			lane_allocates(work, thread - 32);
		gm_add32(&work->running, ~0u);
		return;
	}
	while (thread == 0 && gm_load32(&work->running)) {
		gm_heap_answer(work->site.heap);
		gm_pause(1000);
	}
}

static int by_address(const void *a, const void *b)
{
	const unsigned char *const *x = a, *const *y = b;
	return (*x > *y) - (*x < *y);
}

/* The number of blocks that reach into the next one. All lanes have one. */
static uint64_t overlaps(struct work *work)
{
	uint64_t n = 0;
	qsort(work->block, work->lanes, sizeof *work->block, by_address);
	for (uint32_t i = 1; i < work->lanes; i++)
		n += (size_t)(work->block[i] - work->block[i - 1]) < work->size;
	return n;
}

static uint64_t default_limit(void)
{
	return gm_heap_limit(gm_knob_get(), 4 * QUARTER);
}

static void check(struct work *work, uint32_t lanes, size_t size, uint64_t limit, const char *whose)
{
	const unsigned warps = (lanes + 31) / 32;
	memset(work, 0, sizeof *work);
	work->policy = &gm_policies[gm_heap_policy("granule")];
	work->lanes = lanes;
	work->size = size;
	work->running = warps * 32;
	site_make(&work->site, DEVICE, limit, work->policy->name);
	gm_heap_stop(work->site.heap); /* the service thread: warp 0 answers instead */
	gm_heap_launch(work->site.heap, NULL, NULL);
	gm_heap_launched(work->site.heap, NULL, true, NULL);
	TAP_OK(gm_simt_launch(&(struct gm_simt){warps + 1, warps + 1, test_seed(), GM_SIMT_FAIR},
			      launch_lane, work),
	       "%u lanes come to their end", lanes);
	TAP_IS(work->null, 0, "%u lanes, %zu bytes each, %s limit of %llu MiB: no NULL", lanes,
	       size, whose, (unsigned long long)(limit / MIB));
	for (uint32_t i = 0; i < lanes; i++)
		work->wrong += work->block[i] && !block_is_marked(work, i);
	TAP_IS(work->wrong, 0, "each of these blocks keeps its ends");
	TAP_IS(work->null ? 0 : overlaps(work), 0, "no two of them overlap");
	site_close(&work->site, "lanes");
}

int main(void)
{
	static const uint32_t lanes[] = {1, 128, MOST_LANES / 4, MOST_LANES};
	static const size_t sizes[] = {16,  64,	     1000,     4096,	  65536,     262144,
				       MIB, 8 * MIB, 64 * MIB, 100 * MIB, 256 * MIB, QUARTER};
	static struct work work;
	for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
			uint64_t all = lanes[l] * (uint64_t)sizes[s];
			if (all > QUARTER)
				continue;
			check(&work, lanes[l], sizes[s], default_limit(), "the default");
			check(&work, lanes[l], sizes[s], all + all / 4 + 32 * MIB, "a program's");
		}
	return tap_done();
}
