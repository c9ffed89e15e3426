/* SPDX-License-Identifier: BSD-3-Clause */
/* How long an allocation waits for retired memory: decided by the fences that pass meanwhile. */
#include <limits.h>

#include "pool/patience.h"

#include "log/counters.h"

#include "limbo_fake.h"

#define LIVE (4 * GM_GIB)
#define BLOCK (64 * GM_MIB)
#define NAPS (GM_PATIENCE_CALL / GM_PATIENCE_NAP)

static const CUresult busy = CUDA_ERROR_NOT_READY;
static bool quiet;

static bool is_quiet(void)
{
	return quiet;
}

static uint64_t now;

static uint64_t clock_fake(void)
{
	return now;
}

/* A nap takes no time of the clock. */
static void nap_fake(void *arg, uint64_t ns)
{
	(void)arg, (void)ns;
}

/* The fence operations of a process whose captures are all known. */
static struct gm_fence_ops asked;

/* A fence passes at every `steps` polls. */
static unsigned steps, asked_n;

static CUresult passed_in_turn(void *arg, uint64_t context, CUevent fence)
{
	if (++asked_n % steps == 0)
		f.passed++;
	return passed(arg, context, fence);
}

static struct gm_pool *open_busy(unsigned questions)
{
	asked = polled;
	asked.passed = passed_in_turn;
	asked.is_quiet = is_quiet;
	asked.nap = nap_fake;
	quiet = true;
	steps = questions;
	asked_n = 0;
	now = GM_PATIENCE_TIME;
	struct gm_pool *pool = open_with(64 * GM_GIB, 16 * GM_GIB, &asked);
	pool->config.clock = clock_fake;
	return pool;
}

/* Allocate and free different sizes, beside LIVE. */
static uint64_t churn(struct gm_pool *pool, unsigned n)
{
	uint64_t most = 0;
	fake_alloc(pool, LIVE);
	for (unsigned i = 0; i < n; i++) {
		CUdeviceptr at = fake_alloc(pool, BLOCK + i % 7 * GM_MIB).base;
		now += GM_PATIENCE_CALL * GM_PATIENCE_SHARE;
		gm_pool_free(pool, at, NULL, NULL);
		most = retired() > most ? retired() : most;
	}
	return most;
}

static void close_busy(struct gm_pool *pool, const char *name)
{
	f.passed = UINTPTR_MAX;
	gm_pool_context_gone(pool, 1);
	end(name);
}

static void bound(void)
{
	struct gm_pool *pool = open_busy(1);
	TAP_IS(gm_patience_bound(pool), 128 * GM_MIB, "128 MiB may always be retired");
	fake_alloc(pool, LIVE);
	TAP_IS(gm_patience_bound(pool), LIVE / 8, "an eighth of the live bytes, if that is more");
	fake_alloc(pool, 3000);
	TAP_IS(gm_pool_live(pool), LIVE + 3072, "the live bytes are those handed out");
	close_busy(pool, "the bound");
	pool = open_with(64 * GM_GIB, 16 * GM_MIB, &polled);
	TAP_IS(gm_patience_bound(pool), 16 * GM_MIB, "the bound is never more than config.retire");
	pool->config.retire_ppm = 0;
	pool->config.retire = GM_GIB;
	TAP_IS(gm_patience_bound(pool), GM_GIB, "a size is the bound itself");
	end("the knob");
}

/* The GPU lags behind: a fence passes at each third poll. */
static void catches_up(void)
{
	struct gm_pool *pool = open_busy(3);
	uint64_t most = churn(pool, 400), mapped = fake_stats(pool).mapped;
	TAP_OK(most > LIVE / 8, "an eighth of the live memory is retired: %llu MiB",
	       (unsigned long long)(most / GM_MIB));
	TAP_OK(mapped <= LIVE + LIVE / 8 + GM_POOL_DEFERRED + 4 * BLOCK,
	       "little more is mapped: %llu MiB", (unsigned long long)(mapped / GM_MIB));
	TAP_OK(f.waits + f.fences == 0 && fake_valid(pool), "no fence is waited for without end");
	close_busy(pool, "a GPU that runs behind");
}

