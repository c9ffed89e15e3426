/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A heap that was full of one size and is empty again serves another size to all lanes that ask at
 * once, mixed within warps, as long as there is room. Empty granules in one class's shards serve
 * the other classes, and a searching lane hides them from no other lane.
 */
#include "tests/unit/heap_help.h"

enum { GRANULES = 16, WARPS = 128, SLOTS = GRANULES * 256 };
#ifdef __SANITIZE_ADDRESS__
enum { TURNS = 6 }; /* emulated lanes are slow under the sanitizers */
#else
enum { TURNS = 24 };
#endif

struct work {
	struct fixture f;
	void *first[SLOTS];
	void *at[WARPS * 32];
	uint64_t taken, null, bad;
};

static size_t size_of(uint32_t thread)
{
	static const size_t sizes[] = {4096, 4096, 4096, 3000, 6000};
	return sizes[thread * 2654435761u % 5];
}

/* Eight warps, until the heap is full of blocks of 8 KiB. */
static void fill(void *arg, uint32_t thread)
{
	struct work *work = arg;
	void *one;
	(void)thread;
	while ((one = work->f.policy->malloc(&work->f.heap, 8192))) {
		uint64_t i = __atomic_fetch_add(&work->taken, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&work->first[i], one, __ATOMIC_RELAXED);
	}
}

static void empty(void *arg, uint32_t thread)
{
	struct work *work = arg;
	for (uint64_t i = thread; i < work->taken; i += 8ul * 32)
		work->f.policy->free(&work->f.heap, work->first[i]);
}

static void again(void *arg, uint32_t thread)
{
	struct work *work = arg;
	void *one = work->f.policy->malloc(&work->f.heap, size_of(thread));
	work->at[thread] = one;
	if (one)
		test_fill(one, size_of(thread), thread);
	else
		test_count(&work->null);
}

static void check_and_free(void *arg, uint32_t thread)
{
	struct work *work = arg;
	void *one = work->at[thread];
	if (one && !test_holds(one, size_of(thread), thread))
		test_count(&work->bad);
	work->f.policy->free(&work->f.heap, one);
}

int main(void)
{
	static struct work work;
	uint32_t seed = test_seed();
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		const struct gm_policy *policy = &gm_policies[p];
		if (strcmp(policy->name, "granule") != 0)
			continue;
		for (uint32_t turn = 0; turn < TURNS; turn++) {
			memset(&work, 0, sizeof work);
			test_open(&work.f, policy, GRANULES, GRANULES, seed + turn * 1000);
			TAP_OK(test_launch(&work.f, 8, 8, fill, &work), "8 KiB fill the heap");
			TAP_IS(work.taken, SLOTS, "8 KiB fill the heap to its last slot");
			test_launch(&work.f, 8, 8, empty, &work);
			TAP_OK(test_launch(&work.f, WARPS, 64, again, &work),
			       "lanes ask for other sizes at once");
			TAP_IS(work.null, 0, "there is room for all other sizes");
			test_launch(&work.f, WARPS, 32, check_and_free, &work);
			TAP_IS(work.bad, 0, "blocks keep their contents");
			TAP_IS(test_stats(&work.f).live_bytes, 0,
			       "no byte is live after all frees");
			test_close(&work.f);
		}
	}
	return tap_done();
}
