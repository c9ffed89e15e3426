/* SPDX-License-Identifier: BSD-3-Clause */
/* Freed blocks stay unchanged on shelves until their size is requested or all are merged. */
#include "pool/fit.h"
#include "pool/internal.h"
#include "pool_fake.h"

#define THREADS 16
#define TURNS 800

static struct gm_pool *fake_shared; /* shared by the threads of a test */

static uint64_t idle_runs(struct gm_pool *pool)
{
	gm_pool_lock(pool);
	uint64_t n = pool->extents.n_idle;
	gm_pool_unlock(pool);
	return n;
}

static uint32_t shelved(struct gm_pool *pool)
{
	uint32_t n = 0;
	for (unsigned i = 0; i < GM_SHELVES; i++)
		n += pool->shelves[i].n;
	return n;
}

static void exact_hits(void)
{
	static const uint64_t sizes[] = {1,	 512,	     3000,	  65536,       65537,
					 GM_MIB, 5 * GM_MIB, 64 * GM_MIB, 300 * GM_MIB};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
		struct gm_block a = fake_alloc(pool, sizes[i]), b = fake_alloc(pool, sizes[i]);
		struct gm_block found;
		gm_pool_free(pool, a.base, NULL, NULL);
		TAP_IS(shelved(pool), 1, "%llu bytes: a freed block is shelved",
		       (unsigned long long)sizes[i]);
		TAP_OK(gm_pool_find(pool, a.base, &found) && !found.live,
		       "a shelved block is not live");
		TAP_IS(gm_pool_free(pool, a.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
		       "a shelved block is not freed again");
		TAP_OK(fake_valid(pool), "the pool is valid");
		struct gm_block c = fake_alloc(pool, sizes[i]);
		TAP_IS(c.base, a.base, "the next block of the size is the same");
		TAP_OK(c.id > b.id && c.held == a.held, "the reused block has an id of its own");
		TAP_IS(shelved(pool), 0, "the shelf is empty again");
		fake_end(pool, "exact hits");
	}
}

/* A block of fewer requested bytes that holds the same number of bytes. */
static void by_held(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block a = fake_alloc(pool, 3 * GM_MIB), b;
	gm_pool_free(pool, a.base, NULL, NULL);
	b = fake_alloc(pool, 3 * GM_MIB - 1000);
	TAP_OK(b.base == a.base && b.size == 3 * GM_MIB - 1000 && b.held == a.held,
	       "a block is found by the bytes it holds");
	gm_pool_free(pool, b.base, NULL, NULL);
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_IS(stats.requested_peak, 3 * GM_MIB, "the peak is that of the larger one");
	TAP_IS(stats.idle, stats.mapped, "shelved memory is idle");
	fake_end(pool, "by held");
}

/* Fill all idle places but those below 128 KiB, with blocks whose size leaves no alignment gaps. */
static void fill_idle(struct gm_pool *pool)
{
	uint64_t idle;
	while ((idle = fake_stats(pool).largest_idle) >= 128 * GM_KIB) {
		uint64_t size =
			(idle < 7 * GM_MIB ? idle : 7 * GM_MIB) / (64 * GM_KIB) * (64 * GM_KIB);
		fake_alloc(pool, size % GM_POOL_GRANULE ? size : size - 64 * GM_KIB);
	}
}

static void joined_on_demand(void)
{
	struct gm_pool *pool = fake_pool(64 * GM_MIB, UINT64_MAX);
	gm_pool_prewarm(pool, 32 * GM_MIB);
	struct gm_block b[32];
	for (unsigned i = 0; i < 32; i++)
		b[i] = fake_alloc(pool, 100 * GM_KIB + 512 * i); /* each size once */
	fill_idle(pool);
	uint64_t runs = idle_runs(pool);
	gm_pool_free(pool, b[3].base, NULL, NULL);
	gm_pool_free(pool, b[4].base, NULL, NULL);
	TAP_IS(idle_runs(pool), runs, "neighbours on the shelf are not joined");
	TAP_IS(fake_stats(pool).idle_extents, runs + 1,
	       "a reading of idle runs joins neighbours on the shelf");
	TAP_IS(shelved(pool), 0, "a reading of idle runs empties the shelf");
	for (unsigned i = 5; i < 12; i++)
		gm_pool_free(pool, b[i].base, NULL, NULL);
	unsigned maps = fake.calls[FAKE_MAP];
	struct gm_block c = fake_alloc(pool, 500 * GM_KIB);
	TAP_OK(c.base >= b[3].base && c.base < b[12].base && fake.calls[FAKE_MAP] == maps,
	       "a larger request merges shelved blocks, and maps no memory");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "joining");
}

