/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred reuse: what the threads of a shelf collect before the pool knows of it. */
#include "retire_fake.h"

static void batch_on_shelf(uint64_t size)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	CUdeviceptr first[GM_RETIRE_BATCH], second[GM_RETIRE_BATCH];
	uint64_t held = 0;
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++) {
		struct gm_block block = fake_alloc(pool, size);
		first[i] = block.base;
		held += block.held;
		second[i] = fake_alloc(pool, size).base;
	}
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		gm_pool_free(pool, first[i], NULL);
	f.passed = f.recorded;
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		gm_pool_free(pool, second[i], NULL);
	TAP_OK(f.recorded == 2 && gm_shelf_mine(pool)->stock.bytes == held,
	       "%llu bytes: a batch comes back to the shelf", (unsigned long long)size);
	end("a batch on the shelf");
}

/* Sizes that nobody asks for find their places when another one is. */
static void mixed_stock(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	CUdeviceptr blocks[GM_RETIRE_BATCH];
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		blocks[i] = fake_alloc(pool, i % 2 ? 60000 : 3000).base;
	f.passed = UINTPTR_MAX;
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		gm_pool_free(pool, blocks[i], NULL);
	TAP_OK(shelf->stock.first && retired() == 0, "a batch of two sizes comes back, idle");
	TAP_OK(!shelf->stock.first, "and into the extents where somebody counts");
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		blocks[i] = fake_alloc(pool, i % 2 ? 60000 : 3000).base;
	for (unsigned i = 0; i < GM_RETIRE_BATCH; i++)
		gm_pool_free(pool, blocks[i], NULL);
	TAP_OK(shelf->stock.first && shelf->n == 0 && fake_valid(pool), "once more");
	TAP_IS(fake_alloc(pool, 60000).base, blocks[1], "the second one is taken");
	TAP_OK(shelf->n == 1 && fake_valid(pool), "the first one put in its place");
	TAP_IS(fake_alloc(pool, 3000).base, blocks[0], "where it is found");
	fake_alloc(pool, 9000);
	TAP_OK(!shelf->stock.first && shelf->n > 0 && fake_valid(pool),
	       "nobody has the third size: all are in their places");
	gm_pool_context_gone(pool, 1);
	end("two sizes in stock");
}

/* What one shelf collects counts, too. */
static void bound_of_shelves(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 40 * GM_MIB);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	free_small(GM_RETIRE_BATCH / 2);
	TAP_IS(shelf->freed.list.n, GM_RETIRE_BATCH / 2 - 1, "frees collect on the shelf");
	TAP_IS(shelf->freed.list.bytes, (GM_RETIRE_BATCH / 2 - 1) * 3072, "with their bytes");
	TAP_OK(fake_valid(pool), "valid");
	uint64_t bytes = shelf->freed.list.bytes;
	gm_pool_free(pool, fake_alloc(pool, 21 * GM_MIB).base, NULL);
	TAP_OK(shelf->freed.list.n == 0 && pool->retired == bytes + 3072 + 21 * GM_MIB,
	       "a block beyond half of the bound brings all to the pool");
	TAP_IS(f.recorded, 1, "to go behind one fence");
	gm_pool_free(pool, fake_alloc(pool, 9 * GM_MIB).base, NULL);
	TAP_OK(shelf->freed.list.n == 0 && pool->retired > 30 * GM_MIB,
	       "none collect where they would pass the bound");
	gm_pool_settle(pool);
	free_small(1);
	gm_pool_free(pool, fake_alloc(pool, 9 * GM_MIB).base, NULL);
	TAP_IS(shelf->freed.list.bytes, 9 * GM_MIB, "once that has passed they do");
	unsigned recorded = f.recorded;
	gm_pool_free(pool, fake_alloc(pool, 12 * GM_MIB).base, NULL);
	TAP_OK(shelf->freed.list.n == 0 && f.recorded == recorded + 1, "up to half of it together");
	end("a bound of shelves");
}

static void *free_some(void *arg)
{
	free_small(10);
	return arg;
}

/* `n` threads, one after the other: each leaves a shelf that collects. */
static void others_free(unsigned n)
{
	pthread_t thread;
	for (; n; n--) {
		pthread_create(&thread, NULL, free_some, NULL);
		pthread_join(thread, NULL);
	}
}