static uint64_t waited_ns(void)
{
	return gm_counter_get(0, GM_C_reclaim_wait_ns);
}

/* A kernel that waits for this thread: no fence passes. */
static void stands_still(void)
{
	struct gm_pool *pool = open_busy(UINT_MAX);
	uint64_t most = churn(pool, 40);
	TAP_OK(most >= 40 * BLOCK, "the pool grows after a while when no fence passes");
	now += GM_PATIENCE_TIME;
	unsigned before = f.queries;
	uint64_t mapped = fake_stats(pool).mapped, calls = gm_counter_get(0, GM_C_reclaim_waits),
		 ns = waited_ns();
	fake_alloc(pool, 16 * BLOCK);
	TAP_OK(fake_stats(pool).mapped > mapped && f.queries - before >= NAPS &&
		       f.queries - before <= 3 * NAPS,
	       "an allocation beside a stuck GPU grows after %u questions", f.queries - before);
	TAP_IS(waited_ns() - ns, GM_PATIENCE_CALL, "an allocation waits for 200 us");
	TAP_IS(gm_counter_get(0, GM_C_reclaim_waits) - calls, 1, "the wait is counted");
	TAP_OK(f.waits + f.fences == 0 && fake_valid(pool), "no poll is a wait");
	close_busy(pool, "a GPU that stands still");
}

/* All allocations of a second wait for a fiftieth of it at most, however many there are. */
static void is_a_share_of_the_time(void)
{
	struct gm_pool *pool = open_busy(UINT_MAX);
	fake_alloc(pool, LIVE);
	for (unsigned i = 0; i < 10; i++)
		gm_pool_free(pool, fake_alloc(pool, BLOCK).base, NULL, NULL);
	now += 10 * GM_PATIENCE_TIME;
	uint64_t ns = waited_ns();
	for (unsigned i = 0; i < 200; i++)
		gm_pool_free(pool, fake_alloc(pool, BLOCK + i * GM_MIB).base, NULL, NULL);
	TAP_IS(waited_ns() - ns, 20000000, "200 allocations at once wait for 20 ms");
	now += GM_PATIENCE_TIME / 2;
	ns = waited_ns();
	for (unsigned i = 0; i < 100; i++)
		gm_pool_free(pool, fake_alloc(pool, BLOCK + (200 + i) * GM_MIB).base, NULL, NULL);
	TAP_IS(waited_ns() - ns, 10000000, "after half a second others wait for 10 ms");
	TAP_OK(fake_valid(pool), "the pool is valid");
	close_busy(pool, "a share");
}

static void captures(void)
{
	struct gm_pool *pool = open_busy(UINT_MAX);
	churn(pool, 12);
	TAP_OK(gm_patience_is_needed(pool), "patience is needed while much is retired");
	gm_pool_lock(pool);
	unsigned recorded = f.recorded, queries = f.queries;
	quiet = false;
	TAP_OK(!gm_patience_wait(pool, gm_pool_want(pool, 16 * BLOCK, 1)),
	       "no allocation waits while a capture is open");
	TAP_OK(f.recorded == recorded && f.queries == queries, "no event is recorded, nor asked");
	quiet = true;
	f.record = busy;
	gm_limbo_collect(pool);
	gm_pool_unlock(pool);
	f.record = CUDA_SUCCESS;
	close_busy(pool, "captures");
}

/* A thread's own blocks return to its shelf, however many blocks others have retired. */
static void comes_back(void)
{
	struct gm_pool *pool = open_busy(1);
	for (unsigned i = 0; i < 200; i++)
		gm_pool_free(pool, fake_alloc(pool, 16 * GM_MIB).base, NULL, NULL);
	TAP_OK(fake_stats(pool).mapped <= GM_PATIENCE_FREE + GM_POOL_DEFERRED,
	       "a loop maps the bound of retired memory, and one growth: %llu MiB",
	       (unsigned long long)(fake_stats(pool).mapped / GM_MIB));
	close_busy(pool, "a loop");
}

int main(void)
{
	bound();
	catches_up();
	stands_still();
	is_a_share_of_the_time();
	captures();
	comes_back();
	return tap_done();
}
