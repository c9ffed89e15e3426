/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred reuse: what the threads of a shelf collect before the pool knows of it. */
#include "retire_fake.h"

static void batch_on_shelf(uint64_t size)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	CUdeviceptr first[GM_RETIRE_BATCH], second[GM_RETIRE_BATCH];
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++) {
		first[i] = fake_alloc(pool, size).base;
		second[i] = fake_alloc(pool, size).base;
	}
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		gm_pool_free(pool, first[i], NULL);
	f.passed = f.recorded;
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		gm_pool_free(pool, second[i], NULL);
	TAP_OK(f.recorded == 2 && gm_shelf_mine(pool)->n == GM_RETIRE_BATCH,
	       "%llu bytes: a batch comes back to the shelf", (unsigned long long)size);
	end("a batch on the shelf");
}

/* What one shelf collects counts, too. */
static void bound_of_shelves(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 40 * GM_MIB);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	free_small(GM_RETIRE_BATCH / 2);
	TAP_IS(shelf->freed.n, GM_RETIRE_BATCH / 2 - 1, "frees collect on the shelf");
	TAP_IS(shelf->freed.bytes, (GM_RETIRE_BATCH / 2 - 1) * 3072, "with their bytes");
	TAP_OK(fake_valid(pool), "valid");
	uint64_t bytes = shelf->freed.bytes;
	gm_pool_free(pool, fake_alloc(pool, 11 * GM_MIB).base, NULL);
	TAP_OK(shelf->freed.n == 0 && pool->retired == bytes + 3072 + 11 * GM_MIB,
	       "a block beyond a quarter of the bound brings all to the pool");
	TAP_IS(f.recorded, 1, "to go behind one fence");
	gm_pool_free(pool, fake_alloc(pool, 9 * GM_MIB).base, NULL);
	TAP_IS(shelf->freed.bytes, 9 * GM_MIB, "a shorter one does not");
	gm_pool_free(pool, fake_alloc(pool, 2 * GM_MIB).base, NULL);
	TAP_OK(shelf->freed.n == 0 && f.recorded == 2, "nor two that are as much");
	gm_pool_free(pool, fake_alloc(pool, 9 * GM_MIB).base, NULL);
	TAP_OK(shelf->freed.n == 0 && pool->retired > 30 * GM_MIB,
	       "none collect where they would pass the bound");
	end("a bound of shelves");
}

static void *free_some(void *arg)
{
	free_small(10);
	return arg;
}

static void of_another_shelf(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	pthread_t thread;
	free_small(10);
	pthread_create(&thread, NULL, free_some, NULL);
	pthread_join(thread, NULL);
	TAP_IS(pool->retired, 2 * 3072, "of two shelves only the first frees are handed over");
	TAP_OK(fake_valid(pool), "valid");
	TAP_IS(gm_pool_settle(pool), 20 * 3072, "who settles gets all");
	free_small(10);
	pthread_create(&thread, NULL, free_some, NULL);
	pthread_join(thread, NULL);
	TAP_IS(retired(), 20 * 3072, "who counts, too");
	free_small(10);
	TAP_IS(gm_pool_give_back(pool, 0, true), 32 * GM_MIB, "and who gives back");
	free_small(5);
	TAP_IS(gm_pool_context_gone(pool, 1), 0, "what is on a shelf is not alive");
	TAP_OK(pool->retired == 0 && gm_shelf_mine(pool)->freed.n == 0,
	       "and goes with its context");
	TAP_OK(gm_shelf_mine(pool)->freed.most == 0, "of which the shelf takes no more");
	free_small(5);
	TAP_IS(gm_pool_free_behind(pool, fake_alloc(pool, 3000).base, 2, NULL), CUDA_SUCCESS,
	       "a block of another context");
	TAP_OK(pool->retired == 6 * 3072 && gm_shelf_mine(pool)->freed.n == 0,
	       "makes the shelf hand over its own");
	TAP_IS(gm_retired_of(pool, gm_shelf_mine(pool), 1)->n, 5,
	       "to the context that they are of");
	end("shelves");
}

/* The driver serves one thread at a time: the more of them, the fewer fences each. */
static void crew(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	pthread_t thread;
	for (unsigned i = 1; i < GM_RETIRE_CREW; i++) {
		pthread_create(&thread, NULL, free_some, NULL);
		pthread_join(thread, NULL);
	}
	free_small(2);
	TAP_IS(gm_retired_batch(pool), GM_RETIRE_CREW * GM_RETIRE_BATCH,
	       "a batch grows with the shelves that collect");
	free_small(GM_RETIRE_CREW * GM_RETIRE_BATCH - 50);
	TAP_IS(f.recorded, 0, "with its frees behind one fence:");
	free_small(50);
	TAP_IS(f.recorded, 1, "this one");
	TAP_OK(fake_valid(pool), "valid");
	pthread_create(&thread, NULL, free_some, NULL);
	pthread_join(thread, NULL);
	TAP_IS(gm_retired_batch(pool), GM_RETIRE_CREW * GM_RETIRE_BATCH, "up to a bound");
	gm_pool_settle(pool);
	TAP_IS(gm_retired_batch(pool), GM_RETIRE_BATCH, "where none collects it is one shelf's");
	end("a crew");
}

static unsigned stocked;

static void *stock(void *arg)
{
	*(CUdeviceptr *)arg = fake_alloc(f.pool, 3000).base;
	stocked = gm_shelf_mine(f.pool)->n;
	return NULL;
}

/* What a thread freed comes back to it, however much another one needs. */
static void own(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	CUdeviceptr blocks[4 * GM_RETIRE_BATCH];
	struct gm_retired *mine;
	pthread_t thread;
	for (unsigned i = 0; i < 4 * GM_RETIRE_BATCH; i++)
		blocks[i] = fake_alloc(pool, 3000).base;
	for (unsigned i = 0; i < 4 * GM_RETIRE_BATCH; i++)
		gm_pool_free(pool, blocks[i], NULL);
	TAP_OK(f.recorded == 4 && gm_shelf_mine(pool)->n == 0, "four batches are freed");
	f.passed = f.recorded;
	gm_pool_lock(pool);
	mine = gm_retired_of(pool, gm_shelf_mine(pool), 1);
	gm_retired_poll(pool, mine);
	gm_pool_unlock(pool);
	pthread_create(&thread, NULL, stock, &blocks[0]);
	pthread_join(thread, NULL);
	TAP_OK(stocked == 0 && mine->n == 4 * GM_RETIRE_BATCH, "none goes to another thread,");
	blocks[1] = fake_alloc(pool, 3000).base;
	TAP_IS(gm_shelf_mine(pool)->n, gm_retired_batch(pool) - 1,
	       "and a batch to this one at its next need");
	gm_pool_free(pool, blocks[0], NULL);
	gm_pool_free(pool, blocks[1], NULL);
	end("one's own");
}

int main(void)
{
	batch_on_shelf(3000);
	batch_on_shelf(60000);
	batch_on_shelf(3 * GM_MIB);
	bound_of_shelves();
	of_another_shelf();
	crew();
	own();
	return tap_done();
}
