/* SPDX-License-Identifier: BSD-3-Clause */
/* Limbo: blocks that threads collect on a shelf, their return to it, and its share of the bound. */
#include "limbo_fake.h"
#include "pool/patience.h"

/* A pool with a live block so large that the patience rule allows a GiB of retired memory. */
static struct gm_pool *open_beside(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, GM_GIB);
	fake_alloc(pool, 8 * GM_GIB);
	return pool;
}

static void batch_on_shelf(uint64_t size)
{
	struct gm_pool *pool = open_beside();
	CUdeviceptr first[GM_LIMBO_BAG], second[GM_LIMBO_BAG];
	uint64_t held = 0;
	for (unsigned i = 0; i < GM_LIMBO_BAG; i++) {
		struct gm_block block = fake_alloc(pool, size);
		first[i] = block.base;
		held += block.held;
		second[i] = fake_alloc(pool, size).base;
	}
	for (unsigned i = 0; i < GM_LIMBO_BAG; i++)
		gm_pool_free(pool, first[i], NULL, NULL);
	f.passed = f.recorded;
	for (unsigned i = 0; i < GM_LIMBO_BAG; i++)
		gm_pool_free(pool, second[i], NULL, NULL);
	TAP_OK(f.recorded == 2 && gm_shelf_mine(pool)->passed.bytes == held,
	       "%llu bytes: a batch comes back to the shelf", (unsigned long long)size);
	end("a batch on the shelf");
}

/* Passed blocks of other sizes are sorted onto the shelf when a size is requested. */
static void mixed_stock(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	CUdeviceptr blocks[GM_LIMBO_BAG];
	for (unsigned i = 0; i < GM_LIMBO_BAG; i++)
		blocks[i] = fake_alloc(pool, i % 2 ? 60000 : 3000).base;
	f.passed = UINTPTR_MAX;
	for (unsigned i = 0; i < GM_LIMBO_BAG; i++)
		gm_pool_free(pool, blocks[i], NULL, NULL);
	TAP_OK(shelf->passed.first && retired() == 0, "a batch of two sizes comes back, idle");
	TAP_OK(!shelf->passed.first, "blocks return to the extents before a count");
	for (unsigned i = 0; i < GM_LIMBO_BAG; i++)
		blocks[i] = fake_alloc(pool, i % 2 ? 60000 : 3000).base;
	for (unsigned i = 0; i < GM_LIMBO_BAG; i++)
		gm_pool_free(pool, blocks[i], NULL, NULL);
	TAP_OK(shelf->passed.first && shelf->n == 0 && fake_valid(pool),
	       "a second batch of two sizes comes back, idle");
	TAP_IS(fake_alloc(pool, 60000).base, blocks[1], "the second size is allocated");
	TAP_OK(shelf->n == 1 && fake_valid(pool), "the first size is sorted onto the shelf");
	TAP_IS(fake_alloc(pool, 3000).base, blocks[0], "the first size is found on the shelf");
	fake_alloc(pool, 9000);
	TAP_OK(!shelf->passed.first && shelf->n > 0 && fake_valid(pool),
	       "no block has the third size: all are sorted onto the shelf");
	gm_pool_context_gone(pool, 1);
	end("two sizes in stock");
}

