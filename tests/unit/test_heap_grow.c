/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growth from end to end: lanes of the emulation allocate from a heap that the host made, and ask
 * for more through the mailbox. One lane answers step by step, as the service thread does.
 */
#include "tests/unit/heap_host_help.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { WARPS = 2, ROUNDS = 6 }; /* emulated lanes are slow under the sanitizers */
#else
enum { WARPS = 4, ROUNDS = 12 };
#endif
enum { LANES = WARPS * 32, KEPT = 4, CHURNS = 8 };
#define MIB ((uint64_t)1 << 20)

struct block {
	unsigned char *address;
	size_t size;
};

struct work {
	struct site site;
	const struct gm_policy *policy;
	void (*lane)(struct work *work, uint32_t thread);
	struct block block[LANES][KEPT];
	bool answers, calls; /* the host answers; it is inside a driver call */
	uint64_t delay; /* ns of the device's clock until the host answers if `answers` is false */
	uint64_t seen;	/* the device's time of the lanes' last poll at that moment */
	uint32_t seed;
	uint32_t running; /* lanes that have not ended */
	size_t size;
	uint64_t got, null, bad, bytes;
};

static void be_late(struct work *work)
{
	uint64_t step = work->delay ? GM_POLL_NS / 10 : GM_HOST_DEAD / 20;
	uint64_t seen = gm_load64(&site_device(&work->site)->seen_at);
	if (work->delay && seen == work->seen)
		return;
	work->seen = seen;
	gm_simt_advance(step);
	uint64_t *beat = &work->site.heap->shared->mail.beat.value;
	if (work->calls)
		__atomic_fetch_or(beat, GM_BEAT_CALLING, __ATOMIC_RELEASE);
	work->answers = work->delay && work->delay <= step;
	work->delay -= work->delay < step ? work->delay : step;
}

/* The host is a warp of its own. */
static void launch_lane(void *arg, uint32_t thread)
{
	struct work *work = arg;
	if (thread >= 32) {
		work->lane(work, thread - 32);
		gm_add32(&work->running, ~0u);
		return;
	}
	while (thread == 0 && gm_load32(&work->running)) {
		if (work->answers)
			gm_heap_answer(work->site.heap);
		else
			be_late(work);
		gm_pause(1000);
	}
}

static void launch(struct work *work, void (*lane)(struct work *work, uint32_t thread),
		   const char *what)
{
	static uint32_t seed;
	work->running = LANES;
	work->lane = lane;
	work->got = work->null = 0;
	seed = seed ? seed + 1 : test_seed();
	/* Launch a kernel without the service thread, which would answer as a second host. */
	gm_heap_launch(work->site.heap, NULL, NULL);
	gm_heap_launched(work->site.heap, NULL, true, NULL);
	TAP_OK(gm_simt_launch(&(struct gm_simt){WARPS + 1, WARPS + 1, seed, GM_SIMT_FAIR},
			      launch_lane, work),
	       "%s: %s", work->policy->name, what);
}

static void make(struct work *work, const char *memory, uint64_t limit,
		 const struct gm_policy *policy)
{
	memset(work, 0, sizeof *work);
	work->policy = policy;
	work->answers = true;
	work->seed = test_seed();
	site_make(&work->site, memory, limit, policy->name);
	gm_heap_stop(work->site.heap);
}

static bool take(struct work *work, struct block *block, size_t size, uint32_t number)
{
	block->address = work->policy->malloc(site_device(&work->site), size);
	block->size = size;
	test_count(block->address ? &work->got : &work->null);
	if (block->address)
		test_fill(block->address, size, number);
	gm_simt_progress();
	return block->address;
}

static void give(struct work *work, struct block *block, uint32_t number)
{
	if (block->address && !test_holds(block->address, block->size, number))
		test_count(&work->bad);
	work->policy->free(site_device(&work->site), block->address);
	block->address = NULL;
}

/* --- operations of lanes --- */

