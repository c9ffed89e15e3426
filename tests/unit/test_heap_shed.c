/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A heap whose kernels follow one another returns memory that they do not need: sheds in the
 * program's launches, the grace of kernels in flight, memory that is requested again meanwhile; and
 * in the emulation, sheds concurrent with lanes that allocate and free.
 */
#include "heap/chunks/chunks.h"
#include "heap/device/shed.h"
#include "log/count.h"
#include "tests/unit/heap_host_help.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { WARPS = 2, ROUNDS = 20 }; /* emulated lanes are slow under the sanitizers */
#else
enum { WARPS = 4, ROUNDS = 60 };
#endif
enum { LANES = WARPS * 32, KEPT = 2 };
#define MIB ((uint64_t)1 << 20)
#define AFTER ((uint64_t)10 * 1000000000)
#define FIRST (GM_HEAP_FIRST * 2 * MIB)
#define LAUNCHES 20 /* upper limit until a chunk was wholly free */
#define LENGTH 12   /* granules of a chunk: the classes take one each */

static struct site site;
static uint64_t now;

static uint64_t clock_of_test(void)
{
	return now;
}

static void nothing(void *unused)
{
	(void)unused;
}

static CUstream held_stream(void)
{
	CUstream stream;
	drv(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	return stream;
}

static void release(CUstream stream)
{
	gm_sim_release(stream, (unsigned)-1);
}

static void launch(CUstream stream)
{
	gm_heap_launch(site.heap, stream, NULL);
	gm_sim_launch(stream, nothing, NULL);
	gm_heap_launched(site.heap, stream, true, NULL);
}

/* The device has `chunks` chunks of `count` granules beside the first. */
static void make(const char *policy, unsigned chunks, uint32_t count)
{
	site_open(&site, "4G", 2048 * MIB);
	site.config.policy = policy;
	site.config.trim_after = AFTER;
	site.config.clock = clock_of_test;
	now = 1000;
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_SUCCESS, "a heap is made");
	gm_heap_stop(site.heap); /* the test answers */
	while (chunks--)
		gm_heap_add_chunk(site.heap, count);
	gm_span_collect(site_device(&site));
}

static unsigned kernels(void)
{
	return gm_sim_calls("cuLaunchKernel");
}

static uint64_t due(void)
{
	return gm_heap_trim_next(site.heap);
}

/* A trim at the due time. */
static uint64_t trim(void)
{
	now = due();
	return gm_heap_trim_idle(site.heap, now);
}

/* A shed in a launch into a stream that runs at once; a trim then takes the result. */
static uint64_t shed(void)
{
	uint64_t given = trim();
	launch(NULL);
	return given + trim();
}

static uint64_t mapped(void)
{
	struct gm_heap_figures figures;
	gm_heap_figures_of_host(site.heap, &figures);
	return figures.mapped;
}

/* --- time and amount --- */

static void goes_while_kernels_come(const char *policy)
{
	make(policy, 3, 20);
	CUstream stream = held_stream();
	unsigned before = kernels();
	uint64_t shed_before = gm_counter_get(0, GM_C_heap_shed);
	TAP_IS(due(), AFTER, "%s: a heap that no kernel uses is trimmed as a whole", policy);
	launch(stream);
	TAP_IS(due(), 1000 + AFTER, "a heap in use is shed so long after it was made");
	TAP_IS(trim(), 0, "a shed needs a launch");
	TAP_IS(kernels(), before, "a trim launches no kernel");
	launch(stream);
	TAP_IS(kernels(), before + 1, "the next launch runs the heap's kernel");
	launch(stream);
	TAP_IS(kernels(), before + 1, "a due shed is launched once");
	gm_sim_release(stream, 2);
	TAP_IS(trim(), 0, "the first shed returns no memory");
	release(stream);
	TAP_IS(trim(), 0, "the first shed only counts the free granules");
	gm_sim_hold(stream);
	launch(stream);
	uint64_t began = now, sum = 0;
	TAP_IS(due(), began + AFTER, "the next shed is due after the same time");
	sum += trim();
	launch(stream);
	release(stream);
	gm_sim_hold(stream);
	launch(stream);
	sum += trim();
	TAP_IS(sum, 0, "withdrawn memory stays while earlier kernels are in flight");
	release(stream);
	TAP_IS(trim(), 120 * MIB, "withdrawn memory is returned after earlier kernels");
	TAP_IS(gm_counter_get(0, GM_C_heap_shed) - shed_before, 120 * MIB,
	       "memory of sheds is counted");
	TAP_IS(mapped(), FIRST, "%s: all but the first chunk are returned", policy);
	TAP_IS(site_pool(&site).idle, 120 * MIB, "memory of sheds returns to the pool");
	launch(NULL);
	TAP_IS(due(), UINT64_MAX, "nothing else is due");
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "kernels come");
}