/* The open bag of one shelf counts against the bound, too. */
static void bound_of_shelves(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 40 * GM_MIB);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	free_small(GM_LIMBO_BAG / 2);
	TAP_IS(open_bag(shelf).n, GM_LIMBO_BAG / 2, "frees collect in the open bag");
	TAP_IS(open_bag(shelf).bytes, GM_LIMBO_BAG / 2 * 3072,
	       "the open bag has the bytes of the frees");
	TAP_OK(fake_valid(pool), "the pool is valid");
	uint64_t bytes = open_bag(shelf).bytes;
	gm_pool_free(pool, fake_alloc(pool, 21 * GM_MIB).base, NULL, NULL);
	TAP_OK(!shelf->limbo.open && pool->sealed == bytes + 21 * GM_MIB,
	       "a block beyond half of the bound seals the bag");
	TAP_IS(f.recorded, 1, "a sealed bag records one fence");
	gm_pool_free(pool, fake_alloc(pool, 9 * GM_MIB).base, NULL, NULL);
	TAP_OK(pool->full && retired() > 30 * GM_MIB && f.recorded == 1,
	       "a single block waits for another one where half of the bound is sealed");
	gm_pool_free(pool, fake_alloc(pool, 9 * GM_MIB).base, NULL, NULL);
	TAP_OK(!shelf->limbo.open && f.recorded == 2,
	       "a second block seals the bag below its share");
	gm_pool_drain(pool);
	free_small(1);
	gm_pool_free(pool, fake_alloc(pool, 9 * GM_MIB).base, NULL, NULL);
	TAP_IS(open_bag(shelf).bytes, 9 * GM_MIB + 3072,
	       "after the fence has passed blocks collect again");
	unsigned recorded = f.recorded;
	gm_pool_free(pool, fake_alloc(pool, 12 * GM_MIB).base, NULL, NULL);
	TAP_OK(!shelf->limbo.open && f.recorded == recorded + 1,
	       "bags hold up to half of the bound together");
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
	TAP_OK(pool->sealed == 0 && gm_pool_retired(pool) == 20 * 3072,
	       "two shelves have an open bag each");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_IS(gm_pool_drain(pool), 20 * 3072, "a drain gets the blocks of all shelves");
	free_small(10);
	others_free(1);
	TAP_IS(retired(), 20 * 3072, "a count includes the blocks of all shelves");
	free_small(10);
	TAP_IS(gm_pool_give_back(pool, 0, true), 2 * GM_MIB,
	       "a release includes the blocks of all shelves");
	free_small(5);
	TAP_IS(gm_pool_context_gone(pool, 1), 0, "blocks on a shelf are not live");
	TAP_OK(retired() == 0 && !gm_shelf_mine(pool)->limbo.open,
	       "retired blocks end with their context");
	TAP_OK(!gm_shelf_mine(pool)->limbo.epoch, "the shelf has no bag for an ended context");
	free_small(5);
	unsigned recorded = f.recorded;
	TAP_IS(gm_pool_free(pool, fake_alloc(pool, 3000).base, &behind, NULL), CUDA_SUCCESS,
	       "a block of another context is freed");
	TAP_OK(retired() == 6 * 3072 && gm_shelf_mine(pool)->limbo.used == 2 &&
		       open_bag(gm_shelf_mine(pool)).n == 1,
	       "each context has a bag of its own");
	free_small(1);
	TAP_IS(open_bag(gm_shelf_mine(pool)).n, 6, "the bag of the first context stays open");
	TAP_OK(fake_valid(pool) && f.recorded == recorded, "two contexts by turns cost no event");
	end("shelves");
}

/* More contexts than a shelf has bags. */
static void many_contexts(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_block b;
	unsigned refused = 0;
	for (uint64_t context = 1; context <= 2 * GM_LIMBO_BAGS; context++) {
		gm_pool_alloc(pool, 3000, context, &b);
		if (context == GM_LIMBO_BAGS)
			TAP_IS(gm_shelf_mine(pool)->limbo.used, GM_LIMBO_BAGS - 1,
			       "each context gets a bag");
		f.passed = context > GM_LIMBO_BAGS ? UINTPTR_MAX : 0;
		refused += gm_pool_free(pool, b.base, NULL, NULL) != CUDA_SUCCESS;
	}
	TAP_IS(refused, 0, "the shelf polls for the bags of other contexts when it has no more");
	TAP_OK(f.recorded > 0 && fake_valid(pool), "the pool is valid");
	gm_pool_drain(pool);
	f.passed = f.recorded;
	f.fences = 0;
	for (uint64_t context = 1; context <= GM_LIMBO_BAGS + 3; context++) {
		gm_pool_alloc(pool, 3000, context, &b);
		refused += gm_pool_free(pool, b.base, NULL, NULL) != CUDA_SUCCESS;
	}
	TAP_IS(refused, 0, "while no fence passes, a free without a bag succeeds");
	TAP_IS(f.fences, 3, "a free without a bag waits for its context");
	TAP_OK(fake_valid(pool), "the pool is valid");
	gm_pool_alloc(pool, 3000, 1, &b);
	f.record = CUDA_ERROR_NOT_READY;
	const struct gm_free other = {.after = GM_FREE_AFTER_USERS, .users = 999};
	TAP_IS(gm_pool_free(pool, b.base, &other, NULL), CUDA_ERROR_OUT_OF_MEMORY,
	       "a free fails where it cannot wait either");
	f.record = CUDA_SUCCESS;
	TAP_IS(gm_pool_free(pool, b.base, &other, NULL), CUDA_SUCCESS,
	       "a block whose free failed is live");
	gm_pool_drain(pool);
	end("many contexts");
}