static void of_another_shelf(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	free_small(10);
	others_free(1);
	TAP_IS(pool->retired, 2 * 3072, "of two shelves only the first frees are handed over");
	TAP_OK(fake_valid(pool), "valid");
	TAP_IS(gm_pool_settle(pool), 20 * 3072, "who settles gets all");
	free_small(10);
	others_free(1);
	TAP_IS(retired(), 20 * 3072, "who counts, too");
	free_small(10);
	TAP_IS(gm_pool_give_back(pool, 0, true), 32 * GM_MIB, "and who gives back");
	free_small(5);
	TAP_IS(gm_pool_context_gone(pool, 1), 0, "what is on a shelf is not alive");
	TAP_OK(pool->retired == 0 && gm_shelf_mine(pool)->freed.list.n == 0,
	       "and goes with its context");
	TAP_OK(gm_shelf_mine(pool)->freed.most == 0, "of which the shelf takes no more");
	free_small(5);
	TAP_IS(gm_pool_free_behind(pool, fake_alloc(pool, 3000).base, 2, NULL), CUDA_SUCCESS,
	       "a block of another context");
	TAP_OK(pool->retired == 6 * 3072 && gm_shelf_mine(pool)->freed.list.n == 0,
	       "makes the shelf hand over its own");
	TAP_IS(gm_retired_of(pool, gm_shelf_mine(pool), 1)->n, 5,
	       "to the context that they are of");
	end("shelves");
}

/* The driver serves one thread at a time: the more of them, the fewer fences each. */
static void crew(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	others_free(GM_RETIRE_CREW - 1);
	free_small(2);
	TAP_IS(gm_retired_batch(pool), GM_RETIRE_CREW * GM_RETIRE_BATCH,
	       "a batch grows with the shelves that collect");
	free_blocks(GM_RETIRE_CREW * GM_RETIRE_BATCH - 50, 3000);
	TAP_IS(f.recorded, 0, "with its frees behind one fence:");
	free_blocks(50, 3000);
	TAP_IS(f.recorded, 1, "this one");
	TAP_OK(fake_valid(pool), "valid");
	others_free(1);
	TAP_IS(gm_retired_batch(pool), GM_RETIRE_CREW * GM_RETIRE_BATCH, "up to a bound");
	gm_pool_settle(pool);
	TAP_IS(gm_retired_batch(pool), GM_RETIRE_BATCH, "where none collects it is one shelf's");
	end("a crew");
}

/* One after the other, of sizes that a shelf takes none of but what is asked for. */
static void free_each(unsigned n, uint64_t size)
{
	while (n--)
		gm_pool_free(f.pool, fake_alloc(f.pool, size).base, NULL);
}

/* Half of it is enough where the shelf is empty. */
static void crew_that_misses(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	others_free(3);
	free_each(2 * GM_RETIRE_BATCH, 100000);
	TAP_IS(f.recorded, 0, "four shelves collect, and one has half a batch");
	CUdeviceptr block = fake_alloc(pool, 100000).base;
	TAP_OK(f.recorded == 1 && f.queries == 1, "the next allocation asks for a fence");
	TAP_IS(gm_shelf_mine(pool)->freed.list.n, 0, "behind all of it");
	free_each(GM_RETIRE_BATCH, 100000);
	TAP_OK(f.recorded == 1 && f.queries > 1,
	       "as long as it is to pass it asks for no other one");
	gm_pool_free(pool, block, NULL);
	end("a crew that misses");
}

/* Together they stay below the bound, whatever the size. */
static void crew_of_large(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 32 * GM_MIB);
	others_free(3);
	CUdeviceptr last = fake_alloc(pool, GM_MIB).base;
	free_blocks(5, GM_MIB);
	TAP_OK(f.recorded == 0 && gm_shelf_mine(pool)->freed.list.bytes == 4 * GM_MIB,
	       "one of four shelves collects its part of half of the bound");
	gm_pool_free(pool, last, NULL);
	TAP_IS(f.recorded, 1, "which is more than its part of what goes behind one fence");
	end("a crew with large blocks");
}

static unsigned stocked;

static void *stock(void *arg)
{
	*(CUdeviceptr *)arg = fake_alloc(f.pool, 3000).base;
	stocked = gm_shelf_mine(f.pool)->n + (gm_shelf_mine(f.pool)->stock.first != NULL);
	return NULL;
}

static void *need_more(void *arg)
{
	*(CUdeviceptr *)arg = fake_alloc(f.pool, 100 * GM_MIB).base;
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
	unsigned queries = f.queries;
	pthread_create(&thread, NULL, need_more, &blocks[2]);
	pthread_join(thread, NULL);
	TAP_OK(f.queries == queries && mine->n == 4 * GM_RETIRE_BATCH,
	       "even if that takes new memory,");
	gm_pool_free(pool, blocks[2], NULL);
	blocks[1] = fake_alloc(pool, 3000).base;
	TAP_IS(gm_shelf_mine(pool)->stock.bytes, (gm_retired_batch(pool) - 1) * 3072,
	       "and a batch to this one at its next need");
	gm_pool_free(pool, blocks[0], NULL);
	gm_pool_free(pool, blocks[1], NULL);
	end("one's own");
}