static void *block[64];

/* One lane takes `n` granules, or returns them. */
static void take(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		block[i] = gm_granule_malloc(site_device(&site), 2 * MIB);
}

static void give(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		gm_granule_free(site_device(&site), block[i]);
}

static void keeps_what_was_needed(void)
{
	make("granule", 4, 10); /* 56 granules */
	launch(NULL);
	shed();
	take(20); /* between two sheds */
	give(20);
	TAP_IS(shed() / (2 * MIB), 20, "two chunks of 36 granules that were free all the time go");
	TAP_IS(shed() / (2 * MIB), 20,
	       "granules that are not needed again are returned by the next shed");
	TAP_IS(mapped(), FIRST, "the first chunk stays");
	site_close(&site, "needed");

	make("granule", 1, 20);
	launch(NULL);
	shed();
	take(1);
	void *small = gm_granule_malloc(site_device(&site), 16);
	uint64_t chunk = site_device(&site)->base + FIRST;
	TAP_OK((uint64_t)(uintptr_t)block[0] >= chunk, "a kernel holds some of a chunk");
	TAP_IS(shed(), 0, "a chunk in use stays");
	give(1);
	gm_granule_free(site_device(&site), small);
	uint64_t given = shed();
	TAP_IS(given + shed(), 40 * MIB, "a chunk is returned when it is free");
	site_close(&site, "held");
}

/* An empty granule stays with its class until it is needed elsewhere. */
static void sweeps(void)
{
	enum { N = 30 };
	make("granule", 1, 20);
	launch(NULL);
	for (unsigned i = 0; i < N; i++)
		block[i] = gm_granule_malloc(site_device(&site), MIB);
	for (unsigned i = 0; i < N; i++)
		gm_granule_free(site_device(&site), block[i]);
	uint64_t available = site_device(&site)->available;
	TAP_OK(available < 36, "empty granules are not free: %lu are", (unsigned long)available);
	shed();
	TAP_IS(site_device(&site)->available, 36, "a shed makes empty granules free");
	TAP_IS(shed(), 40 * MIB, "freed granules are returned by the next shed");
	block[0] = gm_granule_malloc(site_device(&site), MIB);
	TAP_OK(block[0] != NULL, "the heap still serves allocations");
	gm_granule_free(site_device(&site), block[0]);
	site_close(&site, "sweep");
}

/* --- the grace --- */

static void waits_for_launches(void)
{
	make("granule", 1, 20);
	launch(NULL);
	shed();
	CUstream stream = held_stream();
	launch(stream); /* in flight when the chunk is withdrawn */
	trim();
	gm_heap_launch(site.heap, NULL, NULL); /* a launch in progress, likewise */
	TAP_IS(trim(), 0, "a launch in progress keeps the chunk");
	release(stream);
	TAP_IS(trim(), 0, "a launch without a known number keeps the chunk");
	CUstream other = held_stream();
	gm_sim_launch(other, nothing, NULL);
	gm_heap_launched(site.heap, other, true, NULL);
	TAP_IS(trim(), 0, "a launch that has not ended keeps the chunk");
	launch(stream);
	release(other);
	gm_sim_hold(other);
	launch(other); /* launched after the shed */
	TAP_IS(trim(), 40 * MIB, "later launches do not keep the chunk");
	release(other);
	drv(cuStreamDestroy_v2)(stream);
	drv(cuStreamDestroy_v2)(other);
	site_close(&site, "grace");
}

static void waits_for_the_untracked(void)
{
	make("granule", 1, 20);
	launch(NULL);
	shed();
	CUstream stream = held_stream();
	gm_sim_fail("cuStreamWriteValue32_v2", 1, CUDA_ERROR_NOT_SUPPORTED);
	launch(stream);
	TAP_IS(shed(), 0, "a kernel whose end is not seen keeps the chunk");
	TAP_IS(trim(), 0, "a trim keeps the chunk of an untracked kernel, too");
	release(stream);
	TAP_IS(gm_heap_trim(site.heap), 40 * MIB,
	       "the chunk is returned after a wait for the kernel");
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "untracked");
}

