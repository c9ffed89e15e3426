/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slack: memory that the service maps ahead of growth. The device does not see it until it asks.
 * Any other allocation that lacks memory gets it, even while the kernel runs.
 */
#include <pthread.h>
#include <sched.h>

#include "heap/chunks/chunks.h"
#include "log/count.h"
#include "tests/unit/heap_host_help.h"

#define MIB ((uint64_t)1 << 20)
#define AFTER ((uint64_t)10 * 1000000000)

static struct site site;
static CUstream stream; /* held: its kernel runs until the stream is released */
static uint64_t fake_now;
static unsigned told, naps;

static uint64_t fake_clock(void)
{
	return ++fake_now;
}

static void release(void)
{
	gm_sim_release(stream, (unsigned)-1);
}

/* The kernel ends at the second nap. */
static void fake_sleep(struct gm_heap_host *heap, uint64_t ns)
{
	(void)heap;
	fake_now += ns;
	if (++naps == 2)
		release();
}

static void tell(void *arg)
{
	(void)arg;
	told++;
}

static void nothing(void *unused)
{
	(void)unused;
}

static void launch(void)
{
	gm_sim_hold(stream);
	gm_heap_launch(site.heap, stream, NULL);
	gm_sim_launch(stream, nothing, NULL);
	gm_heap_launched(site.heap, stream, true, NULL);
}

/* Request granules beyond the granted ones, as a lane does that finds none. */
static void want(uint64_t granules)
{
	__atomic_store_n(&site.heap->shared->mail.want.value, site.heap->granted + granules,
			 __ATOMIC_RELEASE);
}

/* A heap with a kernel in flight. The test replaces the service thread. */
static void make(const char *memory, uint64_t limit, uint64_t after, void (*idle)(void *arg))
{
	site_open(&site, memory, limit);
	site.config.trim_after = after;
	site.config.idle = idle;
	TAP_IS(gm_heap_create(&site.config, &site.heap), CUDA_SUCCESS, "a heap is made");
	gm_heap_stop(site.heap);
	site.heap->config.clock = fake_clock;
	site.heap->config.sleep = fake_sleep;
	site.heap->shed_at = UINT64_MAX; /* no sheds: test_heap_shed */
	fake_now = 1000;
	told = naps = 0;
	drv(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
	launch();
}

static void end(const char *name)
{
	release();
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, name);
}

static uint64_t slack(void)
{
	struct gm_heap_figures figures;
	gm_heap_figures_of_host(site.heap, &figures);
	TAP_IS(figures.slack, site_pool(&site).spare,
	       "the heap's slack is the pool's spare memory");
	return figures.slack >> GM_GRANULE_SHIFT;
}

static uint32_t mapped(void)
{
	return atomic_load(&site.heap->mapped);
}

static void serve(void)
{
	atomic_store(&site.heap->stopped, false);
	gm_heap_serve(site.heap);
	atomic_store(&site.heap->stopped, true);
}