/* The driver serves one thread at a time: the more threads, the fewer fences each records. */
static void crew(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	others_free(GM_LIMBO_CREW - 1);
	free_small(2);
	TAP_IS(gm_limbo_bag_size(pool), GM_LIMBO_CREW * GM_LIMBO_BAG,
	       "a batch grows with the shelves that collect");
	free_blocks(GM_LIMBO_CREW * GM_LIMBO_BAG - 50, 3000);
	TAP_IS(f.recorded, 0, "a batch of several shelves records no fence before it is full");
	free_blocks(50, 3000);
	TAP_IS(f.recorded, 1, "the last block of a full batch records one fence");
	TAP_OK(fake_valid(pool), "the pool is valid");
	others_free(1);
	TAP_IS(gm_limbo_bag_size(pool), GM_LIMBO_CREW * GM_LIMBO_BAG,
	       "the size of a batch is bounded");
	gm_pool_drain(pool);
	TAP_IS(gm_limbo_bag_size(pool), GM_LIMBO_BAG,
	       "a batch has one shelf's size when no shelf collects");
	end("a crew");
}

/* Free one block after the other, of a size for which a shelf is never refilled. */
static void free_each(unsigned n, uint64_t size)
{
	while (n--)
		gm_pool_free(f.pool, fake_alloc(f.pool, size).base, NULL, NULL);
}

/* An empty shelf asks for a fence at half of a batch. */
static void crew_that_misses(void)
{
	struct gm_pool *pool = open_beside();
	others_free(3);
	free_each(2 * GM_LIMBO_BAG, 100000);
	TAP_IS(f.recorded, 0, "four shelves collect, and one has half a batch");
	CUdeviceptr block = fake_alloc(pool, 100000).base;
	TAP_OK(f.recorded == 1 && f.queries == 1, "the next allocation asks for a fence");
	TAP_OK(!gm_shelf_mine(pool)->limbo.open,
	       "the fence of an allocation covers the whole open bag");
	free_each(GM_LIMBO_BAG, 100000);
	TAP_OK(f.recorded == 1 && f.queries > 1,
	       "no other fence is recorded while that of an allocation is pending");
	gm_pool_free(pool, block, NULL, NULL);
	end("a crew that misses");
}

/* Together they stay below the bound, whatever the block size. */
static void crew_of_large(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 32 * GM_MIB);
	others_free(3);
	CUdeviceptr last = fake_alloc(pool, GM_MIB).base;
	free_blocks(4, GM_MIB);
	TAP_OK(f.recorded == 0 && open_bag(gm_shelf_mine(pool)).bytes == 4 * GM_MIB,
	       "one of four shelves collects its part of half of the bound");
	gm_pool_free(pool, last, NULL, NULL);
	TAP_IS(f.recorded, 1, "the block exceeds its share of one fence");
	end("a crew with large blocks");
}

static unsigned stocked;

static void *stock(void *arg)
{
	*(CUdeviceptr *)arg = fake_alloc(f.pool, 3000).base;
	stocked = gm_shelf_mine(f.pool)->n + (gm_shelf_mine(f.pool)->passed.first != NULL);
	return NULL;
}

static void *need_more(void *arg)
{
	*(CUdeviceptr *)arg = fake_alloc(f.pool, 100 * GM_MIB).base;
	return NULL;
}

/* Blocks that a thread freed return to its shelf, whatever another thread requests. */
static void own(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	CUdeviceptr blocks[4 * GM_LIMBO_BAG];
	struct gm_limbo *mine = &gm_shelf_mine(pool)->limbo;
	pthread_t thread;
	for (unsigned i = 0; i < 4 * GM_LIMBO_BAG; i++)
		blocks[i] = fake_alloc(pool, 3000).base;
	for (unsigned i = 0; i < 4 * GM_LIMBO_BAG; i++)
		gm_pool_free(pool, blocks[i], NULL, NULL);
	TAP_OK(f.recorded == 4 && gm_shelf_mine(pool)->n == 0, "four batches are freed");
	f.passed = f.recorded;
	pool->epochs->passed = pool->seals;
	pthread_create(&thread, NULL, stock, &blocks[0]);
	pthread_join(thread, NULL);
	TAP_OK(stocked == 0 && mine->sealed_n == 4 * GM_LIMBO_BAG,
	       "another thread gets none of these batches");
	unsigned queries = f.queries;
	pthread_create(&thread, NULL, need_more, &blocks[2]);
	pthread_join(thread, NULL);
	TAP_OK(f.queries == queries && mine->sealed_n == 4 * GM_LIMBO_BAG,
	       "another thread takes new memory instead");
	gm_pool_free(pool, blocks[2], NULL, NULL);
	blocks[1] = fake_alloc(pool, 3000).base;
	TAP_IS(gm_shelf_mine(pool)->passed.bytes, (gm_limbo_bag_size(pool) - 1) * 3072,
	       "a thread gets a batch of its own at its next allocation");
	gm_pool_free(pool, blocks[0], NULL, NULL);
	gm_pool_free(pool, blocks[1], NULL, NULL);
	end("one's own");
}

