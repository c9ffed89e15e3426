/* SPDX-License-Identifier: BSD-3-Clause */
/* Every policy counts its granules, and the bytes of its longest allocations. */
#include "heap_help.h"

enum { GRANULES = 32, CAPACITY = 256 };

static void count_runs(struct fixture *f, const struct gm_policy *policy)
{
	size_t small = 3 * GM_GRANULE / 2, large = 5 * GM_GRANULE / 2;
	struct gm_heap_stats none = test_stats(f);
	void *two = policy->malloc(&f->heap, small), *three = policy->malloc(&f->heap, large);
	struct gm_heap_stats both = test_stats(f);
	TAP_OK(two && three, "%s: two runs are allocated", policy->name);
	TAP_IS(both.granules - none.granules, 5, "%s: the runs have so many granules",
	       policy->name);
	TAP_IS(both.live_bytes - none.live_bytes, 5 * (uint64_t)GM_GRANULE,
	       "%s: the granules of the runs are live", policy->name);
	if (!(policy->can & GM_POLICY_FREES))
		return;
	policy->free(&f->heap, two);
	struct gm_heap_stats one = test_stats(f);
	TAP_IS(one.granules - none.granules, 3, "%s: the granules of a freed run do not count",
	       policy->name);
	TAP_IS(one.live_bytes - none.live_bytes, 3 * (uint64_t)GM_GRANULE,
	       "%s: the other run is live", policy->name);
	policy->free(&f->heap, three);
	TAP_IS(test_stats(f).live_bytes, none.live_bytes,
	       "%s: nothing is live when the two runs are free", policy->name);
	policy->free(&f->heap, policy->malloc(&f->heap, 16));
	TAP_IS(test_stats(f).live_bytes, none.live_bytes,
	       "%s: nothing is live when a short block is free", policy->name);
}

static void in_kernel(void *arg, uint32_t thread)
{
	struct fixture *f = arg;
	if (thread == 0)
		count_runs(f, f->policy);
}

int main(void)
{
	static struct fixture f;
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		test_open(&f, &gm_policies[p], CAPACITY, GRANULES, test_seed());
		test_launch(&f, 1, 1, in_kernel, &f);
		test_close(&f);
	}
	return tap_done();
}
