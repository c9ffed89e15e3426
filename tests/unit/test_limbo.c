/* SPDX-License-Identifier: BSD-3-Clause */
/* Limbo: bags, events that pass one by one, the bound, contexts that end meanwhile. */
#include "pool/internal.h"

#include "limbo_fake.h"

/* --- frees --- */

static void free_returns(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_block b = fake_alloc(pool, 5 * GM_MIB), was, found;
	f.answer = CUDA_ERROR_ILLEGAL_ADDRESS;
	TAP_IS(gm_pool_free(pool, b.base, NULL, NULL), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "a free returns the native result");
	TAP_OK(gm_pool_find(pool, b.base, &found) && found.live,
	       "a block whose free failed stays live");
	f.answer = CUDA_SUCCESS;
	TAP_IS(gm_pool_free(pool, b.base + 512, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "an inner address is not freed");
	TAP_IS(gm_pool_free(pool, b.base, NULL, &was), CUDA_SUCCESS,
	       "a free whose fence succeeds does");
	TAP_OK(was.id == b.id && f.context == 1,
	       "a free returns the block, and asks for its context");
	TAP_IS(gm_pool_free(pool, b.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a second free fails");
	TAP_IS(f.recorded + f.queries + f.waits + f.fences, 0, "a free asks for no fence");
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_OK(stats.retired == 5 * GM_MIB && stats.live_blocks == 0 && stats.requested == 0,
	       "a freed block is retired");
	TAP_IS(gm_pool_give_back(pool, 0, false), 0, "a retired block keeps its chunk");
	TAP_IS(gm_pool_give_back(pool, 0, true), stats.mapped,
	       "a release that waits returns the chunk");
	TAP_IS(f.waits, 1, "a release waits once");
	end("a free");
}

static void batches(void)
{
	struct gm_pool *pool = open_pool(16 * GM_GIB, 512 * GM_MIB);
	CUdeviceptr last = fake_alloc(pool, 3000).base, live = fake_alloc(pool, 5 * GM_GIB).base;
	free_blocks(2 * GM_LIMBO_BAG - 1, 3000);
	TAP_IS(f.recorded, 1, "one fence serves many blocks");
	TAP_IS(f.queries, 1, "the fence is polled when a batch is full");
	TAP_IS(retired(), (2 * GM_LIMBO_BAG - 1) * 3072, "no batch has passed");
	f.passed = 1;
	gm_pool_free(pool, last, NULL, NULL);
	TAP_IS(f.recorded, 2, "the next batch records a fence");
	TAP_IS(retired(), GM_LIMBO_BAG * 3072, "a batch settles the one before it");
	TAP_IS(f.dropped, 1, "the fence of a settled batch is dropped");
	gm_pool_free(pool, fake_alloc(pool, 129 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 2, "a large block records no fence of its own");
	gm_pool_free(pool, fake_alloc(pool, 129 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 3, "two large blocks share a fence while another is pending");
	f.passed = 3;
	TAP_IS(gm_pool_drain(pool), GM_LIMBO_BAG * 3072 + 258 * GM_MIB,
	       "a drain returns all retired memory");
	gm_pool_free(pool, fake_alloc(pool, 255 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 3, "a large block records no fence if two fit the bound");
	gm_pool_free(pool, fake_alloc(pool, 257 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 4, "two large blocks share a fence");
	f.passed = 4;
	TAP_IS(gm_pool_drain(pool), 512 * GM_MIB, "a drain settles both large blocks");
	gm_pool_free(pool, fake_alloc(pool, 257 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 5, "a larger block has a fence of its own if none is pending");
	gm_pool_free(pool, live, NULL, NULL);
	end("batches");
}

/* Past the bound a free records a fence unless one is pending; batches that have passed are
 * idle. */
static void bound(void)
{
	open_pool(GM_GIB, 0);
	free_small(1);
	TAP_OK(f.recorded == 1 && f.queries == 1,
	       "past the bound a free records a fence, and polls");
	f.passed = 1;
	for (unsigned i = 2; i <= 11; i++) {
		free_small(1);
		f.passed = f.recorded;
	}
	TAP_IS(f.recorded, 6, "while a fence is pending every second free records one");
	TAP_OK(f.queries == 6 && f.waits + f.fences == 0, "frees past the bound do not wait");
	TAP_IS(retired(), 2 * 3072, "batches that have passed are idle");
	free_small(4 * GM_EPOCH_EVENTS);
	TAP_IS(f.recorded, 6 + GM_EPOCH_EVENTS, "the fences of a context are bounded");
	TAP_OK(fake_valid(f.pool), "the pool is valid");
	for (unsigned i = 0; i < 6; i++) {
		f.passed = f.recorded;
		free_small(1);
	}
	TAP_OK(retired() <= 3 * 3072, "blocks that found no bag are settled with the next one");
	end("the bound");

	struct gm_pool *pool = open_pool(GM_GIB, 100 * GM_MIB);
	CUdeviceptr large = fake_alloc(pool, 90 * GM_MIB).base;
	CUdeviceptr small = fake_alloc(pool, 3000).base;
	gm_pool_free(pool, large, NULL, NULL);
	gm_pool_free(pool, small, NULL, NULL);
	TAP_OK(f.recorded == 1 && f.queries == 1, "below the bound only a batch records a fence");
	gm_pool_free(pool, fake_alloc(pool, 12 * GM_MIB).base, NULL, NULL);
	uint64_t queries = f.queries;
	free_small(2);
	TAP_OK(f.queries > queries, "past the bound every second free polls");
	f.passed = UINTPTR_MAX;
	free_small(2);
	TAP_IS(retired(), 2 * 3072, "frees past the bound poll until memory is idle again");
	end("a bound in between");
}

/* --- other threads, and threads that the system suspends --- */

static uint64_t retired_meanwhile;

static void go_on(void)
{
	f.passed = UINTPTR_MAX;
	free_small(8);
	retired_meanwhile = retired();
}

static void held_up(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 0);
	f.meanwhile = go_on;
	free_small(1);
	TAP_OK(!f.meanwhile && retired_meanwhile <= 2 * 3072,
	       "while one thread records, another one records and drains its own frees");
	TAP_OK(fake_valid(pool), "the pool is valid");
	end("recording");

	pool = open_pool(GM_GIB, 0);
	free_small(1);
	f.meanwhile = go_on;
	gm_limbo_miss(pool, gm_shelf_mine(pool), 1, true);
	TAP_OK(!f.meanwhile && retired_meanwhile <= 2 * 3072,
	       "while one thread polls, another one records and drains its own frees");
	TAP_OK(fake_valid(pool), "the pool is valid");
	end("asking");
}

/* --- allocations --- */

static uint64_t now;

static uint64_t fake_clock(void)
{
	return now;
}

/* Seal the open bags, and reset the count of queries. */
static void seal(void)
{
	gm_pool_lock(f.pool);
	gm_limbo_collect(f.pool);
	gm_pool_unlock(f.pool);
	f.queries = 0;
}

/* A thread whose blocks all wait. */
static void misses(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	CUdeviceptr first = fake_alloc(pool, 3000).base;
	gm_pool_free(pool, first, NULL, NULL);
	free_small(GM_LIMBO_BAG - 1);
	TAP_OK(f.recorded == 1 && f.queries == 1, "a full batch records a fence, and polls it");
	free_small(GM_LIMBO_BAG - 2);
	TAP_IS(f.recorded, 1, "while a fence is pending none is recorded before a batch is full");
	TAP_IS(f.queries, 1 + 6, "the 1st, 2nd, 4th ... 32nd allocation polls the fence");
	TAP_IS(retired(), (2 * GM_LIMBO_BAG - 2) * 3072, "all blocks stay retired");
	f.passed = 1;
	free_small(1);
	TAP_IS(f.dropped, 0, "the 63rd allocation does not see that the fence has passed");
	CUdeviceptr again = fake_alloc(pool, 3000).base;
	TAP_OK(f.queries == 1 + 7 && f.dropped == 1 && again == first,
	       "the 64th allocation sees that the fence has passed");
	TAP_OK(shelf->passed.first, "the rest of the batch is on the shelf");
	gm_pool_free(pool, again, NULL, NULL);
	end("misses");

	pool = open_pool(GM_GIB, 32 * GM_MIB);
	free_small(1);
	free_blocks(8, GM_MIB);
	TAP_IS(f.recorded, 0, "fewer than half of the bytes of a shelf record no fence");
	fake_alloc(pool, GM_MIB);
	TAP_IS(f.recorded, 1, "half of the bytes that a shelf may collect count as half a batch");
	gm_pool_context_gone(pool, 1);
	end("large misses");

	pool = open_pool(GM_GIB, GM_GIB);
	CUdeviceptr last = fake_alloc(pool, 3000).base;
	free_blocks(GM_LIMBO_MISSED - 1, 3000);
	seal();
	fake_alloc(pool, 3000);
	TAP_IS(f.queries, 0, "an allocation queries no event for few sealed blocks");
	gm_pool_free(pool, last, NULL, NULL);
	seal();
	fake_alloc(pool, 3000);
	TAP_IS(f.queries, 1,
	       "an allocation queries an event from GM_LIMBO_MISSED sealed blocks on");
	gm_pool_context_gone(pool, 1);
	end("few misses");

	pool = open_pool(GM_GIB, GM_GIB);
	pool->config.clock = fake_clock; /* blocks are too young to be taken from the shelf */
	now = 2 * GM_SHELF_FRESH;
	CUdeviceptr left = fake_alloc(pool, 4 * GM_MIB).base,
		    right = fake_alloc(pool, 4 * GM_MIB).base;
	gm_pool_free(pool, left, NULL, NULL);
	gm_pool_free(pool, right, NULL, NULL);
	seal();
	f.passed = UINTPTR_MAX;
	TAP_OK(fake_alloc(pool, 8 * GM_MIB).base == left && fake_stats(pool).mapped == 8 * GM_MIB,
	       "large blocks that have passed by then are joined for a larger one");
	end("joined misses");
}

static void reuse(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 60 * GM_MIB);
	struct gm_block a = fake_alloc(pool, 32 * GM_MIB), b, c, d;
	gm_pool_free(pool, a.base, NULL, NULL);
	b = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(b.base != a.base && f.recorded == 1 && f.queries == 2 && f.waits == 0,
	       "an allocation that finds nothing looks, and takes new memory where none has "
	       "passed");
	TAP_IS(retired(), 32 * GM_MIB, "freed blocks stay retired");
	f.passed = 1;
	c = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(c.base == a.base && f.recorded == 1, "a block is reused after its fence has passed");
	c = fake_alloc(pool, 10 * GM_MIB);
	gm_pool_free(pool, c.base, NULL, NULL);
	d = fake_alloc(pool, 10 * GM_MIB);
	TAP_OK(d.base != c.base && f.recorded == 1,
	       "below the bound no fence is recorded for a large block");
	end("reuse");

	pool = open_pool(GM_GIB, 40 * GM_MIB);
	a = fake_alloc(pool, 30 * GM_MIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	b = fake_alloc(pool, 30 * GM_MIB);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(f.recorded, 1, "past the bound a fence is recorded");
	f.passed = 1;
	c = fake_alloc(pool, 30 * GM_MIB);
	TAP_OK(c.base == a.base && f.recorded == 1, "the block behind a recorded fence is reused");
	end("reuse past the bound");

	pool = open_pool(64 * GM_MIB, GM_GIB);
	a = fake_alloc(pool, 40 * GM_MIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	b = fake_alloc(pool, 40 * GM_MIB);
	TAP_OK(b.base == a.base && f.waits == 1, "an allocation waits at the device's limit");
	gm_pool_free(pool, b.base, NULL, NULL);
	f.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	TAP_OK(!fake_alloc(pool, 40 * GM_MIB).base,
	       "an allocation does not wait in a broken context");
	TAP_IS(retired(), 40 * GM_MIB, "retired blocks of a broken context stay retired");
	TAP_IS(gm_pool_context_gone(pool, 1), 0, "retired blocks of a broken context end with it");
	TAP_IS(fake_alloc(pool, 40 * GM_MIB).base, a.base,
	       "the memory of an ended context can be allocated again");
	end("the limit");
}

static void captures(void)
{
	struct gm_pool *pool = open_pool(64 * GM_MIB, 0);
	struct gm_block a = fake_alloc(pool, 40 * GM_MIB);
	f.record = CUDA_ERROR_NOT_READY;
	f.passed = UINTPTR_MAX;
	TAP_IS(gm_pool_free(pool, a.base, NULL, NULL), CUDA_SUCCESS,
	       "a free during a capture succeeds");
	TAP_OK(!fake_alloc(pool, 40 * GM_MIB).base && f.recorded == 0,
	       "a block freed during a capture is not reused");
	TAP_IS(gm_pool_drain(pool), 0, "a drain does not wait for such a block");
	f.record = CUDA_SUCCESS;
	TAP_OK(fake_alloc(pool, 40 * GM_MIB).base == a.base && f.recorded == 1,
	       "the block is reused after a fence was recorded behind its free");
	end("captures");
}

static void nothing_runs(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 0);
	f.none = true;
	gm_pool_free(pool, fake_alloc(pool, 3000).base, NULL, NULL);
	TAP_OK(retired() == 0 && f.queries == 0,
	       "if nothing can be running a freed block is idle at once");
	end("no fence");
}

static CUdeviceptr block;

static void free_block(void)
{
	gm_pool_free(f.pool, block, NULL, NULL);
}

static void free_and_see(void)
{
	free_block();
	retired_meanwhile = retired();
}

static void without_fences(void)
{
	struct gm_pool *pool = open_with(GM_GIB, 32 * GM_MIB, &old_driver);
	struct gm_block a = fake_alloc(pool, 32 * GM_MIB), b;
	gm_pool_free(pool, a.base, NULL, NULL);
	fake.largest = 8 * GM_MIB;
	b = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(b.base != a.base && f.fences == 0,
	       "an old driver: new memory up to the bound, even in short handles");
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(f.fences, 0, "no free waits past the bound where there are no fences");
	b = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(f.fences == 1 && retired() == 0 && b.base == a.base,
	       "an allocation that finds no memory waits where there are no fences");
	gm_pool_free(pool, b.base, NULL, NULL);
	block = fake_alloc(pool, 3000).base;
	f.meanwhile = free_and_see;
	TAP_IS(gm_pool_drain(pool), 32 * GM_MIB, "blocks freed during a wait are drained");
	TAP_OK(retired_meanwhile == 32 * GM_MIB + 3072 && retired() == 3072,
	       "a block freed during a wait stays retired alone");
	gm_pool_drain(pool);
	end("an old driver");
}

/* --- order --- */

static void *free_on_thread(void *arg)
{
	free_block();
	return arg;
}

static void free_elsewhere(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, free_on_thread, NULL);
	pthread_join(thread, NULL);
}

/* A free of more than a quarter of the bound, GM_LIMBO_PART, polls at once. */
static void large(void)
{
	struct gm_pool *pool = open_with(GM_GIB, 400 * GM_MIB, &asked_idle);
	CUdeviceptr fits = fake_alloc(pool, 40 * GM_MIB).base;
	CUdeviceptr more = fake_alloc(pool, 102 * GM_MIB).base;
	block = fake_alloc(pool, 3000).base;
	f.idle = true;
	gm_pool_free(pool, fits, NULL, NULL);
	TAP_OK(f.looks == 0 && retired() == 40 * GM_MIB, "blocks that fit are collected");
	seal();
	f.meanwhile = free_elsewhere;
	TAP_IS(gm_pool_free(pool, more, NULL, NULL), CUDA_SUCCESS, "a larger block is freed");
	TAP_OK(f.looks == 1 && f.context == 1 && f.recorded == 1,
	       "a larger block needs no fence if nothing runs");
	TAP_OK(fake_alloc(pool, 102 * GM_MIB).base == more && f.recorded == 1,
	       "a larger block is reused at once");
	TAP_IS(retired(), 3072, "earlier blocks become idle, blocks freed meanwhile do not");
	f.idle = false;
	gm_pool_free(pool, more, NULL, NULL);
	TAP_OK(f.looks == 2 && retired() == 3072 + 102 * GM_MIB,
	       "a larger block waits if a kernel runs");
	f.answer = CUDA_ERROR_ILLEGAL_ADDRESS;
	block = fake_alloc(pool, 102 * GM_MIB).base;
	TAP_OK(block != more, "a block that waits is not reused");
	TAP_OK(gm_pool_free(pool, block, NULL, NULL) == CUDA_ERROR_ILLEGAL_ADDRESS && f.looks == 2,
	       "a broken context is not polled");
	end("large blocks");
}

static void older_only(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_block a = fake_alloc(pool, GM_MIB), b = fake_alloc(pool, 2 * GM_MIB), c;
	gm_pool_alloc(pool, 3 * GM_MIB, 2, &c);
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, c.base, NULL, NULL);
	block = b.base;
	f.meanwhile = free_block; /* while the fence is being recorded */
	f.passed = 1;
	gm_pool_lock(pool);
	TAP_IS(gm_limbo_collect(pool), GM_MIB,
	       "a fence covers its context's frees before its record");
	gm_pool_unlock(pool);
	TAP_IS(f.recorded, 2, "each context records its own fence");
	TAP_IS(retired(), 5 * GM_MIB, "a fence covers no later frees, and none of another context");
	TAP_IS(gm_pool_free(pool, fake_alloc(pool, 7 * GM_MIB).base, &behind, NULL), CUDA_SUCCESS,
	       "a block that another context's work uses is freed");
	f.passed = 3; /* the second event of this test is the fourth of all */
	gm_pool_lock(pool);
	TAP_IS(gm_limbo_collect(pool), 5 * GM_MIB,
	       "a block used by another context is covered by that one's fences");
	gm_pool_unlock(pool);
	TAP_OK(retired() == 7 * GM_MIB && f.recorded == 4,
	       "a block used by another context stays retired until they pass");
	end("order");
}

/* --- contexts that end --- */

static void go(void)
{
	gm_pool_context_gone(f.pool, 1);
	struct gm_block b; /* freed later in the place of the first block */
	gm_pool_alloc(f.pool, 7 * GM_MIB, 5, &b);
	gm_pool_free(f.pool, b.base, NULL, NULL);
}

static void gone_at_a_look(void)
{
	struct gm_pool *pool = open_with(GM_GIB, 400 * GM_MIB, &asked_idle);
	CUdeviceptr at = fake_alloc(pool, 102 * GM_MIB).base;
	f.idle = true;
	f.meanwhile = go;
	TAP_IS(gm_pool_free(pool, at, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a block ends with its context during a poll");
	TAP_IS(retired(), 7 * GM_MIB, "a later block at the address is not affected");
	end("a context goes at a look");
}

static void gone(void)
{
	static const char *const when[] = {"recorded", "asked", "waited for"};
	for (unsigned i = 0; i < 3; i++) {
		struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
		gm_pool_free(pool, fake_alloc(pool, 3 * GM_MIB).base, NULL, NULL);
		gm_pool_lock(pool);
		if (i)
			gm_limbo_collect(pool);
		gm_pool_unlock(pool);
		f.passed = UINTPTR_MAX;
		f.meanwhile = go;
		gm_pool_lock(pool);
		if (i < 2)
			gm_limbo_collect(pool);
		else
			gm_limbo_drain(pool);
		gm_pool_unlock(pool);
		TAP_OK(!f.meanwhile && fake_valid(pool), "a context goes while its fence is %s",
		       when[i]);
		TAP_IS(retired(), 7 * GM_MIB,
		       "a later block at the address is not affected by a context's end");
		TAP_IS(gm_pool_drain(pool), 7 * GM_MIB, "a drain makes the retired memory idle");
		end("a context goes");
	}
}

/* --- trimming --- */

static unsigned noticed;

static void notice(void *arg)
{
	(void)arg;
	noticed++;
}

static void trims(void)
{
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.fences = &polled,
					.defer = true,
					.retire = GM_GIB,
					.retire_ppm = 125000,
					.trim_after = 1000,
					.clock = fake_clock,
					.idle = notice};
	fake_open(GM_GIB);
	memset(&f, 0, sizeof f);
	now = 5000;
	gm_pool_create(&config, &f.pool);
	CUdeviceptr at = fake_alloc(f.pool, 32 * GM_MIB).base;
	noticed = 0;
	TAP_IS(gm_pool_trim_next(f.pool), UINT64_MAX, "no trim is due");
	gm_pool_free(f.pool, at, NULL, NULL);
	TAP_OK(noticed == 1 && gm_pool_trim_next(f.pool) == 6000,
	       "a retired block makes a trim due");
	TAP_OK(gm_pool_trim(f.pool, 5999) == 0 && f.recorded == 0,
	       "no trim happens before its time");
	now = 6000;
	TAP_OK(gm_pool_trim(f.pool, now) == 0 && f.queries == 1, "a due trim polls the fence");
	TAP_IS(gm_pool_trim_next(f.pool), 7000,
	       "a fence that has not passed is polled again later");
	f.passed = 1;
	now = 7000;
	TAP_IS(gm_pool_trim(f.pool, now), 0, "a fence that has passed makes the block idle");
	TAP_OK(retired() == 0 && gm_pool_trim_next(f.pool) == 8000,
	       "the idle time begins when the fence has passed");
	now = 8000;
	TAP_IS(gm_pool_trim(f.pool, now), 32 * GM_MIB,
	       "idle memory is returned when its time has come");
	TAP_IS(gm_pool_trim_next(f.pool), UINT64_MAX, "no further trim is due");
	noticed = 0;
	free_small(2);
	gm_pool_drain(f.pool);
	gm_pool_give_back(f.pool, 0, false);
	free_small(3);
	TAP_OK(noticed > 0 && gm_shelf_mine(f.pool)->limbo.open,
	       "a trim checks the open bag of a shelf");
	TAP_IS(gm_pool_trim_next(f.pool), 9000, "the next check of a shelf's open bag is due");
	end("trimming");
}

int main(void)
{
	free_returns();
	batches();
	bound();
	held_up();
	misses();
	reuse();
	captures();
	nothing_runs();
	without_fences();
	older_only();
	large();
	gone();
	gone_at_a_look();
	trims();
	return tap_done();
}