/* --- a thread that needs memory while other threads take turns --- */

static uint64_t clock_now;

static uint64_t clock_fake(void)
{
	return clock_now;
}

static uint64_t mapped_by(uint64_t size)
{
	CUdeviceptr block = fake_alloc(f.pool, size).base;
	uint64_t mapped = f.pool->mapped;
	gm_pool_free(f.pool, block, NULL, NULL);
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

/* Allocate on another thread. */
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
	free_blocks(GM_LIMBO_BAG, GM_MIB / 2);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	TAP_OK(shelf->passed.bytes == 32 * GM_MIB && pool->mapped == 32 * GM_MIB,
	       "the mapped memory came back to one thread just now");
	TAP_IS(mapped_after(alloc_half), 64 * GM_MIB, "the pool grows for another thread");
	TAP_IS(shelf->passed.bytes, 32 * GM_MIB, "another thread takes no memory from the shelf");
	free_blocks(GM_LIMBO_BAG, 31 * GM_MIB / 64);
	clock_now += GM_SHELF_FRESH;
	uint64_t mapped = pool->mapped;
	fake_alloc(pool, 31 * GM_MIB); /* the remaining idle memory */
	TAP_IS(mapped_after(alloc_more), mapped, "memory unused for 20 ms serves any thread");
	TAP_OK(!shelf->passed.first && fake_valid(pool),
	       "another thread can take all unused memory");
	gm_pool_context_gone(pool, 1);
	end("by turns");

	pool = open_pool(32 * GM_MIB, GM_GIB);
	pool->config.clock = clock_fake;
	f.passed = UINTPTR_MAX;
	free_blocks(GM_LIMBO_BAG, GM_MIB / 2);
	TAP_IS(mapped_after(alloc_more), 32 * GM_MIB,
	       "if the pool cannot grow another thread takes the memory at once");
	end("by turns, all of it");
}

static void *alloc_large(void *arg)
{
	*(uint64_t *)arg = mapped_by(4 * GM_MIB);
	return NULL;
}

/* Blocks longer than a granule, which idle chunks could serve, stay on the shelf, too. */
static void large_by_turns(void)
{
	struct gm_pool *pool = open_beside();
	uint64_t live = gm_pool_live(pool);
	pool->config.clock = clock_fake;
	clock_now = 5000 * GM_SHELF_FRESH;
	f.passed = UINTPTR_MAX;
	free_blocks(GM_LIMBO_BAG, 4 * GM_MIB);
	const struct gm_shelf *shelf = gm_shelf_mine(pool);
	TAP_IS(shelf->passed.bytes, 256 * GM_MIB, "64 large blocks came back to one thread");
	TAP_IS(mapped_after(alloc_large), live + 260 * GM_MIB,
	       "another thread maps its own large block");
	TAP_IS(shelf->passed.bytes, 256 * GM_MIB, "another thread takes none of the large blocks");
	TAP_OK(fake_valid(pool), "the pool is valid");
	gm_pool_context_gone(pool, 1);
	end("large blocks by turns");
}

/* The more memory waits for fences, the more the pool grows by. */
static void grows_ahead(void)
{
	struct gm_pool *pool = open_pool(64 * GM_GIB, GM_GIB);
	pool->config.clock = clock_fake;
	for (unsigned i = 0; i < 60; i++)
		gm_pool_free(pool, fake_alloc(pool, 4 * GM_MIB).base, NULL, NULL);
	TAP_IS(fake.calls[FAKE_CREATE], 7, "60 blocks that all wait make the pool grow 7 times");
	TAP_IS(pool->mapped, 256 * GM_MIB, "the growths are of 1, 1, 2, 4 ... 32 blocks");
	for (unsigned i = 0; i < 30; i++)
		gm_pool_free(pool, fake_alloc(pool, 5 * GM_MIB).base, NULL, NULL);
	TAP_OK(pool->mapped <= retired() + GM_POOL_DEFERRED && fake_valid(pool),
	       "the pool maps at most 128 MiB ahead for other threads");
	f.passed = UINTPTR_MAX;
	gm_pool_drain(pool);
	end("grows ahead");
}

