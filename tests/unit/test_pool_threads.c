/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sixteen threads allocate, look up and free, each its own blocks and now and then one of another
 * thread. One more thread grants, lends, releases and checks, and holds all locks of the pool until
 * another thread has found one of them taken. No two blocks may overlap: each thread owns the bytes
 * of its blocks in a map of the range. The test runs once with frees that wait and once with
 * deferred frees; then no block may be handed out again before a fence has passed that was recorded
 * after its free.
 */
#include <sched.h>
#include <stdatomic.h>

#include "pool_fake.h"

#define THREADS 16
#define STEPS 750
#define HELD 24
#define MEMORY (256 * GM_MIB)

static struct gm_pool *pool;
static atomic_uint errors, running;
static _Atomic(CUdeviceptr) shared; /* a block that any thread may free */

/* --- fences, numbered as they are recorded --- */

static _Atomic uintptr_t recorded, passed;
static atomic_uint kept; /* fences handed out and not dropped yet */
static atomic_uint looks;

static void pass(uintptr_t fence)
{
	uintptr_t before = passed;
	while (before < fence && !atomic_compare_exchange_weak(&passed, &before, fence))
		;
}

static CUresult fence(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	static atomic_uint n;
	(void)arg, (void)context, (void)native;
	*fenced = atomic_fetch_add(&n, 1) % 16 == 0 ? GM_FENCED_LATER : GM_FENCED_PASSED;
	if (*fenced == GM_FENCED_PASSED)
		pass(++recorded);
	return CUDA_SUCCESS;
}

static CUresult ask(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return CUDA_SUCCESS;
}

static CUresult record_fence(void *arg, uint64_t context, CUevent *event)
{
	(void)arg, (void)context;
	uintptr_t number = ++recorded;
	if (number % 16 == 0)
		return CUDA_ERROR_NOT_READY;
	*event = (CUevent)number;
	kept++;
	return CUDA_SUCCESS;
}

static CUresult wait_for(void *arg, uint64_t context, CUevent event)
{
	(void)arg, (void)context;
	pass((uintptr_t)event);
	return CUDA_SUCCESS;
}

/* Some pass at once, others only after three more are recorded. */
static CUresult has_passed(void *arg, uint64_t context, CUevent event)
{
	uintptr_t number = (uintptr_t)event;
	if (number % 4 && recorded < number + 3)
		return CUDA_ERROR_NOT_READY;
	return wait_for(arg, context, event);
}

static void drop_fence(void *arg, uint64_t context, CUevent event)
{
	(void)arg, (void)context, (void)event;
	kept--;
}

/* One time in four, acts as a fence that passes at once. */
static bool is_idle(void *arg, uint64_t context)
{
	uintptr_t number = ++recorded;
	looks++;
	return number % 4 == 0 && wait_for(arg, context, (CUevent)number) == CUDA_SUCCESS;
}

static const struct gm_fence_ops deferring = {.ask = ask,
					      .is_idle = is_idle,
					      .wait = fence,
					      .record = record_fence,
					      .passed = has_passed,
					      .wait_for = wait_for,
					      .drop = drop_fence};
static const struct gm_fence_ops waiting = {.wait = fence};

/* --- */

/* The owning thread of each 512 bytes; 0: none. The range begins at the first block. */
static _Atomic(unsigned char) owner[8 * MEMORY / 512];
static CUdeviceptr origin;

/* For each 512 bytes, the last fence that was recorded before their last free. */
static _Atomic uintptr_t freed_after[8 * MEMORY / 512];

static void claim(uint64_t at, unsigned char from, unsigned char to)
{
	unsigned char expected = from;
	if (to == 0)
		freed_after[at] = recorded;
	else if (freed_after[at] && passed <= freed_after[at])
		errors++;
	if (!atomic_compare_exchange_strong(&owner[at], &expected, to))
		errors++;
}

/* The first and last 512 bytes of a block, and every 64th between, change their owner. */
static void own(const struct gm_block *block, unsigned char from, unsigned char to)
{
	uint64_t first = (block->base - origin) / 512, last = first + block->held / 512 - 1;
	if (block->base < origin || last >= sizeof owner) {
		errors++;
		return;
	}
	for (uint64_t i = first; i < last; i += 64)
		claim(i, from, to);
	claim(last, from, to);
}

static void check(const struct gm_block *block)
{
	struct gm_block found;
	CUdeviceptr inner = block->base + block->size - 1;
	if (!gm_pool_find(pool, inner, &found) || !found.live || found.id != block->id ||
	    found.base != block->base || found.size != block->size)
		errors++;
}

static void drop(struct gm_block *block, unsigned char me)
{
	struct gm_block was;
	check(block);
	own(block, me, 0);
	if (gm_pool_free(pool, block->base, NULL, &was) != CUDA_SUCCESS || was.id != block->id)
		errors++;
	block->base = 0;
}

/* Two threads may try to free the same block; one succeeds, and the pool stays valid. */
static void pass_on(void)
{
	struct gm_block block = fake_alloc(pool, 777), found;
	CUdeviceptr old = atomic_exchange(&shared, block.base);
	if (old && gm_pool_find(pool, old, &found) && found.live)
		gm_pool_free(pool, old, NULL, NULL);
}

