/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a heap that no kernel uses: the time at which it is due for release
 * (gm_heap_trim_next), reasons to keep it, and concurrent launches, which the GPU orders behind the
 * heap's own kernel.
 */
#include <pthread.h>
#include <sched.h>

#include "residency/door.h"
#include "tests/unit/heap_host_help.h"

#define MIB ((uint64_t)1 << 20)
#define AFTER ((uint64_t)10 * 1000000000)
#define FIRST (GM_HEAP_FIRST * 2 * MIB)

static struct site site;
static atomic_uint told; /* calls of config.idle */

/* --- a clock, and the service on this thread --- */

static uint64_t fake_now, kernel_ends;
static CUstream running; /* held until then */
static unsigned
	reads_to_launch; /* reads of the clock without a kernel in flight before one is launched */
static void launch_late(void);

static uint64_t fake_clock(void)
{
	if (reads_to_launch && !gm_heap_in_flight(site.heap) && --reads_to_launch == 0)
		launch_late();
	return ++fake_now;
}

static void fake_sleep(struct gm_heap_host *heap, uint64_t ns)
{
	(void)heap;
	fake_now += ns;
	if (running && fake_now >= kernel_ends) {
		gm_sim_release(running, (unsigned)-1);
		running = NULL;
	}
}

/* The callback may ask the heap: no lock is held. */
static void tell(void *arg)
{
	gm_heap_trim_next(*(struct gm_heap_host **)arg);
	atomic_fetch_add(&told, 1);
}

static void make(uint64_t after)
{
	site_open(&site, "4G", 2048 * MIB);
	site.config.trim_after = after;
	site.config.idle = tell;
	site.config.idle_arg = &site.heap;
	atomic_store(&told, 0);
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_SUCCESS, "a heap is made");
	gm_heap_stop(site.heap); /* the thread is replaced by this one */
	site.heap->config.clock = fake_clock;
	site.heap->config.sleep = fake_sleep;
	site.heap->shed_at = UINT64_MAX; /* no sheds: test_heap_shed */
	fake_now = 1000;
}

static void nothing(void *unused)
{
	(void)unused;
}

static void count(void *n)
{
	++*(unsigned *)n;
}

