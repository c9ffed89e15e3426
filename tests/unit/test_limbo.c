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
	       "what a native free would answer is the answer");
	TAP_OK(gm_pool_find(pool, b.base, &found) && found.live, "and the block lives on");
	f.answer = CUDA_SUCCESS;
	TAP_IS(gm_pool_free(pool, b.base + 512, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "not from within");
	TAP_IS(gm_pool_free(pool, b.base, NULL, &was), CUDA_SUCCESS, "a free");
	TAP_OK(was.id == b.id && f.context == 1, "says what it freed, and asks for its context");
	TAP_IS(gm_pool_free(pool, b.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE, "but once");
	TAP_OK(f.recorded + f.queries + f.waits + f.fences == 0, "no fence is asked for");
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_OK(stats.retired == 5 * GM_MIB && stats.live_blocks == 0 && stats.requested == 0,
	       "it is retired");
	TAP_IS(gm_pool_give_back(pool, 0, false), 0, "its chunk stays");
	TAP_IS(gm_pool_give_back(pool, 0, true), stats.mapped, "unless one waits for it");
	TAP_IS(f.waits, 1, "which is done once");
	end("a free");
}

static void batches(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 512 * GM_MIB);
	CUdeviceptr last = fake_alloc(pool, 3000).base;
	free_blocks(2 * GM_LIMBO_BAG - 1, 3000);
	TAP_IS(f.recorded, 1, "one fence serves many blocks");
	TAP_IS(f.queries, 1, "asked for when they are enough");
	TAP_IS(retired(), (2 * GM_LIMBO_BAG - 1) * 3072, "none of which has passed");
	f.passed = 1;
	gm_pool_free(pool, last, NULL, NULL);
	TAP_IS(f.recorded, 2, "the next batch");
	TAP_IS(retired(), GM_LIMBO_BAG * 3072, "settles the one before it");
	TAP_IS(f.dropped, 1, "whose fence goes");
	gm_pool_free(pool, fake_alloc(pool, 129 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 2, "a large block");
	gm_pool_free(pool, fake_alloc(pool, 129 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 3, "shares a fence at least with another one while one is to pass");
	f.passed = 3;
	TAP_IS(gm_pool_drain(pool), GM_LIMBO_BAG * 3072 + 258 * GM_MIB, "all that is there");
	gm_pool_free(pool, fake_alloc(pool, 255 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 3, "waits for another one where two fit the bound");
	gm_pool_free(pool, fake_alloc(pool, 257 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 4, "which it shares");
	f.passed = 4;
	TAP_IS(gm_pool_drain(pool), 512 * GM_MIB, "and settles both");
	gm_pool_free(pool, fake_alloc(pool, 257 * GM_MIB).base, NULL, NULL);
	TAP_IS(f.recorded, 5, "a larger one has its own where none is to pass");
	end("batches");
}

/* A batch that has passed is there for the next one, whatever its size. */
static void bound(void)
{
	open_pool(GM_GIB, 0);
	free_small(1);
	TAP_OK(f.recorded == 1 && f.queries == 1,
	       "past the bound a free records a fence, and asks");
	f.passed = 1;
	for (unsigned i = 2; i <= 11; i++) {
		free_small(1);
		f.passed = f.recorded;
	}
	TAP_IS(f.recorded, 6, "while that is to pass every second one does");
	TAP_OK(f.queries == 6 && f.waits + f.fences == 0, "and waits for none");
	TAP_IS(retired(), 2 * 3072, "so that what has passed is idle");
	free_small(4 * GM_EPOCH_EVENTS);
	TAP_IS(f.recorded, 6 + GM_EPOCH_EVENTS, "the fences of a context are bounded");
	TAP_OK(fake_valid(f.pool), "valid");
	for (unsigned i = 0; i < 6; i++) {
		f.passed = f.recorded;
		free_small(1);
	}
	TAP_OK(retired() <= 3 * 3072, "and those that found no place come with the next one");
	end("the bound");

	struct gm_pool *pool = open_pool(GM_GIB, 100 * GM_MIB);
	CUdeviceptr large = fake_alloc(pool, 90 * GM_MIB).base;
	CUdeviceptr small = fake_alloc(pool, 3000).base;
	gm_pool_free(pool, large, NULL, NULL);
	gm_pool_free(pool, small, NULL, NULL);
	TAP_OK(f.recorded == 1 && f.queries == 1, "below it only a batch does");
	gm_pool_free(pool, fake_alloc(pool, 12 * GM_MIB).base, NULL, NULL);
	uint64_t queries = f.queries;
	free_small(2);
	TAP_OK(f.queries > queries, "past it every second one");
	f.passed = UINTPTR_MAX;
	free_small(2);
	TAP_IS(retired(), 2 * 3072, "until memory is there again");
	end("a bound in between");
}

/* --- other threads, and those that the system keeps from running --- */

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
	       "while one thread records, another one does and settles what it frees");
	TAP_OK(fake_valid(pool), "valid");
	end("recording");

	pool = open_pool(GM_GIB, 0);
	free_small(1);
	f.meanwhile = go_on;
	gm_limbo_miss(pool, gm_shelf_mine(pool), 1, true);
	TAP_OK(!f.meanwhile && retired_meanwhile <= 2 * 3072, "likewise while one asks");
	TAP_OK(fake_valid(pool), "valid");
	end("asking");
}

/* --- allocations --- */

/* A thread whose blocks all wait. */
static void misses(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	CUdeviceptr first = fake_alloc(pool, 3000).base;
	gm_pool_free(pool, first, NULL, NULL);
	free_small(GM_LIMBO_BAG - 1);
	TAP_OK(f.recorded == 1 && f.queries == 1, "a batch is freed, and its fence asked for");
	free_small(GM_LIMBO_BAG - 2);
	TAP_IS(f.recorded, 1, "as long as that is to pass none is recorded before a batch is full");
	TAP_IS(f.queries, 1 + 6, "it is asked by the 1st, 2nd, 4th ... 32nd allocation");
	TAP_IS(retired(), (2 * GM_LIMBO_BAG - 2) * 3072, "all wait for it");
	f.passed = 1;
	free_small(1);
	TAP_IS(f.dropped, 0, "the 63rd does not see that it has passed");
	CUdeviceptr again = fake_alloc(pool, 3000).base;
	TAP_OK(f.queries == 1 + 7 && f.dropped == 1 && again == first, "the 64th does");
	TAP_OK(shelf->passed.first, "and the rest of the batch is on the shelf");
	gm_pool_free(pool, again, NULL, NULL);
	end("misses");

	pool = open_pool(GM_GIB, 32 * GM_MIB);
	free_small(1);
	free_blocks(8, GM_MIB);
	TAP_OK(f.recorded == 0, "half of the bytes that a shelf may collect");
	fake_alloc(pool, GM_MIB);
	TAP_IS(f.recorded, 1, "count as half a batch");
	gm_pool_context_gone(pool, 1);
	end("large misses");
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
	TAP_IS(retired(), 32 * GM_MIB, "what was freed stays retired");
	f.passed = 1;
	c = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(c.base == a.base && f.recorded == 1, "until its fence has passed");
	c = fake_alloc(pool, 10 * GM_MIB);
	gm_pool_free(pool, c.base, NULL, NULL);
	d = fake_alloc(pool, 10 * GM_MIB);
	TAP_OK(d.base != c.base && f.recorded == 1, "below the bound none is recorded for it");
	end("reuse");

	pool = open_pool(GM_GIB, 40 * GM_MIB);
	a = fake_alloc(pool, 30 * GM_MIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	b = fake_alloc(pool, 30 * GM_MIB);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(f.recorded, 1, "past the bound");
	f.passed = 1;
	c = fake_alloc(pool, 30 * GM_MIB);
	TAP_OK(c.base == a.base && f.recorded == 1, "what is behind it is used again");
	end("reuse past the bound");

	pool = open_pool(64 * GM_MIB, GM_GIB);
	a = fake_alloc(pool, 40 * GM_MIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	b = fake_alloc(pool, 40 * GM_MIB);
	TAP_OK(b.base == a.base && f.waits == 1, "at the device's limit it waits");
	gm_pool_free(pool, b.base, NULL, NULL);
	f.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	TAP_OK(!fake_alloc(pool, 40 * GM_MIB).base, "not if the context is broken");
	TAP_IS(retired(), 40 * GM_MIB, "what it retired stays so");
	TAP_IS(gm_pool_context_gone(pool, 1), 0, "until the context goes");
	TAP_OK(fake_alloc(pool, 40 * GM_MIB).base == a.base, "then it is there");
	end("the limit");
}

static void captures(void)
{
	struct gm_pool *pool = open_pool(64 * GM_MIB, 0);
	struct gm_block a = fake_alloc(pool, 40 * GM_MIB);
	f.record = CUDA_ERROR_NOT_READY;
	f.passed = UINTPTR_MAX;
	TAP_IS(gm_pool_free(pool, a.base, NULL, NULL), CUDA_SUCCESS, "a free during a capture");
	TAP_OK(!fake_alloc(pool, 40 * GM_MIB).base && f.recorded == 0, "is not used again");
	TAP_IS(gm_pool_drain(pool), 0, "nor waited for");
	f.record = CUDA_SUCCESS;
	TAP_OK(fake_alloc(pool, 40 * GM_MIB).base == a.base && f.recorded == 1,
	       "until a fence can be recorded after it");
	end("captures");
}

static void nothing_runs(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 0);
	f.none = true;
	gm_pool_free(pool, fake_alloc(pool, 3000).base, NULL, NULL);
	TAP_OK(retired() == 0 && f.queries == 0, "where nothing can be running it is idle at once");
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
	struct gm_pool *pool = open_with(GM_GIB, 40 * GM_MIB, &old_driver);
	struct gm_block a = fake_alloc(pool, 32 * GM_MIB), b;
	gm_pool_free(pool, a.base, NULL, NULL);
	b = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(b.base != a.base && f.fences == 0, "an old driver: new memory up to the bound");
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_OK(f.fences == 0, "no free waits past it");
	b = fake_alloc(pool, 32 * GM_MIB);
	TAP_OK(f.fences == 1 && retired() == 0 && b.base == a.base,
	       "but an allocation that finds nothing does");
	gm_pool_free(pool, b.base, NULL, NULL);
	block = fake_alloc(pool, 3000).base;
	f.meanwhile = free_and_see;
	TAP_IS(gm_pool_drain(pool), 32 * GM_MIB, "what is freed during a wait");
	TAP_OK(retired_meanwhile == 32 * GM_MIB + 3072 && retired() == 3072,
	       "neither passes with it nor keeps the rest");
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

/* A block of more than a quarter of the bound, GM_LIMBO_PART, is looked at when it is freed. */
static void large(void)
{
	struct gm_pool *pool = open_with(GM_GIB, 400 * GM_MIB, &asked_idle);
	CUdeviceptr fits = fake_alloc(pool, 40 * GM_MIB).base;
	CUdeviceptr more = fake_alloc(pool, 102 * GM_MIB).base;
	block = fake_alloc(pool, 3000).base;
	f.idle = true;
	gm_pool_free(pool, fits, NULL, NULL);
	TAP_OK(f.looks == 0 && retired() == 40 * GM_MIB, "blocks that fit are collected");
	gm_pool_lock(pool);
	gm_limbo_collect(pool); /* seals their bag */
	gm_pool_unlock(pool);
	f.meanwhile = free_elsewhere;
	TAP_IS(gm_pool_free(pool, more, NULL, NULL), CUDA_SUCCESS, "a larger one");
	TAP_OK(f.looks == 1 && f.context == 1 && f.recorded == 1,
	       "needs no fence where nothing runs");
	TAP_OK(fake_alloc(pool, 102 * GM_MIB).base == more && f.recorded == 1,
	       "and is used again at once");
	TAP_IS(retired(), 3072, "what was retired before is settled, not what was meanwhile");
	f.idle = false;
	gm_pool_free(pool, more, NULL, NULL);
	TAP_OK(f.looks == 2 && retired() == 3072 + 102 * GM_MIB, "where something does it waits");
	f.answer = CUDA_ERROR_ILLEGAL_ADDRESS;
	block = fake_alloc(pool, 102 * GM_MIB).base;
	TAP_OK(block != more, "as any other");
	TAP_OK(gm_pool_free(pool, block, NULL, NULL) == CUDA_ERROR_ILLEGAL_ADDRESS && f.looks == 2,
	       "nor is a broken context looked at");
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
	       "a fence settles what its context freed before it was recorded");
	gm_pool_unlock(pool);
	TAP_IS(f.recorded, 2, "each context has its own");
	TAP_IS(retired(), 5 * GM_MIB, "not what was freed meanwhile, nor another context's");
	TAP_IS(gm_pool_free(pool, fake_alloc(pool, 7 * GM_MIB).base, &behind, NULL), CUDA_SUCCESS,
	       "a block that another context's work uses");
	f.passed = 3; /* its second one is the fourth of all */
	gm_pool_lock(pool);
	TAP_IS(gm_limbo_collect(pool), 5 * GM_MIB, "goes by that one's fences");
	gm_pool_unlock(pool);
	TAP_OK(retired() == 7 * GM_MIB && f.recorded == 4, "and stays until they pass");
	end("order");
}

/* --- contexts that go --- */

static void go(void)
{
	gm_pool_context_gone(f.pool, 1);
	struct gm_block b; /* takes the place of the other one */
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
	       "a block goes with its context while one looks");
	TAP_IS(retired(), 7 * GM_MIB, "the next one is none the worse");
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
		TAP_IS(retired(), 7 * GM_MIB, "the next one is none the worse");
		TAP_IS(gm_pool_drain(pool), 7 * GM_MIB, "and settles what it retired");
		end("a context goes");
	}
}

/* --- trimming --- */

static uint64_t now;
static unsigned noticed;

static uint64_t fake_clock(void)
{
	return now;
}

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
					.trim_after = 1000,
					.clock = fake_clock,
					.idle = notice};
	fake_open(GM_GIB);
	memset(&f, 0, sizeof f);
	now = 5000;
	gm_pool_create(&config, &f.pool);
	CUdeviceptr at = fake_alloc(f.pool, 32 * GM_MIB).base;
	noticed = 0;
	TAP_OK(gm_pool_trim_next(f.pool) == UINT64_MAX, "nothing is to be trimmed");
	gm_pool_free(f.pool, at, NULL, NULL);
	TAP_OK(noticed == 1 && gm_pool_trim_next(f.pool) == 6000, "a retired block is looked at");
	TAP_OK(gm_pool_trim(f.pool, 5999) == 0 && f.recorded == 0, "in time");
	now = 6000;
	TAP_OK(gm_pool_trim(f.pool, now) == 0 && f.queries == 1, "and asked whether it has passed");
	TAP_IS(gm_pool_trim_next(f.pool), 7000, "if not, again later");
	f.passed = 1;
	now = 7000;
	TAP_IS(gm_pool_trim(f.pool, now), 0, "once it has, it is idle");
	TAP_OK(retired() == 0 && gm_pool_trim_next(f.pool) == 8000, "from then on");
	now = 8000;
	TAP_IS(gm_pool_trim(f.pool, now), 32 * GM_MIB, "and goes when its time has come");
	TAP_OK(gm_pool_trim_next(f.pool) == UINT64_MAX, "nothing is left");
	noticed = 0;
	free_small(2);
	gm_pool_drain(f.pool);
	gm_pool_give_back(f.pool, 0, false);
	free_small(3);
	TAP_OK(noticed > 0 && gm_shelf_mine(f.pool)->limbo.open, "what a shelf collects, too,");
	TAP_IS(gm_pool_trim_next(f.pool), 9000, "is looked at");
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