static void *work(void *arg)
{
	unsigned char me = (unsigned char)(uintptr_t)arg;
	struct gm_block held[HELD] = {0};
	uint64_t seed = me * 7919u;
	for (unsigned step = 0; step < STEPS; step++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		struct gm_block *block = &held[(seed >> 40) % HELD];
		uint64_t size = 1 + (seed >> 20) % ((uint64_t)1 << (4 + (seed >> 50) % 19));
		if (block->base) {
			drop(block, me);
		} else if (gm_pool_alloc(pool, size, me % 3u, block) == CUDA_SUCCESS) {
			own(block, 0, me);
			check(block);
		} else {
			block->base = 0;
		}
		if (step % 64 == 0)
			pass_on();
	}
	for (unsigned i = 0; i < HELD; i++)
		if (held[i].base)
			drop(&held[i], me);
	running--;
	return NULL;
}

static unsigned long contended(void)
{
	return gm_lock_contended(GM_LOCK_RANK_POOL) + gm_lock_contended(GM_LOCK_RANK_SHELF);
}

/* Runs under all locks of the pool. */
static void hold(void *arg, const struct gm_block *block)
{
	(void)arg;
	(void)block;
	while (running && contended() == 0)
		;
}

/* Threads also contend by chance, but not reliably. Only debug builds count contention. */
static void stand_in_the_way(void)
{
#ifdef GM_DEBUG
	gm_pool_walk(pool, hold, NULL);
#else
	(void)hold;
#endif
}

static void *disturb(void *arg)
{
	const CUdeviceptr at = (CUdeviceptr)1 << 46;
	(void)arg;
	for (unsigned turn = 0; running; turn++) {
		struct gm_pool_stats stats = fake_stats(pool);
		if (stats.mapped != stats.handed_out + stats.idle + stats.retired ||
		    (turn % 16 == 0 && !fake_valid(pool)))
			errors++;
		if (gm_pool_lend(pool, at, 8 * GM_MIB) == CUDA_SUCCESS &&
		    gm_pool_take_back(pool, at, 8 * GM_MIB) != CUDA_SUCCESS)
			errors++;
		gm_pool_give_back(pool, 0, turn % 2);
		stand_in_the_way();
		if ((turn % 2 ? gm_pool_grant : gm_pool_revoke)(pool, 2) != CUDA_SUCCESS)
			errors++;
	}
	return NULL;
}

static void crowd(const char *name, bool defer)
{
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = MEMORY,
					.fences = defer ? &deferring : &waiting,
					.defer = defer,
					.retire = MEMORY / 32,
					.retire_ppm = 125000};
	pthread_t threads[THREADS], disturber;
	struct gm_block first;
	fake_open(MEMORY);
	TAP_IS(gm_pool_create(&config, &pool), CUDA_SUCCESS, "%s: a pool is made", name);
	first = fake_alloc(pool, 512);
	origin = first.base;
	gm_pool_free(pool, first.base, NULL, NULL);
	running = THREADS;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	pthread_create(&disturber, NULL, disturb, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(disturber, NULL);
	TAP_IS(errors, 0, "%s: 16 threads and a disturber find all as it should be", name);
	TAP_OK(fake_valid(pool), "%s: the pool is valid", name);
	for (uint64_t context = 0; context < 3; context++)
		gm_pool_context_gone(pool, context);
	TAP_IS(fake_stats(pool).handed_out + fake_stats(pool).retired, 0, "%s: no block is in use",
	       name);
	gm_pool_give_back(pool, 0, true);
	TAP_IS(fake_stats(pool).mapped, 0, "%s: all memory is returned", name);
	fake_end(pool, name);
}

/* --- contexts that end while others wait for their work --- */

enum { CONTEXTS = 300 };
static atomic_uint begun;

/* The work of the context ends only after the context has ended and another one has begun. */
static CUresult outlast(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	unsigned before = begun;
	(void)arg, (void)context, (void)native;
	while (running && begun < before + 2)
		sched_yield();
	*fenced = GM_FENCED_PASSED;
	return CUDA_SUCCESS;
}

static const struct gm_fence_ops outlasting = {.ask = ask, .wait = outlast};

static void *begin_and_end_contexts(void *unused)
{
	for (uint64_t context = 1; context <= CONTEXTS; context++) {
		struct gm_block block;
		if (gm_pool_alloc(pool, GM_MIB, context, &block) != CUDA_SUCCESS ||
		    gm_pool_free(pool, block.base, NULL, NULL) != CUDA_SUCCESS)
			errors++;
		begun++;
		gm_pool_context_gone(pool, context);
	}
	running = 0;
	return unused;
}

static void contexts(void)
{
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = MEMORY,
					.fences = &outlasting,
					.defer = true,
					.retire = MEMORY / 32,
					.retire_ppm = 125000};
	pthread_t thread;
	fake_open(MEMORY);
	TAP_IS(gm_pool_create(&config, &pool), CUDA_SUCCESS, "contexts: a pool is made");
	running = 1;
	errors = 0;
	pthread_create(&thread, NULL, begin_and_end_contexts, NULL);
	while (running)
		gm_pool_drain(pool);
	pthread_join(thread, NULL);
	TAP_OK(errors == 0 && fake_valid(pool),
	       "contexts: %d begin and end beside a thread that drains", CONTEXTS);
	TAP_IS(fake_stats(pool).handed_out + fake_stats(pool).retired, 0,
	       "contexts: no block is in use");
	fake_end(pool, "contexts");
}

int main(void)
{
	crowd("waiting", false);
	memset(freed_after, 0, sizeof freed_after);
	atomic_store(&shared, 0);
	crowd("deferred", true);
	contexts();
	TAP_OK(recorded > 0 && kept == 0, "fences were recorded, and all given back");
	TAP_OK(looks > 0, "large blocks were looked at");
#ifdef GM_DEBUG
	TAP_OK(contended() > 0, "threads did contend, %lu times", contended());
#endif
	return tap_done();
}