/* Small blocks filled the whole device, and all were freed. */
static void before_growth(void)
{
	struct gm_pool *pool = fake_pool(64 * GM_MIB, UINT64_MAX);
	struct gm_block b[1024];
	unsigned n = 0;
	while (n < 1024 && (b[n] = fake_alloc(pool, 65536)).base)
		n++;
	TAP_IS(n, 1024, "a device is full of blocks of 64 KiB");
	for (unsigned i = 0; i < n; i++)
		gm_pool_free(pool, b[i].base, NULL, NULL);
	TAP_OK(shelved(pool) > 0, "some blocks are shelved");
	TAP_OK(fake_alloc(pool, 64 * GM_MIB).base,
	       "a large block gets the memory of all shelved blocks");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "growth");
}

static void bounds(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	static struct gm_block b[2000];
	uint32_t most = 0;
	for (unsigned i = 0; i < 2000; i++)
		b[i] = fake_alloc(pool, 512 * (1 + i % 200));
	for (unsigned i = 0; i < 2000; i++) {
		gm_pool_free(pool, b[i].base, NULL, NULL);
		most = shelved(pool) > most ? shelved(pool) : most;
	}
	TAP_OK(fake_valid(pool), "2000 frees keep to the bounds of a shelf");
	TAP_OK(most < 2000, "some of 2000 blocks are not shelved (%u at most are)", most);
	struct gm_block large = fake_alloc(pool, 200 * GM_MIB),
			huge = fake_alloc(pool, 300 * GM_MIB);
	gm_pool_free(pool, large.base, NULL, NULL);
	gm_pool_free(pool, huge.base, NULL, NULL);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	TAP_OK(shelf->n_row == 1 && shelf->row[0].held == 300 * GM_MIB,
	       "a large block drives all others from the row");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "bounds");
}

/* Two sizes by turns: a shelf never has the requested one, and shelved blocks would only be in the
 * way. */
static void large_miss(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	fake_alloc(pool, 512 * GM_MIB);
	fake_alloc(pool, 100000); /* maps more than it needs */
	struct gm_block a = fake_alloc(pool, 3 * GM_MIB), b = fake_alloc(pool, 5 * GM_MIB);
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, b.base, NULL, NULL);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	TAP_IS(shelf->n_row, 2, "a shelf has two large blocks in its row");
	fake_alloc(pool, GM_POOL_BIG - 512);
	TAP_IS(shelf->n_row, 2, "large blocks stay when a small size is not found");
	fake_alloc(pool, GM_POOL_BIG);
	TAP_IS(shelf->n_row, 0, "large blocks are joined when a large size is not found");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "a large miss");
}

static void pinned(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block a = fake_alloc(pool, 5 * GM_MIB);
	TAP_IS(gm_pool_pin(pool, a.base, 100), CUDA_SUCCESS, "a block is pinned");
	gm_pool_free(pool, a.base, NULL, NULL);
	TAP_IS(shelved(pool), 0, "a pinned block is not shelved");
	TAP_IS(fake_stats(pool).pinned, 0, "a freed block is not pinned any more");
	struct gm_block b = fake_alloc(pool, 5 * GM_MIB);
	gm_pool_free(pool, b.base, NULL, NULL);
	TAP_IS(shelved(pool), 1, "the next block at its place is shelved");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "pins");
}

static void context_goes(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block a = fake_alloc(pool, GM_MIB), b = fake_alloc(pool, 2000);
	gm_pool_free(pool, a.base, NULL, NULL);
	TAP_IS(gm_pool_context_gone(pool, 1), 1, "a shelved block belongs to no context");
	TAP_OK(fake_alloc(pool, GM_MIB).base == a.base && fake_alloc(pool, 2000).base == b.base,
	       "a shelved block serves the next allocation");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "contexts");
}

/* --- other threads --- */

static void *free_it(void *arg)
{
	const struct gm_block *block = arg;
	return (void *)(uintptr_t)gm_pool_free(fake_shared, block->base, NULL, NULL);
}

