/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every policy in a small heap: lanes allocate until all got NULL. That must happen, but not before
 * the heap is used up. After all is freed the same amount is available again, in another size too
 * if the policy supports it. Then single calls: limits of sizes, NULL, addresses outside the heap.
 */
#include "tests/unit/heap_help.h"

enum { GRANULES = 2, LANES = 64, MOST = 20000 };

struct work {
	struct fixture f;
	size_t size;
	unsigned char *address[MOST];
	uint32_t count;
	uint64_t bad;
};

static void fill_heap(void *arg, uint32_t thread)
{
	struct work *work = arg;
	(void)thread;
	for (;;) {
		unsigned char *address = work->f.policy->malloc(&work->f.heap, work->size);
		if (!address)
			return;
		uint32_t i = __atomic_fetch_add(&work->count, 1, __ATOMIC_RELAXED);
		if (i >= MOST)
			abort();
		work->address[i] = address;
		test_fill(address, work->size, i << 8);
		gm_simt_progress();
	}
}

static void free_all(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (uint32_t i = thread; i < work->count; i += LANES) {
		if (!test_holds(work->address[i], work->size, i << 8))
			test_count(&work->bad);
		work->f.policy->free(&work->f.heap, work->address[i]);
		gm_simt_progress();
	}
}

/* Percentage of the heap that was allocated before it was full; 0: the lanes did not end. */
static unsigned fill(struct work *work, size_t size)
{
	work->size = size;
	work->count = 0;
	if (!test_launch(&work->f, LANES / 32, LANES / 32, fill_heap, work))
		return 0;
	return (unsigned)(work->count * size * 100 / ((size_t)GRANULES << GM_GRANULE_SHIFT));
}

static bool empty(struct work *work)
{
	return test_launch(&work->f, LANES / 32, LANES / 32, free_all, work);
}

/* Lowest allowed percentage, for sizes that are powers of two. */
static unsigned expected(const struct gm_policy *policy, size_t size)
{
	if (strncmp(policy->name, "kma", 3) == 0)
		return size <= 128 ? 90 : 45; /* a power of two above 128 takes the next class */
	return policy->can & GM_POLICY_EXACT ? 95 : 80;
}

static void check_size(struct work *work, const struct gm_policy *policy, size_t size)
{
	const char *name = policy->name;
	unsigned first = fill(work, size), again = 0;
	TAP_OK(first >= expected(policy, size), "%s: %zu bytes fill %u percent of the heap", name,
	       size, first);
	TAP_OK(empty(work), "%s: all memory is freed", name);
	TAP_IS(work->bad, 0, "%s: blocks keep their contents", name);
	if (!(policy->can & GM_POLICY_FREES))
		return;
	again = fill(work, size);
	TAP_OK(again + 2 >= first && again, "%s: the second time %u percent are filled", name,
	       again);
	empty(work);
	TAP_IS(test_stats(&work->f).live_bytes, 0, "%s: no byte is live after all frees", name);
}

static void check_mixing(struct work *work, const struct gm_policy *policy)
{
	if (!(policy->can & GM_POLICY_MIXES))
		return;
	unsigned small = fill(work, 256), large;
	empty(work);
	large = fill(work, 4096);
	TAP_OK(large && large + 10 >= expected(policy, 4096),
	       "%s: blocks of 256 bytes fill %u percent, then those of 4096 %u", policy->name,
	       small, large);
	empty(work);
}

static void single_calls(void *arg, uint32_t thread)
{
	struct work *work = arg;
	const struct gm_policy *policy = work->f.policy;
	struct gm_heap *heap = &work->f.heap;
	if (thread != 0)
		return;
	void *none = policy->malloc(heap, 0), *one = policy->malloc(heap, 0);
	TAP_OK(none && one && none != one, "%s: size 0 is valid and distinct", policy->name);
	policy->free(heap, none);
	policy->free(heap, one);
	policy->free(heap, NULL);
	TAP_IS(heap->foreign_frees, 0, "%s: a free of NULL is nothing", policy->name);
	policy->free(heap, (char *)(uintptr_t)heap->base - 16);
	policy->free(heap, (char *)(uintptr_t)heap->base + ((uint64_t)heap->capacity << 21));
	TAP_IS(heap->foreign_frees, 2, "%s: addresses outside the heap are counted", policy->name);
	TAP_OK(!policy->malloc(heap, (size_t)-1) && !policy->malloc(heap, (size_t)1 << 40) &&
		       !policy->malloc(heap, ((size_t)GRANULES << GM_GRANULE_SHIFT) + 1),
	       "%s: a size beyond the heap gets NULL", policy->name);
}

/* In a heap of its own: a run of all granules. */
static void whole_heap(void *arg, uint32_t thread)
{
	struct work *work = arg;
	const struct gm_policy *policy = work->f.policy;
	size_t size = (size_t)GRANULES << GM_GRANULE_SHIFT;
	if (thread != 0)
		return;
	for (unsigned i = 0; i < 2; i++) {
		char *all = policy->malloc(&work->f.heap, size);
		TAP_OK(all, "%s: one allocation of the whole heap", policy->name);
		if (!all)
			return;
		all[0] = all[size - 1] = 1;
		TAP_OK(!policy->malloc(&work->f.heap, 1), "%s: the heap is full afterwards",
		       policy->name);
		policy->free(&work->f.heap, all);
	}
}

int main(void)
{
	static struct work work;
	uint32_t seed = test_seed();
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		const struct gm_policy *policy = &gm_policies[p];
		static const size_t sizes[] = {512, 8192};
		for (unsigned s = 0; s < 2; s++) {
			test_open(&work.f, policy, GRANULES, GRANULES, seed);
			check_size(&work, policy, sizes[s]);
			if (!strcmp(policy->name, "bump"))
				TAP_IS(gm_cut_of(&work.f.heap)->replacing, 0,
				       "a lane that brought a granule lets others bring the next");
			test_close(&work.f);
		}
		if (policy->can & GM_POLICY_UNFAIR) {
			test_open(&work.f, policy, GRANULES, GRANULES, seed);
			work.f.mode = GM_SIMT_UNFAIR;
			check_size(&work, policy, 8192);
			test_close(&work.f);
		}
		test_open(&work.f, policy, GRANULES, GRANULES, seed);
		check_mixing(&work, policy);
		test_close(&work.f);
		test_open(&work.f, policy, GRANULES, GRANULES, seed);
		test_launch(&work.f, 1, 1, whole_heap, &work);
		test_launch(&work.f, 1, 1, single_calls, &work);
		test_close(&work.f);
	}
	return tap_done();
}