/* Lanes want so many granules more than there are. */
static bool want_more(struct gm_heap *device, uint64_t granules)
{
	gm_span_want(device, device->granted + granules);
	gm_simt_advance(GM_POLL);
	gm_span_poll(device);
	bool grew = gm_heap_answer(site.heap);
	gm_span_collect(device);
	return grew;
}

/* A heap with two chunks withdrawn from the device, which a kernel keeps. Returns its stream. */
static CUstream withdrawn(void)
{
	make("granule", 2, 10);
	launch(NULL);
	shed();
	CUstream stream = held_stream();
	launch(stream);
	TAP_IS(shed(), 0, "chunks wait for a kernel");
	return stream;
}

static void comes_back(void)
{
	CUstream stream = withdrawn();
	struct gm_heap *device = site_device(&site);
	uint64_t available = device->available;
	TAP_IS(available, GM_HEAP_FIRST, "withdrawn chunks are not available to the device");
	unsigned calls = gm_sim_calls("cuMemMap");
	TAP_OK(want_more(device, 9), "lanes want more while chunks are withdrawn");
	TAP_IS(device->available, available + 10, "one withdrawn chunk is back");
	TAP_IS(gm_sim_calls("cuMemMap"), calls,
	       "a withdrawn chunk comes back without a call of the driver");
	release(stream);
	TAP_IS(trim(), 20 * MIB, "the other withdrawn chunk is returned");
	TAP_IS(mapped(), FIRST + 20 * MIB, "the chunk that came back remains");
	TAP_IS(site_figures(&site).used, 0, "the chunk that came back is empty");
	void *all = gm_granule_malloc(device, 20 * MIB);
	TAP_OK(all != NULL, "the remaining chunk can be allocated");
	memset(all, 1, 20 * MIB);
	gm_granule_free(device, all);
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "back");
}

static void comes_back_once(void)
{
	CUstream stream = withdrawn();
	/* A removal of a chunk leaves such a copy of the last one behind the array's end. */
	struct gm_heap_host *heap = site.heap;
	const struct gm_heap_chunk last = heap->chunks.at[heap->chunks.n - 1];
	if (gm_array_push(&heap->chunks, last))
		heap->chunks.n--;
	unsigned calls = gm_sim_calls("cuMemMap");
	TAP_OK(want_more(site_device(&site), 9) && want_more(site_device(&site), 9),
	       "lanes want both withdrawn chunks");
	TAP_IS(gm_sim_calls("cuMemMap"), calls, "two withdrawn chunks come back without a mapping");
	TAP_OK(want_more(site_device(&site), 9) && gm_sim_calls("cuMemMap") > calls,
	       "a third wish of the lanes maps new memory");
	release(stream);
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "once");
}

static void survives_refusals(void)
{
	make("granule", 1, 20);
	launch(NULL);
	shed();
	trim();
	gm_sim_fail("cuLaunchKernel", 1, CUDA_ERROR_UNKNOWN);
	launch(NULL);
	TAP_OK(!gm_heap_in_flight(site.heap), "a shed that the driver refuses is not waited for");
	TAP_IS(shed(), 40 * MIB, "a refused shed is launched again");
	site_close(&site, "refused");
	make("granule", 1, 20);
	CUstream stream = held_stream();
	launch(NULL);
	trim();
	gm_heap_launch(site.heap, stream, NULL);
	gm_heap_launched(site.heap, stream, false, NULL);
	TAP_OK(gm_heap_in_flight(site.heap), "a kernel whose launch failed may run nevertheless");
	TAP_IS(gm_heap_trim(site.heap), 0, "no trim runs beside a kernel whose launch failed");
	release(stream);
	TAP_OK(!gm_heap_in_flight(site.heap), "the shed is tracked to its end");
	TAP_IS(gm_heap_trim(site.heap), 40 * MIB, "a trim runs afterwards");
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "alone");
}

/* --- concurrent lanes --- */

static struct {
	const struct gm_policy *policy;
	struct gm_shed *shed;
	uint32_t running, seed, taken;
	uint64_t null, bad;
} work;

/* No lane may use the claimed memory: a byte that one changes is found when the chunk returns. */
static void claim_and_return(struct gm_heap *heap, bool sweeps, uint32_t lane)
{
	struct gm_shed *shed = work.shed;
	if (sweeps)
		gm_shed_sweep(heap, lane);
	if (lane != 0)
		return;
	gm_shed_claim(heap, shed);
	for (uint32_t i = 0; i < shed->chunks; i++) {
		if (!shed->chunk[i].taken)
			continue;
		char *at = gm_span_address(heap, shed->chunk[i].first);
		size_t size = (size_t)shed->chunk[i].count << GM_GRANULE_SHIFT;
		work.taken++;
		memset(at, 0xa5, 4096);
		memset(at + size - 4096, 0xa5, 4096);
		gm_pause(5000);
		for (size_t b = 0; b < 4096; b++)
			if (at[b] != (char)0xa5 || at[size - 1 - b] != (char)0xa5)
				test_count(&work.bad);
		gm_span_give(heap, shed->chunk[i].first, shed->chunk[i].count);
	}
}