static void from_another_shelf(void)
{
	struct gm_pool *pool = fake_shared = fake_pool(GM_GIB, UINT64_MAX);
	pthread_t thread;
	struct gm_block a = fake_alloc(pool, 3 * GM_MIB), b = fake_alloc(pool, 700);
	for (unsigned i = 0; i < 2; i++) {
		void *result;
		pthread_create(&thread, NULL, free_it, i ? &b : &a);
		pthread_join(thread, &result);
		TAP_OK(!result, "another thread frees a block");
	}
	TAP_OK(gm_shelf_mine(pool)->n == 0 && shelved(pool) == 2,
	       "the block is on another thread's shelf");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_IS(fake_alloc(pool, 3 * GM_MIB).base, a.base,
	       "a thread finds a block on another thread's shelf");
	TAP_IS(fake_alloc(pool, 700).base, b.base,
	       "a thread finds a small block on another thread's shelf");
	TAP_IS(shelved(pool), 0, "blocks found are not on the other shelf any more");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "other shelves");
}

/* The most bytes in the row while eight blocks of 3 MiB are freed. */
static uint64_t row_fill(struct gm_pool *pool)
{
	struct gm_block b[8];
	uint64_t most = 0;
	for (unsigned i = 0; i < 8; i++)
		b[i] = fake_alloc(pool, 3 * GM_MIB);
	for (unsigned i = 0; i < 8; i++) {
		gm_pool_free(pool, b[i].base, NULL, NULL);
		uint64_t bytes = gm_shelf_mine(pool)->row_bytes;
		most = bytes > most ? bytes : most;
	}
	return most;
}

static void *shelf_use(void *arg)
{
	gm_shelf_mine(arg);
	return NULL;
}

/* The first thread has the first shelf; each further thread may have any. */
static void bound_of_two(void)
{
	struct gm_pool *pool = fake_pool(GM_GIB, UINT64_MAX);
	pthread_t thread;
	gm_pool_prewarm(pool, 400 * GM_MIB);
	uint64_t part = fake_stats(pool).mapped / GM_SHELF_PART, alone = row_fill(pool);
	TAP_OK(alone <= part && alone > part - 3 * GM_MIB,
	       "the row of one shelf has up to 1/32 of the mapped bytes");
	pthread_create(&thread, NULL, shelf_use, pool);
	pthread_join(thread, NULL);
	unsigned n = gm_shelves_in_use(pool);
	TAP_OK(n > 1, "%u shelves are in use", n);
	TAP_OK(row_fill(pool) <= part / n, "two shelves share the bound of their rows");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "the bound of two shelves");
}

/*
 * The tests know the total of requested bytes, too. A thread adds to the sum before it allocates
 * and subtracts after it freed, so the peak of the pool is not higher than that of the sum. At a
 * meeting all threads keep their blocks, and the pool's peak is not lower.
 */
static atomic_uint errors;
static _Atomic uint64_t sum, sum_peak;
static pthread_barrier_t meeting;

static void add(uint64_t size)
{
	uint64_t now = atomic_fetch_add(&sum, size) + size, peak = sum_peak;
	while (peak < now && !atomic_compare_exchange_weak(&sum_peak, &peak, now))
		;
}

static void *at_the_peak(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	for (unsigned turn = 0; turn < TURNS; turn++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint64_t size = 1 + (seed >> 33) % 3 * 5000;
		struct gm_block block;
		add(size);
		if (gm_pool_alloc(fake_shared, size, 1, &block) != CUDA_SUCCESS)
			errors++;
		if (turn % 200 == 199) {
			pthread_barrier_wait(&meeting);
			struct gm_pool_stats stats = fake_stats(fake_shared);
			if (stats.requested != sum || stats.requested_peak < stats.requested ||
			    stats.requested_peak > sum_peak)
				errors++;
			pthread_barrier_wait(&meeting);
		}
		if (gm_pool_free(fake_shared, block.base, NULL, NULL) != CUDA_SUCCESS)
			errors++;
		atomic_fetch_sub(&sum, size);
	}
	return NULL;
}

static void run(void *(*work)(void *))
{
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void peak(void)
{
	struct gm_pool *pool = fake_shared = fake_pool(GM_GIB, UINT64_MAX);
	pthread_barrier_init(&meeting, NULL, THREADS);
	run(at_the_peak);
	pthread_barrier_destroy(&meeting);
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_IS(errors, 0, "16 threads find the sum of requests and its peak as they are");
	TAP_IS(stats.requested, 0, "all blocks are freed");
	TAP_OK(stats.requested_peak > 0 && stats.requested_peak <= sum_peak,
	       "the peak is a sum that occurred");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "the peak");
}