static void grows_without_calls(void)
{
	make("4G", 2048 * MIB, AFTER, tell);
	TAP_OK(!gm_heap_map_ahead(site.heap), "a heap that did not grow maps nothing ahead");
	want(1);
	TAP_OK(gm_heap_answer(site.heap), "a kernel makes it grow");
	TAP_IS(slack(), 0, "the answer to a lane maps no slack");
	uint32_t before = mapped();
	TAP_OK(gm_heap_map_ahead(site.heap), "after the answer the next chunk is mapped as slack");
	TAP_IS(slack(), before / GM_HEAP_SHARE + GM_HEAP_MORE,
	       "slack is as long as the next growth");
	TAP_IS(told, 1, "the trim thread is told");
	TAP_IS(mapped(), before, "slack is not the heap's memory");
	TAP_IS(site_figures(&site).chunks, 2, "slack is not one of the heap's chunks");
	TAP_OK(!gm_heap_map_ahead(site.heap), "slack is mapped once for each growth");
	unsigned calls = gm_sim_calls("cuMemCreate") + gm_sim_calls("cuMemMap");
	uint64_t have = site.heap->shared->mail.have.value;
	want(1);
	TAP_OK(gm_heap_answer(site.heap), "the next growth is answered");
	TAP_IS(site.heap->shared->mail.have.value, have + 1, "the next growth is granted");
	TAP_IS(gm_sim_calls("cuMemCreate") + gm_sim_calls("cuMemMap"), calls,
	       "a growth from slack makes no driver call");
	TAP_IS(mapped(), before + before / GM_HEAP_SHARE + GM_HEAP_MORE,
	       "a growth takes all of the slack");
	TAP_IS(slack(), 0, "no slack remains after the growth");
	TAP_OK(gm_heap_map_ahead(site.heap) && slack() == mapped() / GM_HEAP_SHARE + GM_HEAP_MORE,
	       "slack is mapped again");
	before = mapped();
	want(mapped());
	TAP_OK(gm_heap_answer(site.heap) && mapped() == 2 * before,
	       "more memory than needed is mapped");
	TAP_IS(slack(), before / GM_HEAP_SHARE + GM_HEAP_MORE,
	       "the slack is not used for a growth beyond it");
	TAP_IS(gm_counter_get(0, GM_C_heap_slack), slack() << GM_GRANULE_SHIFT,
	       "the bytes of slack are counted");
	TAP_IS(gm_counter_get(0, GM_C_heap_slack_peak), slack() << GM_GRANULE_SHIFT,
	       "the peak of slack is counted");
	TAP_IS(gm_counter_get(0, GM_C_heap_slack_growths), 1, "growths from slack are counted");
	TAP_IS(gm_counter_get(0, GM_C_heap_slack_unused), 0, "no slack counts as unused");
	uint64_t unused = slack() << GM_GRANULE_SHIFT;
	end("ahead");
	TAP_IS(gm_counter_get(0, GM_C_heap_slack_unused), unused,
	       "unused slack is counted at the end");
	TAP_IS(gm_counter_get(0, GM_C_heap_slack), 0, "no slack remains at the end");
}

/* Waiting lanes could use more than the usual chunk. */
static void follows_a_wish(void)
{
	make("4G", 2048 * MIB, AFTER, NULL);
	site.heap->shared->mail.wish.value = 100;
	want(1);
	TAP_OK(gm_heap_answer(site.heap) && mapped() == GM_HEAP_FIRST + 100,
	       "waiting lanes get as much as they want");
	TAP_OK(gm_heap_map_ahead(site.heap), "after the answer the next chunk is mapped as slack");
	TAP_IS(slack(), 100, "slack suffices for as many lanes again");
	site.heap->shared->mail.wish.value = 0;
	want(1);
	TAP_OK(gm_heap_answer(site.heap) && mapped() == GM_HEAP_FIRST + 200,
	       "waiting lanes get the slack");
	TAP_OK(gm_heap_map_ahead(site.heap), "the next chunk is mapped when no lane waits");
	TAP_IS(slack(), mapped() / GM_HEAP_SHARE + GM_HEAP_MORE,
	       "the slack has the usual size when no lane waits");
	end("wish");
}

static void needs_a_reason(void)
{
	make("4G", 2048 * MIB, 0, NULL);
	want(1);
	TAP_OK(gm_heap_answer(site.heap) && !gm_heap_map_ahead(site.heap),
	       "GPUMEM_TRIM_AFTER=0: no memory is mapped ahead");
	end("at once");
	make("4G", 2048 * MIB, AFTER, NULL);
	want(1);
	TAP_OK(gm_heap_answer(site.heap), "a kernel makes it grow");
	release();
	TAP_OK(!gm_heap_map_ahead(site.heap) && slack() == 0,
	       "after the end of the kernel no slack is mapped");
	launch();
	TAP_OK(!gm_heap_map_ahead(site.heap), "no slack is mapped for a kernel that did not ask");
	end("ended");
}