static CUstream held_stream(void)
{
	CUstream stream;
	drv(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	return stream;
}

static void launch(CUstream stream, void (*kernel)(void *), void *arg)
{
	gm_heap_launch(site.heap, stream, NULL);
	gm_sim_launch(stream, kernel, arg);
	gm_heap_launched(site.heap, stream, true, NULL);
}

static void serve(void)
{
	atomic_store(&site.heap->stopped, false);
	gm_heap_serve(site.heap);
	atomic_store(&site.heap->stopped, true);
}

/* A kernel that runs for `ns`. Returns the time at which it ended. */
static uint64_t run_kernel(uint64_t ns)
{
	CUstream stream = held_stream();
	launch(stream, nothing, NULL);
	running = stream;
	kernel_ends = fake_now + ns;
	serve();
	drv(cuStreamDestroy_v2)(stream);
	return kernel_ends;
}

static void grow(unsigned chunks)
{
	while (chunks--)
		TAP_IS(gm_heap_add_chunk(site.heap, 1), CUDA_SUCCESS, "the heap grows by a chunk");
}

static unsigned kernels(void)
{
	return gm_sim_calls("cuLaunchKernel");
}

static uint64_t trim(uint64_t now)
{
	return gm_heap_trim_idle(site.heap, now);
}

static uint64_t due(void)
{
	return gm_heap_trim_next(site.heap);
}

/* --- the due time --- */

static void costs_nothing_small(void)
{
	make(AFTER);
	run_kernel(1000000);
	unsigned before = kernels();
	TAP_IS(due(), UINT64_MAX, "a heap of one chunk is never due");
	TAP_IS(trim(UINT64_MAX - 1), 0, "no memory of a heap of one chunk is returned");
	TAP_IS(kernels(), before, "no kernel examines a heap of one chunk");
	TAP_IS(atomic_load(&told), 0, "the trim thread is not told of a heap of one chunk");
	site_close(&site, "small");
}

static void goes_when_due(void)
{
	make(AFTER);
	grow(3);
	TAP_IS(due(), AFTER, "before the first kernel a heap counts as idle");
	CUstream stream = held_stream();
	uint64_t beat = site.heap->shared->mail.beat.value;
	launch(stream, nothing, NULL);
	unsigned before = kernels();
	TAP_IS(site.heap->shared->mail.beat.value, beat + 1,
	       "lanes that gave the host up see a beat");
	TAP_IS(due(), UINT64_MAX, "no trim is due while a kernel is in flight");
	TAP_IS(trim(UINT64_MAX - 1), 0, "no memory is returned while a kernel is in flight");
	gm_sim_release(stream, (unsigned)-1);
	TAP_IS(due(), UINT64_MAX, "no trim is due before the end of a kernel is seen");
	serve();
	drv(cuStreamDestroy_v2)(stream);
	TAP_IS(atomic_load(&told), 1, "the trim thread is told once");
	uint64_t ended = run_kernel(3600 * (uint64_t)1000000000), when = due();
	TAP_IS(atomic_load(&told), 2, "the trim thread is told again after the next kernel");
	TAP_OK(when >= ended + AFTER && when < ended + AFTER + 1000000000,
	       "a trim is due the set time after the end of the kernel");
	TAP_IS(trim(when - 1), 0, "no memory is returned before that");
	TAP_IS(kernels(), before, "no kernel has examined the heap before that");
	TAP_IS(trim(when), 6 * MIB, "a due trim returns all but the first chunk");
	TAP_IS(site_figures(&site).mapped, FIRST, "the first chunk of the heap stays");
	TAP_IS(site_pool(&site).idle, 6 * MIB, "the other chunks are idle memory of the pool");
	TAP_IS(due(), UINT64_MAX, "no further trim is due");
	TAP_IS(site_figures(&site).used, 0, "memory claimed by a trim does not count as used");
	site_close(&site, "due");
}

static CUstream latecomer;

static void launch_late(void)
{
	atomic_store(&site.heap->stopped, true); /* no thread is started */
	launch(latecomer, nothing, NULL);
	atomic_store(&site.heap->stopped, false);
	running = latecomer;
	kernel_ends = fake_now + 1000000;
}

/* A kernel is launched after the service saw none in flight, but before it recorded that. */
static void sees_the_last(void)
{
	make(AFTER);
	grow(1);
	latecomer = held_stream();
	reads_to_launch = 2;
	run_kernel(1000);
	TAP_IS(reads_to_launch, 0, "a kernel comes late");
	TAP_OK(!gm_heap_in_flight(site.heap), "the late kernel is attended to");
	TAP_IS(atomic_load(&told), 1, "the trim thread is told when the kernel has ended");
	TAP_OK(due() >= kernel_ends + AFTER,
	       "the idle time counts from the end of the late kernel");
	drv(cuStreamDestroy_v2)(latecomer);
	site_close(&site, "late");
}

static void never_with_off(void)
{
	make(UINT64_MAX);
	grow(1);
	run_kernel(1000);
	TAP_IS(atomic_load(&told), 0, "off: the trim thread is not told");
	TAP_IS(due(), UINT64_MAX, "off: it is never due");
	TAP_IS(trim(UINT64_MAX - 1), 0, "off: no memory is returned");
	TAP_IS(gm_heap_trim(site.heap), 2 * MIB, "off: an explicit trim returns memory");
	site_close(&site, "off");
}

/* --- once --- */

static void *block;

static void take_lane(void *unused, uint32_t thread)
{
	(void)unused;
	if (thread == 0)
		block = gm_granule_malloc(site_device(&site), FIRST + MIB);
}

static void free_lane(void *unused, uint32_t thread)
{
	(void)unused;
	if (thread == 0)
		gm_granule_free(site_device(&site), block);
}

static void collect_lane(void *unused, uint32_t thread)
{
	(void)unused;
	if (thread == 0)
		gm_span_collect(site_device(&site));
}

static void emulate(void (*lane)(void *, uint32_t))
{
	gm_simt_launch(&(struct gm_simt){1, 1, 1, GM_SIMT_FAIR}, lane, NULL);
}

static void polls_once(void)
{
	make(AFTER);
	TAP_IS(gm_heap_add_chunk(site.heap, 2 * GM_HEAP_FIRST), CUDA_SUCCESS,
	       "a second chunk is added");
	emulate(take_lane);
	TAP_OK(block != NULL, "a kernel's block needs both chunks");
	run_kernel(1000);
	TAP_IS(trim(due()), 0, "no chunk is free");
	unsigned before = kernels();
	TAP_OK(due() == UINT64_MAX && trim(UINT64_MAX - 1) == 0 && kernels() == before,
	       "the heap is not examined again");
	emulate(free_lane);
	run_kernel(1000);
	gm_sim_fail("cuLaunchKernel", 1, CUDA_ERROR_UNKNOWN);
	TAP_IS(trim(due()), 0, "the driver refuses the kernel");
	TAP_IS(due(), UINT64_MAX, "a refused kernel is not launched again at once");
	run_kernel(1000);
	TAP_IS(trim(due()), 2 * FIRST, "after the next kernel the trim returns the chunks");
	site_close(&site, "once");
}

/* --- reasons to keep it --- */

static void waits_for_the_untracked(void)
{
	make(AFTER);
	grow(1);
	run_kernel(1000);
	gm_sim_fail("cuStreamWriteValue32_v2", 1, CUDA_ERROR_NOT_SUPPORTED);
	CUstream stream = held_stream();
	launch(stream, nothing, NULL);
	unsigned before = kernels();
	TAP_OK(due() == UINT64_MAX && trim(UINT64_MAX - 1) == 0,
	       "a launch whose end is not seen keeps the heap");
	TAP_IS(kernels(), before, "a heap with an untracked launch is not examined");
	gm_sim_release(stream, (unsigned)-1);
	gm_heap_trim(site.heap);
	grow(1);
	serve();
	TAP_IS(trim(due()), 2 * MIB, "the memory is returned after a wait for the launch");
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "untracked");
}