/* --- a thread that needs memory, and what others use by turns --- */

static uint64_t clock_now;

static uint64_t clock_fake(void)
{
	return clock_now;
}

static uint64_t mapped_by(uint64_t size)
{
	CUdeviceptr block = fake_alloc(f.pool, size).base;
	uint64_t mapped = f.pool->mapped;
	gm_pool_free(f.pool, block, NULL);
	return mapped;
}

static void *alloc_half(void *arg)
{
	*(uint64_t *)arg = mapped_by(GM_MIB / 2);
	return NULL;
}

static void *alloc_more(void *arg)
{
	*(uint64_t *)arg = mapped_by(GM_MIB / 2 + 4096);
	return NULL;
}

/* As another thread. */
static uint64_t mapped_after(void *(*alloc)(void *))
{
	pthread_t thread;
	uint64_t mapped = 0;
	pthread_create(&thread, NULL, alloc, &mapped);
	pthread_join(thread, NULL);
	return mapped;
}

static void by_turns(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	pool->config.clock = clock_fake;
	clock_now = 5000 * GM_SHELF_FRESH;
	f.passed = UINTPTR_MAX;
	free_blocks(GM_RETIRE_BATCH, GM_MIB / 2);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	TAP_OK(shelf->stock.bytes == 32 * GM_MIB && pool->mapped == 32 * GM_MIB,
	       "all that is mapped came back to one thread just now");
	TAP_IS(mapped_after(alloc_half), 64 * GM_MIB, "for another one the pool grows");
	TAP_IS(shelf->stock.bytes, 32 * GM_MIB, "and takes none of it");
	free_blocks(GM_RETIRE_BATCH, 31 * GM_MIB / 64);
	clock_now += GM_SHELF_FRESH;
	uint64_t mapped = pool->mapped;
	fake_alloc(pool, 31 * GM_MIB); /* what else is idle */
	TAP_IS(mapped_after(alloc_more), mapped,
	       "what nobody has used for 20 ms goes to whoever needs it");
	TAP_OK(!shelf->stock.first && fake_valid(pool), "all of it");
	gm_pool_context_gone(pool, 1);
	end("by turns");

	pool = open_pool(32 * GM_MIB, GM_GIB);
	pool->config.clock = clock_fake;
	f.passed = UINTPTR_MAX;
	free_blocks(GM_RETIRE_BATCH, GM_MIB / 2);
	TAP_IS(mapped_after(alloc_more), 32 * GM_MIB,
	       "where the pool cannot grow, it does so at once");
	end("by turns, all of it");
}

static void *alloc_large(void *arg)
{
	*(uint64_t *)arg = mapped_by(4 * GM_MIB);
	return NULL;
}

/* Nor do they lose what is longer than a granule, of which idle chunks are made. */
static void large_by_turns(void)
{
	struct gm_pool *pool = open_pool(4 * GM_GIB, 4 * GM_GIB);
	pool->config.clock = clock_fake;
	clock_now = 5000 * GM_SHELF_FRESH;
	f.passed = UINTPTR_MAX;
	free_blocks(GM_RETIRE_BATCH, 4 * GM_MIB);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	TAP_IS(shelf->stock.bytes, 256 * GM_MIB, "64 large blocks came back to one thread");
	TAP_IS(mapped_after(alloc_large), 260 * GM_MIB, "another one has its own");
	TAP_IS(shelf->stock.bytes, 256 * GM_MIB, "and takes none of them");
	TAP_OK(fake_valid(pool), "valid");
	gm_pool_context_gone(pool, 1);
	end("large blocks by turns");
}

/* The more memory waits for fences, the more the pool grows by. */
static void grows_ahead(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	pool->config.clock = clock_fake;
	for (unsigned i = 0; i < 60; i++)
		gm_pool_free(pool, fake_alloc(pool, 4 * GM_MIB).base, NULL);
	TAP_IS(fake.calls[FAKE_CREATE], 7, "60 blocks that all wait make the pool grow 7 times");
	TAP_IS(pool->mapped, 256 * GM_MIB, "by 1, 1, 2, 4 ... 32 blocks");
	for (unsigned i = 0; i < 30; i++)
		gm_pool_free(pool, fake_alloc(pool, 5 * GM_MIB).base, NULL);
	TAP_OK(pool->mapped <= retired() + GM_POOL_DEFERRED && fake_valid(pool),
	       "for others, by 128 MiB at most");
	f.passed = UINTPTR_MAX;
	gm_pool_settle(pool);
	end("grows ahead");
}

