/* SPDX-License-Identifier: BSD-3-Clause */
/* Aligned memory of every policy, as kernels get it after a takeover: it is aligned, overlaps no
 * other allocation, and the usual free returns it. */
#include "tests/unit/heap_help.h"

enum { LANES = 4, CAPACITY = 256, TURNS = 2 };

struct work {
	struct fixture f;
	uint64_t null, bad, misaligned;
};

static void *allocate(struct work *work, size_t alignment, size_t size)
{
	const struct gm_policy *policy = work->f.policy;
	uint64_t least = gm_aligned_size(GM_POLICY_ALIGNS(policy->can), alignment, size);
	return least ? policy->malloc(&work->f.heap, least) : NULL;
}

static void lane(void *arg, uint32_t thread)
{
	struct work *work = arg;
	static const size_t sizes[] = {0, 1, 64, 100, 5000, 70000, GM_GRANULE + 1};
	if (thread >= LANES)
		return;
	for (size_t alignment = 1; alignment <= GM_GRANULE; alignment *= 8) {
		size_t size = sizes[(thread + alignment) % 7];
		void *block = allocate(work, alignment, size);
		if (!block || (uintptr_t)block % alignment)
			test_count(block ? &work->misaligned : &work->null);
		if (!block)
			continue;
		test_fill(block, size, thread);
		gm_simt_progress();
		if (!test_holds(block, size, thread))
			test_count(&work->bad);
		work->f.policy->free(&work->f.heap, block);
	}
}

static void test_policy(const struct gm_policy *policy)
{
	static struct work work;
	memset(&work, 0, sizeof work);
	test_open(&work.f, policy, CAPACITY, CAPACITY, test_seed());
	for (unsigned i = 0; i < TURNS; i++)
		TAP_OK(test_launch(&work.f, 1, 1, lane, &work), "%s: all lanes end", policy->name);
	TAP_IS(work.null, 0, "%s: no lane gets NULL", policy->name);
	TAP_IS(work.misaligned, 0, "%s: all blocks are aligned", policy->name);
	TAP_IS(work.bad, 0, "%s: blocks keep their contents", policy->name);
	TAP_IS(work.f.heap.foreign_frees, 0, "%s: free knows an aligned block", policy->name);
	if (policy->can & GM_POLICY_FREES)
		TAP_IS(test_stats(&work.f).live_bytes, 0, "%s: no byte is live after all frees",
		       policy->name);
	test_close(&work.f);
}

static void test_sizes(void)
{
	static const uint64_t none[] = {0, 3, 24, 2 * GM_GRANULE, UINT64_MAX, UINT64_C(1) << 63};
	for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
		TAP_IS(gm_aligned_size(GM_ALIGNED_WIDE, none[i], 64), 0,
		       "an alignment that cannot be had is 0");
	TAP_IS(gm_aligned_size(GM_ALIGNED_NATURAL, 256, 8000), 8192,
	       "a natural alignment takes the next power of two");
	TAP_IS(gm_aligned_size(GM_ALIGNED_NATURAL, 256, 8193), GM_GRANULE,
	       "a larger natural alignment takes a granule");
	TAP_IS(gm_aligned_size(16, 32, 8), GM_GRANULE,
	       "a granule is taken where no class is in between");
	TAP_IS(gm_aligned_size(16, 32, UINT64_MAX), UINT64_MAX,
	       "a size beyond all memory is not rounded");
}

int main(void)
{
	test_sizes();
	for (unsigned p = 0; p < GM_POLICIES; p++)
		test_policy(&gm_policies[p]);
	return tap_done();
}