/* One thread runs at a time, so that the sum is known after each step, whichever shelf counts. */
static unsigned whose;
static struct gm_block held[THREADS][8];
static uint64_t exact, exact_peak, exact_seed = 1;
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next_turn = PTHREAD_COND_INITIALIZER;

static void step(void)
{
	exact_seed = exact_seed * 6364136223846793005u + 1442695040888963407u;
	struct gm_block *block = &held[(exact_seed >> 40) % THREADS][(exact_seed >> 50) % 8];
	uint64_t size = 1 + (exact_seed >> 20) % 100000;
	if (block->base) { /* allocated by any thread */
		exact -= block->size;
		if (gm_pool_free(fake_shared, block->base, NULL, NULL) != CUDA_SUCCESS)
			errors++;
		block->base = 0;
	} else if (gm_pool_alloc(fake_shared, size, 1, block) == CUDA_SUCCESS) {
		exact += size;
		exact_peak = exact > exact_peak ? exact : exact_peak;
	} else {
		errors++;
	}
	if (fake_shared->requested_peak != exact_peak)
		errors++;
}

static void *in_turn(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg - 1;
	for (unsigned i = 0; i < TURNS / 16; i++) {
		pthread_mutex_lock(&turn_lock);
		while (whose != me)
			pthread_cond_wait(&next_turn, &turn_lock);
		for (unsigned k = 0; k < 1 + i % 5; k++)
			step();
		whose = (whose + 1) % THREADS;
		pthread_cond_broadcast(&next_turn);
		pthread_mutex_unlock(&turn_lock);
	}
	return NULL;
}

static void exact_peaks(void)
{
	struct gm_pool *pool = fake_shared = fake_pool(GM_GIB, UINT64_MAX);
	errors = 0;
	run(in_turn);
	TAP_IS(errors, 0, "the peak is exact after every step of 16 threads in turn");
	TAP_OK(exact_peak > 0 && fake_stats(pool).requested == exact,
	       "the sum is exact after every step");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "exact peaks");
}

static void *borrow(void *arg)
{
	struct gm_block *block = arg;
	*block = fake_alloc(fake_shared, 3000);
	return NULL;
}

/* Below the peak, one thread may borrow another thread's allowance. */
static void allowances(void)
{
	struct gm_pool *pool = fake_shared = fake_pool(GM_GIB, UINT64_MAX);
	struct gm_block mine[2] = {fake_alloc(pool, 3000), fake_alloc(pool, 3000)}, theirs;
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	pthread_t thread;
	gm_pool_free(pool, mine[0].base, NULL, NULL);
	gm_pool_free(pool, mine[1].base, NULL, NULL);
	int64_t granted = pool->granted, allowance = shelf->allowance;
	uint64_t counted = pool->requested;
	TAP_OK(granted == allowance && pool->requested_peak == 6000, "two blocks were the peak");
	pthread_create(&thread, NULL, borrow, &theirs);
	pthread_join(thread, NULL);
	TAP_IS(shelf->allowance, allowance - 3000, "another thread borrows the bytes it needs");
	TAP_OK(pool->granted == granted && pool->requested == counted,
	       "borrowing does not update the pool's sums");
	TAP_OK(fake_valid(pool), "the pool is valid");
	mine[0] = fake_alloc(pool, 3000);
	TAP_IS(pool->requested_peak, 6000,
	       "the peak does not change while fewer bytes are requested");
	mine[1] = fake_alloc(pool, 3000);
	TAP_IS(pool->requested_peak, 9000, "a third block raises the peak");
	gm_pool_free(pool, theirs.base, NULL, NULL);
	gm_pool_free(pool, mine[0].base, NULL, NULL);
	gm_pool_free(pool, mine[1].base, NULL, NULL);
	fake_end(pool, "allowances");
}

int main(void)
{
	exact_hits();
	by_held();
	joined_on_demand();
	before_growth();
	bounds();
	large_miss();
	pinned();
	context_goes();
	bound_of_two();
	from_another_shelf();
	peak();
	exact_peaks();
	allowances();
	return tap_done();
}