static void is_bounded(void)
{
	make("4G", 128 * MIB, AFTER, NULL);
	want(16);
	TAP_OK(gm_heap_answer(site.heap) && gm_heap_map_ahead(site.heap),
	       "a heap grows, and maps slack");
	TAP_IS(slack(), 64 / GM_HEAP_SLACK_SHARE, "slack is a share of the limit");
	uint64_t rest = 64 - mapped();
	want(rest);
	TAP_OK(gm_heap_answer(site.heap) && mapped() == 64, "the whole limit can be used");
	TAP_IS(slack(), 0, "slack is part of the limit");
	TAP_OK(!gm_heap_map_ahead(site.heap), "beyond the limit there is no slack");
	end("limit");
	make("512M", 400 * MIB, AFTER, NULL);
	want(80);
	TAP_OK(gm_heap_answer(site.heap) && gm_heap_map_ahead(site.heap),
	       "a heap grows, and maps slack");
	TAP_IS(slack(), 16, "slack is a sixteenth of the device");
	end("device");
}

static void goes_to_who_lacks(void)
{
	struct gm_block block;
	make("512M", 400 * MIB, AFTER, NULL);
	want(16);
	TAP_OK(gm_heap_answer(site.heap) && gm_heap_map_ahead(site.heap),
	       "a heap grows, and maps slack");
	uint64_t ahead = slack(), rest = 512 * MIB - site_pool(&site).lent;
	TAP_OK(ahead > 0 && gm_heap_in_flight(site.heap), "there is slack, and a running kernel");
	TAP_IS(gm_pool_alloc(site.pool, rest + 2 * MIB, 1, &block), CUDA_SUCCESS,
	       "cudaMalloc takes the slack of a running kernel");
	TAP_IS(slack(), 0, "cudaMalloc took the slack while the kernel runs");
	TAP_OK(gm_heap_in_flight(site.heap), "the kernel runs on");
	want(1);
	TAP_OK(gm_heap_answer(site.heap), "the request gets the available memory");
	TAP_OK(!gm_heap_map_ahead(site.heap), "no slack is mapped while memory is lacking");
	gm_pool_free(site.pool, block.base, NULL, NULL);
	end("lack");

	make("4G", 2048 * MIB, AFTER, NULL);
	want(1);
	TAP_OK(gm_heap_answer(site.heap) && gm_heap_map_ahead(site.heap), "slack is mapped again");
	ahead = slack();
	TAP_IS(gm_heap_trim(site.heap), ahead << GM_GRANULE_SHIFT, "a trim returns the slack");
	TAP_IS(slack(), 0, "a trim returns all of the slack");
	TAP_IS(gm_heap_trim(site.heap), 0, "a trim returns no other memory while the kernel runs");
	end("trim");
}

static void goes_when_due(void)
{
	make("4G", 2048 * MIB, AFTER, tell);
	TAP_IS(gm_heap_trim_next(site.heap), UINT64_MAX, "no trim is due without slack");
	want(1);
	TAP_OK(gm_heap_answer(site.heap) && gm_heap_map_ahead(site.heap),
	       "slack is mapped after the answer");
	uint64_t due = gm_heap_trim_next(site.heap), ahead = slack();
	TAP_OK(due > AFTER && due <= fake_now + AFTER, "slack is due the set time later");
	TAP_IS(gm_heap_trim_idle(site.heap, due - 1), 0, "slack is not returned before it is due");
	TAP_IS(gm_heap_trim_idle(site.heap, due), ahead << GM_GRANULE_SHIFT,
	       "slack is returned when due");
	TAP_OK(gm_heap_in_flight(site.heap), "slack is returned while the kernel runs");
	TAP_IS(gm_heap_trim_next(site.heap), UINT64_MAX, "no further trim is due");
	want(1);
	TAP_OK(gm_heap_answer(site.heap), "the heap grows without slack");
	end("due");
}