static void churn(struct work *work, uint32_t thread)
{
	uint32_t r = (thread + 1) * 2654435761u ^ work->seed;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t k = i % KEPT;
		r = r * 1664525u + 1013904223u;
		size_t size = r >> 28 == 0 ? GM_GRANULE + (r >> 4) % GM_GRANULE
					   : (r >> 8) % (r >> 29 ? 2000 : 60000);
		give(work, &work->block[thread][k], thread * KEPT + k);
		take(work, &work->block[thread][k], size, thread * KEPT + k);
	}
}

static void free_all(struct work *work, uint32_t thread)
{
	uint32_t other = LANES - 1 - thread; /* a lane other than the one that allocated it */
	for (uint32_t k = 0; k < KEPT; k++)
		give(work, &work->block[other][k], other * KEPT + k);
}

/* Allocate until NULL; the first word of each block links them all. */
static void fill_heap(struct work *work, uint32_t thread)
{
	void **block;
	(void)thread;
	while ((block = work->policy->malloc(site_device(&work->site), work->size))) {
		uint64_t *head = (uint64_t *)&work->block[0][0].address;
		uint64_t seen = gm_load64(head), next;
		do {
			next = seen;
			__atomic_store_n((uint64_t *)block, next, __ATOMIC_RELAXED);
			seen = gm_cas64(head, next, (uint64_t)(uintptr_t)block);
		} while (seen != next);
		test_count(&work->got);
		gm_simt_progress();
	}
	test_count(&work->null);
}

static void free_list(struct work *work, uint32_t thread)
{
	void *block = thread ? NULL : work->block[0][0].address, *next;
	for (; block; block = next) {
		next = *(void **)block;
		work->policy->free(site_device(&work->site), block);
		gm_simt_progress();
	}
	if (thread == 0)
		work->block[0][0].address = NULL;
}

/* One lane wants more than the device has, the others a little. */
static void one_too_many(struct work *work, uint32_t thread)
{
	if (thread == 0 && !work->policy->malloc(site_device(&work->site), work->size))
		test_count(&work->null);
	else if (thread % 4 == 0)
		take(work, &work->block[thread][0], 400000, thread * KEPT);
}

static void one_each(struct work *work, uint32_t thread)
{
	take(work, &work->block[thread][0], work->size, thread * KEPT);
}

/* Allocate, hold, free, again and again: at no time are all slots in use for good. */
static void hold(struct work *work, uint32_t thread)
{
	struct block *block = &work->block[thread][0];
	for (uint32_t i = 0; i < 2 * ROUNDS; i++) {
		take(work, block, work->size, thread * KEPT);
		for (uint32_t k = 0; k < KEPT; k++)
			gm_simt_progress();
		give(work, block, thread * KEPT);
	}
}

/* --- expectations --- */

static void grows_from_empty(struct work *work, const struct gm_policy *policy)
{
	const char *name = policy->name;
	make(work, "1G", 512 * MIB, policy);
	struct gm_heap_figures before = site_figures(&work->site);
	TAP_IS(before.chunks, 1, "%s: a new heap has one chunk", name);
	TAP_IS(before.used, 0, "%s: a new heap is empty", name);
	TAP_IS(site_pool(&work->site).lent, before.own + before.mapped,
	       "%s: the pool lent the first chunk and the books", name);
	launch(work, churn, "lanes allocate and free at random");
	TAP_IS(work->null, 0, "%s: no lane gets NULL", name);
	TAP_IS(work->bad, 0, "%s: blocks keep their contents", name);
	TAP_OK(site_figures(&work->site).grown > 1, "%s: the heap grew for its lanes", name);
	launch(work, free_all, "other lanes free all blocks");
	TAP_IS(work->bad, 0, "%s: blocks kept their contents", name);
	TAP_IS(site_figures(&work->site).foreign_frees, 0, "%s: each is freed once", name);
	if (policy->can & GM_POLICY_RETURNS) {
		struct gm_heap_figures figures = site_figures(&work->site);
		TAP_IS(figures.live, 0, "%s: nothing is live after all frees", name);
		TAP_IS(gm_heap_trim(work->site.heap), figures.mapped - before.mapped,
		       "%s: all chunks but the first are returned", name);
		figures = site_figures(&work->site);
		TAP_IS(figures.mapped, before.mapped, "%s: the first chunk remains", name);
		TAP_IS(figures.used, 0, "%s: the first chunk is empty", name);
		TAP_IS(site_pool(&work->site).lent, before.own + before.mapped,
		       "%s: the pool counts the same lent memory", name);
		launch(work, churn, "lanes make an empty heap grow anew");
		TAP_IS(work->null + work->bad, 0,
		       "%s: the second run has no NULL and no wrong block", name);
		TAP_OK(site_figures(&work->site).grown > figures.grown,
		       "%s: the second run adds chunks", name);
	}
	site_close(&work->site, name);
}