/* A block of which the part of no shelf holds some. */
static void share(void)
{
	struct gm_pool *pool = open_with(GM_GIB, 64 * GM_MIB, &looking);
	CUdeviceptr block = fake_alloc(pool, 5 * GM_MIB).base,
		    large = fake_alloc(pool, 5 * GM_MIB).base;
	gm_pool_free(pool, block, NULL);
	TAP_OK(f.looks == 0 && retired() == 5 * GM_MIB, "one shelf collects 5 MiB of 32");
	others_free(4);
	f.idle = true;
	gm_pool_free(pool, large, NULL);
	TAP_IS(f.looks, 1, "one of four does not: whether the GPU is idle is asked at once");
	TAP_OK(gm_shelf_mine(pool)->freed.list.n == 0 && fake_valid(pool), "and it was");
	end("a share");
}

/* The shelf of another thread that collects. */
static struct gm_shelf *another(struct gm_pool *pool)
{
	struct gm_shelf *shelf = pool->shelves;
	while (shelf == gm_shelf_mine(pool) || !shelf->freed.most)
		shelf++;
	return shelf;
}

static uint64_t retired_but(const struct gm_pool *pool, const struct gm_shelf *a,
			    const struct gm_shelf *b)
{
	uint64_t n = 0;
	for (const struct gm_retired *r = pool->retirees; r; r = r->next)
		n += r->shelf == a || r->shelf == b ? 0 : r->n;
	return n;
}

/* Threads that are gone, or do something else, have no part of what all may collect. */
static void sweep(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 64 * GM_MIB);
	others_free(4);
	f.passed = UINTPTR_MAX;
	free_small(1);
	TAP_IS(pool->n_collecting, 5, "five shelves collect");
	struct gm_shelf *mine = gm_shelf_mine(pool), *active = another(pool);
	for (unsigned i = 0; i < 2 * GM_FREED_TURN; i++) {
		TAP_OK(i > GM_FREED_TURN || pool->n_collecting == 5, "each has its turn");
		active->freed.allowed = pool->n_allowed; /* as if it had handed something over */
		free_small((unsigned)gm_retired_batch(pool));
		if (pool->n_collecting <= 2)
			break;
	}
	free_small(3 * GM_RETIRE_BATCH);
	TAP_OK(pool->n_collecting == 2 && active->freed.most, "then those that do so now");
	TAP_IS(mine->freed.share, 16 * GM_MIB, "which have the others' parts");
	TAP_IS(retired_but(pool, mine, active), 0, "what they had is the pool's again");
	TAP_OK(fake_valid(pool), "valid");
	end("a sweep");
}

static CUdeviceptr blocks_of[2][GM_SHELF_REFILL + 1];

/* Unless its shelf is `other`: there were many threads before it. */
static void *allocate_some(void *other)
{
	for (unsigned i = 0; i < GM_SHELF_REFILL + 1 && gm_shelf_mine(f.pool) != other; i++)
		blocks_of[1][i] = fake_alloc(f.pool, 60000).base;
	return NULL;
}

/* Where several threads free, each has slots side by side. */
static void refill(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	pthread_t thread;
	gm_pool_free(pool, fake_alloc(pool, 64 * GM_MIB).base, NULL); /* what follows is no peak */
	CUdeviceptr first = fake_alloc(pool, 60000).base;
	TAP_IS(shelf->n, 0, "one thread takes what it needs");
	free_small(1);
	others_free(1);
	blocks_of[0][0] = fake_alloc(pool, 60000).base;
	TAP_IS(shelf->n, GM_SHELF_REFILL, "of two each takes more");
	for (blocks_of[1][0] = 0; !blocks_of[1][0];) {
		pthread_create(&thread, NULL, allocate_some, shelf);
		pthread_join(thread, NULL);
	}
	for (unsigned i = 1; i < GM_SHELF_REFILL + 1; i++)
		blocks_of[0][i] = fake_alloc(pool, 60000).base;
	TAP_OK(shelf->n == 0 && fake_valid(pool), "which it finds there");
	unsigned mixed = 0;
	uint64_t slot = gm_slab_slot(gm_slab_class(60000)), each = (GM_SHELF_REFILL + 1) * slot;
	for (unsigned which = 0; which < 2; which++)
		for (unsigned i = 0; i < GM_SHELF_REFILL + 1; i++)
			mixed += blocks_of[which][i] - (first + slot + which * each) >= each;
	TAP_IS(mixed, 0, "neighbours, in the order in which they asked");
	gm_pool_context_gone(pool, 1);
	end("refill");
}

int main(void)
{
	batch_on_shelf(3000);
	batch_on_shelf(60000);
	batch_on_shelf(3 * GM_MIB);
	mixed_stock();
	bound_of_shelves();
	of_another_shelf();
	crew();
	crew_that_misses();
	crew_of_large();
	own();
	by_turns();
	large_by_turns();
	grows_ahead();
	share();
	sweep();
	refill();
	return tap_done();
}