static void churn(struct gm_heap *heap, uint32_t thread)
{
	unsigned char *kept[KEPT] = {NULL};
	uint32_t r = (thread + 1) * 2654435761u ^ work.seed;
	for (uint32_t i = 0; i < ROUNDS + KEPT; i++) {
		uint32_t k = i % KEPT, number = thread * KEPT + k;
		static size_t sizes[LANES][KEPT];
		if (kept[k] && !test_holds(kept[k], sizes[thread][k], number))
			test_count(&work.bad);
		work.policy->free(heap, kept[k]);
		kept[k] = NULL;
		if (i >= ROUNDS)
			continue;
		r = r * 1664525u + 1013904223u;
		sizes[thread][k] = (r >> 8) % (r >> 30 ? 1000 : 100000);
		kept[k] = work.policy->malloc(heap, sizes[thread][k]);
		if (kept[k])
			test_fill(kept[k], sizes[thread][k], number);
		else
			test_count(&work.null);
		gm_simt_progress();
	}
}

static void lane_of_launch(void *arg, uint32_t thread)
{
	struct gm_heap *heap = arg;
	bool sweeps = work.policy->can & GM_POLICY_KEEPS;
	if (thread >= 32) {
		churn(heap, thread - 32);
		gm_add32(&work.running, ~0u);
		return;
	}
	do {
		claim_and_return(heap, sweeps, thread);
		gm_pause(1000);
	} while (gm_shfl32(~0u, gm_load32(&work.running), 0) != 0);
}

static void sheds_beside_lanes(const struct gm_policy *policy)
{
	static struct gm_shed shed;
	make(policy->name, 8, LENGTH);
	struct gm_heap *heap = site_device(&site);
	memset(&work, 0, sizeof work);
	work.policy = policy;
	work.shed = &shed;
	work.seed = test_seed();
	heap->least = GM_HEAP_FIRST + 8 * LENGTH;
	shed.number = 1;
	shed.mapped = GM_HEAP_FIRST + 8 * LENGTH;
	shed.chunks = 8;
	for (uint32_t i = 0; i < 8; i++)
		shed.chunk[i] = (struct gm_job_chunk){GM_HEAP_FIRST + LENGTH * i, LENGTH, 0, 0};
	gm_heap_launch(site.heap, NULL, NULL);
	gm_heap_launched(site.heap, NULL, true, NULL);
	bool ran = true;
	/* Whether a chunk is wholly free at a shed depends on the schedule of the lanes. */
	for (unsigned i = 0; i < LAUNCHES && ran && !work.taken; i++) {
		work.running = LANES;
		ran = gm_simt_launch(
			&(struct gm_simt){WARPS + 1, WARPS + 1, work.seed + i, GM_SIMT_FAIR},
			lane_of_launch, heap);
	}
	TAP_OK(ran, "%s: lanes allocate and free beside sheds", policy->name);
	TAP_IS(work.null, 0, "%s: no lane gets NULL", policy->name);
	TAP_IS(work.bad, 0, "%s: blocks keep their contents", policy->name);
	TAP_OK(work.taken > 0, "%s: %u chunks left and came back", policy->name, work.taken);
	TAP_IS(site_figures(&site).foreign_frees, 0, "%s: each is freed once", policy->name);
	if (policy->can & GM_POLICY_RETURNS)
		TAP_IS(gm_heap_trim(site.heap), 8 * LENGTH * 2 * MIB, "%s: all memory is free",
		       policy->name);
	site_close(&site, policy->name);
}

int main(void)
{
	gm_counters_open();
	goes_while_kernels_come("granule");
	goes_while_kernels_come("rw");
	keeps_what_was_needed();
	sweeps();
	waits_for_launches();
	waits_for_the_untracked();
	comes_back();
	comes_back_once();
	survives_refusals();
	for (unsigned p = 0; p < GM_POLICIES; p++)
		if (gm_policies[p].can & GM_POLICY_FREES)
			sheds_beside_lanes(&gm_policies[p]);
	return tap_done();
}