static void stops_at_limit(struct work *work, const struct gm_policy *policy)
{
	const char *name = policy->name;
	make(work, "1G", 80 * MIB, policy);
	work->size = 8000;
	launch(work, fill_heap, "lanes fill the heap");
	struct gm_heap_figures figures = site_figures(&work->site);
	TAP_IS(figures.mapped, 80 * MIB, "%s: the heap grows up to its limit", name);
	TAP_IS(work->null, LANES, "%s: each lane gets NULL at the limit", name);
	TAP_OK(work->got * 8192 >= 76 * MIB, "%s: %lu blocks of 8000 bytes fit", name,
	       (unsigned long)work->got);
	TAP_OK(figures.refused > 0, "%s: growth was refused at the limit", name);
	uint64_t got = work->got;
	launch(work, free_list, "lanes free all blocks");
	if (policy->can & GM_POLICY_MIXES) {
		launch(work, fill_heap, "lanes fill the heap again");
		TAP_OK(work->got >= got * 95 / 100,
		       "%s: the second run serves no fewer lanes: %lu, %lu", name,
		       (unsigned long)got, (unsigned long)work->got);
		launch(work, free_list, "lanes free all blocks again");
	}
	if (policy->can & GM_POLICY_RETURNS)
		TAP_IS(gm_heap_trim(work->site.heap), figures.mapped - GM_HEAP_FIRST * 2 * MIB,
		       "%s: a trim returns all chunks but the first", name);
	site_close(&work->site, name);
}

/* Lanes of a churn wait for each other's frees alone: the heap could serve them one after another
 * for ever. It grows to what all of them hold, and no further. */
static void grows_for_a_churn(struct work *work)
{
	make(work, "1G", 512 * MIB, &gm_policies[gm_heap_policy("granule")]);
	work->size = MIB;
	uint64_t first = site_figures(&work->site).mapped, live = LANES * work->size;
	for (unsigned i = 0; i < CHURNS; i++) {
		launch(work, hold, "lanes hold a block each, and free it");
		TAP_IS(work->got, (uint64_t)2 * ROUNDS * LANES, "all lanes of a churn are served");
	}
	uint64_t mapped = site_figures(&work->site).mapped;
	TAP_OK(mapped > first && mapped <= live / 2 * 3 + 64 * MIB,
	       "the heap grew for a churn, from %lu to %lu bytes", (unsigned long)first,
	       (unsigned long)mapped);
	site_close(&work->site, "churn");
}

static void refuses_what_is_too_much(struct work *work)
{
	make(work, "1G", 160 * MIB, &gm_policies[gm_heap_policy("granule")]);
	work->size = 170 * MIB;
	launch(work, one_too_many, "one lane wants more than the limit");
	TAP_IS(work->null, 1, "the large request gets NULL");
	TAP_IS(work->got, LANES / 4 - 1, "the other lanes get their blocks");
	TAP_OK(site_figures(&work->site).mapped < 120 * MIB, "the heap did not grow to its limit");
	launch(work, free_all, "lanes free their blocks");
	gm_heap_trim(work->site.heap);
	work->size = 100 * MIB;
	launch(work, one_too_many, "one lane gets 100 MiB in one piece");
	TAP_IS(work->null, 0, "the small requests are served");
	site_close(&work->site, "too much");
}