static enum gm_chunk_state leaving_as;

/* The driver's unmap, called with no lock held. */
static CUresult unmap(CUdeviceptr at, size_t size)
{
	leaving_as = site.heap->chunks.at[1].state;
	return drv(cuMemUnmap)(at, size);
}

static void leaves_what_others_unmap(void)
{
	make(AFTER);
	grow(1);
	site.heap->chunks.at[1].state = GM_CHUNK_UNMAPPING;
	TAP_IS(gm_heap_drop_chunks(site.heap), 0,
	       "chunks that another thread unmaps are left to it");
	site.heap->chunks.at[1].state = GM_CHUNK_CLAIMED;
	site.driver.cuMemUnmap = unmap;
	TAP_IS(gm_heap_drop_chunks(site.heap), 2 * MIB,
	       "chunks that no thread unmaps are returned");
	TAP_IS(leaving_as, GM_CHUNK_UNMAPPING, "a chunk being unmapped is in that state");
	site.driver.cuMemUnmap = drv(cuMemUnmap);
	site_close(&site, "others");
}

/* An earlier reading is not taken for a later one. */
static void reads_before(void)
{
	make(AFTER);
	TAP_IS(gm_heap_add_chunk(site.heap, 2 * GM_HEAP_FIRST), CUDA_SUCCESS,
	       "a second chunk is added");
	emulate(take_lane);
	launch(NULL, nothing, NULL);
	serve();
	gm_sim_hold(site.heap->stream);
	gm_heap_sample_context(site.context);
	gm_sim_release(site.heap->stream, (unsigned)-1);
	grow(4);
	TAP_IS(trim(due()), 8 * MIB, "chunks added since are returned");
	struct gm_heap_figures figures;
	gm_heap_figures_of_host(site.heap, &figures);
	TAP_IS(figures.used, FIRST + 2 * MIB, "the used figure equals the reading");
	emulate(free_lane);
	site_close(&site, "reading");
}

/* --- concurrent launches --- */

static uint64_t given;

static void *trim_now(void *when)
{
	given = trim(*(uint64_t *)when);
	return NULL;
}

/* A thread that waits for the heap's own kernel, which finds no room on the GPU. */
static pthread_t start_trim(void)
{
	static uint64_t when;
	pthread_t thread;
	when = due();
	gm_sim_hold(site.heap->stream);
	unsigned waiters = gm_sim_waiters();
	pthread_create(&thread, NULL, trim_now, &when);
	while (gm_sim_waiters() == waiters)
		sched_yield();
	return thread;
}

static void launches_behind(void)
{
	unsigned ran = 0;
	CUstream stream;
	make(AFTER);
	grow(2);
	run_kernel(1000);
	drv(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
	pthread_t thread = start_trim();
	launch(stream, count, &ran);
	TAP_IS(ran, 0, "a launch does not wait for the heap's kernel, and the GPU does");
	TAP_IS(gm_heap_trim(site.heap), 0, "no second kernel of the heap is launched");
	gm_sim_release(site.heap->stream, (unsigned)-1);
	pthread_join(thread, NULL);
	TAP_IS(given, 4 * MIB, "the trim returns the chunks");
	TAP_IS(ran, 1, "the heap's kernel has run");
	serve();
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "behind");
}

/* More chunks than one kernel examines. */
static void stops_for_launches(void)
{
	make(AFTER);
	for (unsigned i = 0; i < GM_JOB_CHUNKS + 10; i++) {
		gm_heap_add_chunk(site.heap, 1);
		emulate(collect_lane); /* the mailbox holds a few */
	}
	run_kernel(1000);
	unsigned before = kernels();
	CUstream stream = held_stream();
	pthread_t thread = start_trim();
	launch(stream, nothing, NULL);
	gm_sim_release(site.heap->stream, (unsigned)-1);
	pthread_join(thread, NULL);
	TAP_IS(given, GM_JOB_CHUNKS * 2 * MIB, "the chunks that one kernel examines are returned");
	TAP_IS(kernels(), before + 1, "no other kernel of the heap runs beside the program's");
	running = stream;
	kernel_ends = fake_now;
	serve();
	TAP_OK(gm_heap_exclude(site.heap) && !site.heap->ran_recorded,
	       "the next launch waits for a kernel that is yet to come");
	gm_heap_admit(site.heap);
	TAP_IS(trim(due()), 20 * MIB, "the remaining chunks are returned later");
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "many");
}