/* A block is compared with its shelf's share, which shrinks as more shelves collect. */
static void share(void)
{
	struct gm_pool *pool = open_with(GM_GIB, 64 * GM_MIB, &asked_idle);
	CUdeviceptr block = fake_alloc(pool, 5 * GM_MIB).base,
		    large = fake_alloc(pool, 5 * GM_MIB).base;
	gm_pool_free(pool, block, NULL, NULL);
	TAP_OK(f.looks == 0 && retired() == 5 * GM_MIB, "one shelf collects 5 MiB of 32");
	others_free(4);
	f.idle = true;
	gm_pool_free(pool, large, NULL, NULL);
	TAP_IS(f.looks, 1, "a free beside four shelves asks at once whether the GPU is idle");
	TAP_OK(open_bag(gm_shelf_mine(pool)).n == 1 && fake_valid(pool),
	       "a block freed on an idle GPU does not stay retired");
	end("a share");
}

/* The shelf of another thread that collects. */
static struct gm_shelf *another(struct gm_pool *pool)
{
	struct gm_shelf *shelf = pool->shelves;
	while (shelf == gm_shelf_mine(pool) || !shelf->limbo.most)
		shelf++;
	return shelf;
}

static uint64_t retired_but(const struct gm_pool *pool, const struct gm_shelf *a,
			    const struct gm_shelf *b)
{
	uint64_t n = 0;
	for (const struct gm_shelf *s = pool->shelves; s < pool->shelves + pool->n_shelves; s++)
		n += s == a || s == b ? 0 : s->retired;
	return n;
}

/* Threads that ended, or do other work, keep no share of the bound. */
static void sweep(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, 64 * GM_MIB);
	others_free(4);
	f.passed = UINTPTR_MAX;
	free_small(1);
	TAP_IS(pool->n_collecting, 5, "five shelves collect at first");
	struct gm_shelf *mine = gm_shelf_mine(pool), *active = another(pool);
	for (unsigned i = 0; i < 2 * GM_LIMBO_TURN; i++) {
		TAP_OK(i > GM_LIMBO_TURN || pool->n_collecting == 5,
		       "shelves drop out only after a full turn");
		active->limbo.turned = pool->seals; /* as if it had sealed a bag */
		free_small((unsigned)gm_limbo_bag_size(pool));
		if (pool->n_collecting <= 2)
			break;
	}
	free_small(3 * GM_LIMBO_BAG);
	TAP_OK(pool->n_collecting == 2 && active->limbo.most,
	       "two active shelves collect after a full turn");
	TAP_IS(mine->limbo.share, 16 * GM_MIB, "active shelves share the bound");
	TAP_IS(retired_but(pool, mine, active), 0,
	       "the memory of shelves that dropped out is the pool's again");
	TAP_OK(fake_valid(pool), "the pool is valid");
	end("a sweep");
}

static CUdeviceptr blocks_of[2][GM_SHELF_REFILL + 1];

/* Stops if its shelf is `other`: many threads before it have used up the shelves. */
static void *allocate_some(void *other)
{
	for (unsigned i = 0; i < GM_SHELF_REFILL + 1 && gm_shelf_mine(f.pool) != other; i++)
		blocks_of[1][i] = fake_alloc(f.pool, 60000).base;
	return NULL;
}

/* Where several threads free, each gets adjacent slots. */
static void refill(void)
{
	struct gm_pool *pool = open_pool(GM_GIB, GM_GIB);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	pthread_t thread;
	gm_pool_free(pool, fake_alloc(pool, 64 * GM_MIB).base, NULL,
		     NULL); /* later blocks do not change the peak */
	CUdeviceptr first = fake_alloc(pool, 60000).base;
	TAP_IS(shelf->n, 0, "a single thread takes only one slot");
	free_small(1);
	others_free(1);
	blocks_of[0][0] = fake_alloc(pool, 60000).base;
	TAP_IS(shelf->n, GM_SHELF_REFILL, "a shelf is refilled while two threads free");
	for (blocks_of[1][0] = 0; !blocks_of[1][0];) {
		pthread_create(&thread, NULL, allocate_some, shelf);
		pthread_join(thread, NULL);
	}
	for (unsigned i = 1; i < GM_SHELF_REFILL + 1; i++)
		blocks_of[0][i] = fake_alloc(pool, 60000).base;
	TAP_OK(shelf->n == 0 && fake_valid(pool), "the other thread finds its slots on its shelf");
	unsigned mixed = 0;
	uint64_t slot = gm_slab_slot(gm_slab_class(60000)), each = (GM_SHELF_REFILL + 1) * slot;
	for (unsigned which = 0; which < 2; which++)
		for (unsigned i = 0; i < GM_SHELF_REFILL + 1; i++)
			mixed += blocks_of[which][i] - (first + slot + which * each) >= each;
	TAP_IS(mixed, 0, "each thread gets adjacent slots, in the order of requests");
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
	many_contexts();
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