/* The pool is exhausted, then it has memory again. */
static void asks_again_when_memory_is_back(struct work *work)
{
	struct gm_block block;
	make(work, "256M", 1024 * MIB, &gm_policies[gm_heap_policy("granule")]);
	TAP_IS(gm_pool_alloc(work->site.pool, 190 * MIB, 1, &block), CUDA_SUCCESS,
	       "cudaMalloc takes most of the device");
	work->size = 2 * MIB;
	launch(work, one_each, "lanes want 2 MiB each");
	TAP_OK(work->got >= GM_HEAP_FIRST && work->null > 0, "%lu get it, %lu NULL",
	       (unsigned long)work->got, (unsigned long)work->null);
	uint64_t got = work->got;
	TAP_OK(site_pool(&work->site).mapped + site_pool(&work->site).lent >= 250 * MIB,
	       "the device was full");
	launch(work, free_all, "lanes free all blocks");
	gm_pool_free(work->site.pool, block.base, NULL, NULL);
	launch(work, one_each, "lanes get memory that cudaFree gave back");
	TAP_OK(work->got > got + 30 && work->got + work->null == LANES,
	       "the next kernel gets more: %lu", (unsigned long)work->got);
	site_close(&work->site, "memory");
}

/* Small requests without an answer: NULL after a second of the device's clock, not an endless
 * wait. */
static void outlives_the_host(struct work *work)
{
	make(work, "2G", 1024 * MIB, &gm_policies[gm_heap_policy("granule")]);
	work->answers = false;
	work->size = 1000000;
	launch(work, one_each, "the host does not answer");
	TAP_IS(work->got, 2 * GM_HEAP_FIRST, "all mapped memory is allocated");
	TAP_IS(work->null, LANES - 2 * GM_HEAP_FIRST, "the other lanes get NULL");
	launch(work, free_all, "lanes free their blocks");
	work->answers = true;
	launch(work, one_each, "the host answers again");
	TAP_IS(work->got, LANES, "all lanes get their blocks");
	site_close(&work->site, "host");
}

/* A slow host is not taken for dead, however many lanes poll for its answer. */
static void waits_for_a_slow_host(struct work *work)
{
	make(work, "2G", 1024 * MIB, &gm_policies[gm_heap_policy("granule")]);
	work->answers = false;
	work->delay = GM_HOST_DEAD / 2;
	work->size = 1000000;
	launch(work, one_each, "the host answers after half a second");
	TAP_IS(work->got, LANES, "every lane waits for a slow host");
	uint64_t stalled = site_device(&work->site)->stalled;
	TAP_OK(stalled > GM_HOST_DEAD * 9 / 20 && stalled < GM_HOST_DEAD * 11 / 20,
	       "the stalled time of all lanes is the delay: %lu ns", (unsigned long)stalled);
	launch(work, free_all, "lanes free their blocks");
	TAP_IS(site_figures(&work->site).wait_ns, stalled,
	       "the heap's figures have the stalled time");
	/* A lane that read the clock before another lane's poll. */
	struct gm_heap *device = site_device(&work->site);
	uint64_t waited = device->waited, now = gm_nanoseconds();
	device->polled_at = now + GM_POLL;
	gm_span_poll(device);
	TAP_IS(device->polled_at, now + GM_POLL, "a look in the past is none");
	TAP_IS(device->waited, waited, "an earlier clock reading adds no waiting time");
	device->polled_at = now + 2 * GM_HOST_DEAD;
	gm_span_poll(device);
	TAP_OK(device->polled_at < now + GM_HOST_DEAD, "a clock that was put back is believed");
	gm_simt_advance(GM_POLL);
	gm_span_ask_ahead(device);
	TAP_IS(device->stalled, stalled, "a lane that asks ahead does not wait");
	site_close(&work->site, "slow host");
}

/* A driver call may take seconds; it may also wait for this very kernel. */
static void waits_in_the_driver(struct work *work, uint64_t ns, uint64_t got)
{
	make(work, "2G", 1024 * MIB, &gm_policies[gm_heap_policy("granule")]);
	work->answers = false;
	work->calls = true;
	work->delay = ns;
	work->size = 1000000;
	launch(work, one_each, "the host is in the driver");
	TAP_IS(work->got, got, "after %lu s in a driver call: lanes that get a block",
	       (unsigned long)(ns / GM_HOST_DEAD));
	TAP_IS(work->null, LANES - got, "the other lanes get NULL");
	launch(work, free_all, "lanes free their blocks");
	site_close(&work->site, "the driver");
}

static struct work *in_call;
static unsigned calls, calls_said;
static CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
		       unsigned long long);

