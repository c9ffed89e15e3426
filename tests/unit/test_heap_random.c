/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every policy: lanes allocate and free at random, all sizes in one warp, together and diverged.
 * Every byte is written and checked. Other lanes of the next kernel free the remaining blocks.
 */
#include "tests/unit/heap_help.h"

#ifdef __SANITIZE_THREAD__
enum { WARPS = 3 }; /* emulated threads are slow under the sanitizers */
#else
enum { WARPS = 12 };
#endif
enum { RESIDENT = 5, ROUNDS = 12, KEPT = 3, LANES = WARPS * 32 };

struct block {
	unsigned char *address;
	size_t size;
	uint32_t number;
};

struct work {
	struct fixture f;
	struct block block[LANES][KEPT];
	bool alike; /* sizes are similar, so that another lane soon gets the freed memory */
	uint64_t null, bad, misaligned, small;
};

static size_t pick_size(uint32_t r)
{
	static const uint16_t size[] = {0,   1,	  16,  17,   24,   40,	 64,
					100, 256, 777, 1000, 2048, 3000, 8192};
	if (r % 400 == 399)
		return GM_GRANULE + r % (2 * GM_GRANULE);
	if (r % 50 == 49)
		return 8193 + r % 60000;
	if (r % 100 == 98)
		return (size_t)16384 << r % 7;
	return r % 3 ? size[r / 3 % (sizeof size / sizeof *size)] : r / 3 % 600;
}

static void check_new(struct work *work, const struct block *block)
{
	const struct gm_policy *policy = work->f.policy;
	uintptr_t at = (uintptr_t)block->address;
	unsigned can = block->size <= 8192 ? GM_POLICY_NATURAL : GM_POLICY_WIDE;
	bool natural = policy->can & can && (block->size & (block->size - 1)) == 0 &&
		       block->size > 16 && block->size <= 1024 * 1024;
	if (at % 16 || (natural && at % block->size))
		test_count(&work->misaligned);
	size_t usable = policy->usable(&work->f.heap, block->address);
	if (usable < block->size && policy->can & GM_POLICY_FREES)
		test_count(&work->small);
}

static void renew(struct work *work, struct block *block, uint32_t number, uint32_t r)
{
	const struct gm_policy *policy = work->f.policy;
	*block = (struct block){NULL, work->alike ? 8100 + r % 64 : pick_size(r >> 4), number};
	/* Lanes arrive from two call sites, as from a program's branches. */
	if (r & 8)
		block->address = policy->malloc(&work->f.heap, block->size);
	else
		block->address = policy->malloc(&work->f.heap, block->size);
	if (!block->address) {
		test_count(&work->null);
		return;
	}
	check_new(work, block);
	test_fill(block->address, block->size, number);
}

static void retire(struct work *work, struct block *block)
{
	if (block->address && !test_holds(block->address, block->size, block->number))
		test_count(&work->bad);
	work->f.policy->free(&work->f.heap, block->address);
	block->address = NULL;
}

static void churn(void *arg, uint32_t thread)
{
	struct work *work = arg;
	uint32_t r = (thread + 1) * 2654435761u ^ work->f.seed;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		r ^= r << 13;
		r ^= r >> 17;
		r ^= r << 5;
		struct block *block = &work->block[thread][i % KEPT];
		retire(work, block);
		renew(work, block, thread << 16 | i << 8, r);
		gm_simt_progress();
	}
}

static void free_others(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (uint32_t k = 0; k < KEPT; k++)
		retire(work, &work->block[(thread + LANES / 2 + 1) % LANES][k]);
}

static void check_remaining(struct work *work, const char *name)
{
	struct gm_heap_stats stats = test_stats(&work->f);
	if (!(work->f.policy->can & GM_POLICY_FREES))
		return;
	TAP_IS(stats.live_bytes, 0, "%s: nothing is in use after all was freed", name);
	work->f.policy->trim(&work->f.heap);
	stats = test_stats(&work->f);
	if (work->f.policy->can & GM_POLICY_RETURNS)
		TAP_IS(stats.granules, 0, "%s: all granules are free again", name);
}

static void run(const struct gm_policy *policy, uint32_t seed, enum gm_simt_mode mode, bool alike)
{
	static struct work work;
	char name[64];
	snprintf(name, sizeof name, "%s, %s%s", policy->name,
		 mode == GM_SIMT_FAIR ? "fair" : "unfair", alike ? ", alike" : "");
	memset(&work, 0, sizeof work);
	work.alike = alike;
	test_open(&work.f, policy, 160, 160, seed);
	work.f.mode = mode;
	if (!TAP_OK(test_launch(&work.f, WARPS, RESIDENT, churn, &work) &&
			    test_launch(&work.f, WARPS, RESIDENT, free_others, &work),
		    "%s: the run comes to its end", name))
		return;
	TAP_IS(work.null, 0, "%s: no lane gets NULL", name);
	TAP_IS(work.bad, 0, "%s: blocks kept their contents", name);
	TAP_IS(work.misaligned, 0, "%s: blocks are aligned", name);
	TAP_IS(work.small, 0, "%s: blocks have a usable size that suffices", name);
	TAP_IS(work.f.heap.foreign_frees, 0, "%s: every free was of something", name);
	check_remaining(&work, name);
	test_close(&work.f);
}

int main(void)
{
	uint32_t seed = test_seed();
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		run(&gm_policies[p], seed, GM_SIMT_FAIR, false);
		run(&gm_policies[p], seed, GM_SIMT_FAIR, true);
		for (uint32_t i = 0; i < 3 && gm_policies[p].can & GM_POLICY_UNFAIR; i++)
			run(&gm_policies[p], seed + 1000 * i, GM_SIMT_UNFAIR, false);
	}
	return tap_done();
}