/* First the driver keeps it, then another thread holds it. */
static void is_one_threads(void)
{
	make("4G", 2048 * MIB, AFTER, NULL);
	want(1);
	TAP_OK(gm_heap_answer(site.heap) && gm_heap_map_ahead(site.heap),
	       "slack is mapped by one thread");
	uint64_t ahead = slack();
	gm_sim_fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
	TAP_IS(gm_heap_drop_slack(site.heap), 0,
	       "slack that the driver does not unmap is not returned");
	TAP_IS(slack(), ahead, "slack that the driver does not unmap stays");
	want(1);
	uint32_t before = mapped();
	TAP_OK(gm_heap_answer(site.heap) && mapped() == before + ahead,
	       "slack that the driver did not unmap serves a growth");
	gm_sim_fail("cuMemMap", 1, CUDA_ERROR_OUT_OF_MEMORY);
	TAP_OK(!gm_heap_map_ahead(site.heap) && slack() == 0, "the driver refuses to map slack");
	TAP_OK(site_figures(&site).chunks == 3 && gm_heap_drop_slack(site.heap) == 0,
	       "refused slack leaves no chunk");
	TAP_IS(site.heap->chunks.n, 3, "refused slack leaves no address range");
	end("one");
}

static void is_made_by_the_service(void)
{
	make("4G", 2048 * MIB, AFTER, tell);
	want(1);
	serve();
	TAP_OK(naps > 2, "a kernel is served to its end");
	TAP_OK(slack() > 0, "slack remains for the next kernel");
	TAP_OK(gm_heap_trim_next(site.heap) < fake_now + AFTER, "slack for the next kernel is due");
	end("served");
	make("4G", 2048 * MIB, AFTER, NULL);
	want(1);
	serve();
	TAP_OK(naps > 2 && site.heap->grown == 2,
	       "a kernel is served to its end without a trim thread");
	TAP_IS(slack(), 0, "the service leaves no slack without a trim thread");
	end("alone");
}

/* --- all at once --- */

static atomic_bool over;

static void *lack_often(void *unused)
{
	struct gm_block block;
	(void)unused;
	while (!atomic_load(&over))
		if (gm_pool_alloc(site.pool, 440 * MIB, 1, &block) == CUDA_SUCCESS)
			gm_pool_free(site.pool, block.base, NULL, NULL);
	return NULL;
}

static void *drop_often(void *unused)
{
	(void)unused;
	while (!atomic_load(&over)) {
		gm_heap_drop_slack(site.heap);
		gm_heap_trim_idle(site.heap, UINT64_MAX - 1);
		sched_yield();
	}
	return NULL;
}

static void all_at_once(void)
{
	pthread_t lacker, dropper;
	make("512M", 400 * MIB, 1, NULL);
	pthread_create(&lacker, NULL, lack_often, NULL);
	pthread_create(&dropper, NULL, drop_often, NULL);
	for (unsigned i = 0; i < 300; i++) {
		struct gm_mailbox *mail = &site.heap->shared->mail;
		__atomic_store_n(&mail->taken.value, mail->have.value, __ATOMIC_RELEASE);
		__atomic_store_n(&mail->refused.value, 0, __ATOMIC_RELEASE);
		want(mapped() < 20);
		site.heap->ahead = true;
		gm_heap_map_ahead(site.heap);
		gm_heap_answer(site.heap);
	}
	atomic_store(&over, true);
	pthread_join(lacker, NULL);
	pthread_join(dropper, NULL);
	TAP_OK(mapped() >= 16, "the heap has %u granules", mapped());
	end("threads");
}

int main(void)
{
	gm_counters_open();
	grows_without_calls();
	follows_a_wish();
	needs_a_reason();
	is_bounded();
	goes_to_who_lacks();
	goes_when_due();
	is_one_threads();
	is_made_by_the_service();
	all_at_once();
	return tap_done();
}