static CUresult map_watched(CUdeviceptr at, size_t size, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	calls++;
	calls_said += in_call->site.heap->shared->mail.beat.value & GM_BEAT_CALLING ? 1 : 0;
	return map(at, size, offset, handle, flags);
}

static void says_that_it_calls(struct work *work)
{
	make(work, "2G", 1024 * MIB, &gm_policies[gm_heap_policy("granule")]);
	in_call = work;
	map = work->site.driver.cuMemMap;
	work->site.driver.cuMemMap = map_watched;
	work->size = 1000000;
	launch(work, one_each, "lanes make the heap grow");
	TAP_OK(calls > 0 && calls_said == calls, "%u of %u calls of the driver are announced",
	       calls_said, calls);
	TAP_IS(work->site.heap->shared->mail.beat.value & GM_BEAT_CALLING, 0,
	       "the end of the calls is announced");
	launch(work, free_all, "lanes free their blocks");
	site_close(&work->site, "calls");
}

static void keeps_chunks_in_use(struct work *work)
{
	make(work, "1G", 512 * MIB, &gm_policies[gm_heap_policy("granule")]);
	work->size = 3 * MIB;
	launch(work, one_each, "lanes get runs of two granules");
	uint64_t mapped = site_figures(&work->site).mapped;
	/* A third of them is freed; chunks hold some of the others. */
	for (uint32_t i = 0; i < LANES; i += 3)
		give(work, &work->block[i][0], i * KEPT);
	gm_heap_trim(work->site.heap);
	struct gm_heap_figures figures = site_figures(&work->site);
	TAP_OK(figures.mapped <= mapped && figures.mapped >= mapped / 2,
	       "some chunks may go while others hold blocks");
	launch(work, free_all, "the remaining blocks keep their contents");
	TAP_IS(work->bad, 0, "no byte of the remaining blocks is wrong");
	TAP_OK(gm_heap_trim(work->site.heap) > 0, "a further trim returns more");
	TAP_IS(site_figures(&work->site).chunks, 1, "the first chunk alone remains");
	site_close(&work->site, "in use");
}

/* A quarter of the heap, up to 1 GiB. */
static void grows_by_share(struct work *work)
{
	uint32_t largest = 0, mapped = 0;
	make(work, "8G", 7168 * MIB, &gm_policies[gm_heap_policy("granule")]);
	struct gm_heap_host *heap = work->site.heap;
	bool fits = true;
	for (unsigned i = 0; i < 60; i++) {
		gm_span_want(site_device(&work->site), heap->granted + 1);
		gm_simt_advance(GM_POLL);
		gm_span_poll(site_device(&work->site));
		mapped = atomic_load(&heap->mapped);
		if (!gm_heap_answer(heap))
			break;
		uint32_t count = atomic_load(&heap->mapped) - mapped;
		uint32_t share = mapped / 4 + GM_HEAP_MORE;
		share = share < GM_HEAP_MOST_CHUNK ? share : GM_HEAP_MOST_CHUNK;
		share = share < heap->limit - mapped ? share : heap->limit - mapped;
		fits = fits && count == share;
		largest = count > largest ? count : largest;
	}
	TAP_OK(fits, "each chunk is a quarter of the mapped memory, and 16 MiB");
	TAP_IS(largest, GM_HEAP_MOST_CHUNK, "the largest chunk has 1 GiB");
	site_close(&work->site, "share");
}

int main(void)
{
	static struct work work;
	for (unsigned p = 0; p < GM_POLICIES; p++) {
		grows_from_empty(&work, &gm_policies[p]);
		stops_at_limit(&work, &gm_policies[p]);
	}
	grows_for_a_churn(&work);
	refuses_what_is_too_much(&work);
	asks_again_when_memory_is_back(&work);
	outlives_the_host(&work);
	waits_for_a_slow_host(&work);
	waits_in_the_driver(&work, 3 * GM_HOST_DEAD, LANES);
	waits_in_the_driver(&work, 2 * GM_HOST_STUCK, (uint64_t)2 * GM_HEAP_FIRST);
	says_that_it_calls(&work);
	keeps_chunks_in_use(&work);
	grows_by_share(&work);
	return tap_done();
}