static atomic_uint launched;

static void record_excluded(void *trimming)
{
	*(bool *)trimming = site.heap->excluded;
}

static void *launch_one(void *trimming)
{
	drv(cuCtxSetCurrent)(site.context->handle);
	launch(NULL, record_excluded, trimming);
	atomic_store(&launched, 1);
	return NULL;
}

static bool is_launching(void)
{
	gm_lock_take(&site.heap->lock);
	bool launching = site.heap->launching;
	gm_lock_release(&site.heap->lock);
	return launching;
}

/* The caller waits if the stream cannot be told to wait. */
static void waits_itself(void)
{
	bool trimming = true;
	pthread_t other;
	make(AFTER);
	grow(1);
	run_kernel(1000);
	pthread_t thread = start_trim();
	gm_sim_fail("cuStreamWaitEvent", 1, CUDA_ERROR_UNKNOWN);
	pthread_create(&other, NULL, launch_one, &trimming);
	while (!is_launching())
		sched_yield();
	for (unsigned i = 0; i < 1000; i++)
		sched_yield();
	TAP_IS(atomic_load(&launched), 0, "a launch waits where its stream cannot");
	gm_sim_release(site.heap->stream, (unsigned)-1);
	pthread_join(thread, NULL);
	pthread_join(other, NULL);
	TAP_OK(!trimming && given == 2 * MIB, "the launch proceeds after the heap's kernel");
	serve();
	site_close(&site, "itself");
}

/* --- all at once, with the heap's own thread --- */

static atomic_bool over;

static void *trim_often(void *unused)
{
	(void)unused;
	while (!atomic_load(&over) || due() != UINT64_MAX)
		trim(UINT64_MAX - 1);
	return NULL;
}

/* Request granules, as a lane does that finds none. */
static void want(uint64_t granules)
{
	__atomic_store_n(&site.heap->shared->mail.want.value, granules, __ATOMIC_RELEASE);
}

static void *launch_often(void *unused)
{
	(void)unused;
	drv(cuCtxSetCurrent)(site.context->handle);
	for (unsigned i = 0; i < 100; i++) {
		launch(NULL, nothing, NULL);
		gm_heap_trim(site.heap);
	}
	return NULL;
}

static void all_at_once(void)
{
	pthread_t trimmer, launcher;
	make(0);
	site.heap->config.clock = NULL;
	site.heap->config.sleep = NULL;
	atomic_store(&site.heap->stopped, false);
	pthread_create(&trimmer, NULL, trim_often, NULL);
	pthread_create(&launcher, NULL, launch_often, NULL);
	for (unsigned i = 0; i < 100; i++) {
		CUstream stream = held_stream();
		launch(stream, nothing, NULL);
		want(GM_HEAP_FIRST + 2 * i);
		gm_sim_release(stream, (unsigned)-1);
		drv(cuStreamDestroy_v2)(stream);
	}
	pthread_join(launcher, NULL);
	atomic_store(&over, true);
	pthread_join(trimmer, NULL);
	gm_heap_stop(site.heap);
	site.heap->config.sleep = fake_sleep;
	serve();
	trim(UINT64_MAX - 1);
	TAP_IS(site_figures(&site).mapped, FIRST, "all added chunks were returned");
	TAP_IS(site_figures(&site).shrunk, site.heap->grown - 1, "each chunk was returned once");
	site_close(&site, "threads");
}

static CUresult never_wakes(uint64_t since)
{
	(void)since;
	return CUDA_ERROR_UNKNOWN;
}

/* The door is used from now on. */
static void leaves_the_door(void)
{
	make(AFTER);
	grow(1);
	run_kernel(1000000);
	gm_door_begin(never_wakes);
	TAP_OK(trim(UINT64_MAX - 1) > 0 && !gm_door_is_inside(),
	       "a trim of idle memory leaves the door");
	grow(1);
	TAP_OK(gm_heap_trim(site.heap) > 0 && !gm_door_is_inside(),
	       "a trim that lacks memory leaves the door");
	site_close(&site, "door");
}

int main(void)
{
	costs_nothing_small();
	goes_when_due();
	sees_the_last();
	never_with_off();
	polls_once();
	waits_for_the_untracked();
	leaves_what_others_unmap();
	reads_before();
	launches_behind();
	stops_for_launches();
	waits_itself();
	all_at_once();
	leaves_the_door();
	return tap_done();
}
