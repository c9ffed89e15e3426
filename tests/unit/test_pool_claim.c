/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block's free is in progress when its context ends. Another thread is handed the memory and
 * frees it again before the first free has taken the pool's lock.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "pool/internal.h"
#include "pool_fake.h"

#define SIZE (64 * GM_MIB)

static struct gm_pool *pool;
static struct gm_block first, second;
static CUresult result; /* of the second free */
static atomic_bool claimed, over;
static pthread_t other;

/* Called once: this thread has claimed a block and is about to take the pool's lock. */
static _Thread_local void (*at_lock)(void);

void __real_gm_lock_take(struct gm_lock *lock);
void __wrap_gm_lock_take(struct gm_lock *lock);

static bool is_claimed(void)
{
	__real_gm_lock_take(&pool->lock);
	const struct gm_extent *extent = gm_table_find(&pool->table, first.base);
	bool claims = extent && GM_GET(extent->piece.state) == GM_FREEING;
	gm_pool_unlock(pool);
	return claims;
}

void __wrap_gm_lock_take(struct gm_lock *lock)
{
	void (*call)(void) = at_lock;
	if (call && lock == &pool->lock && is_claimed()) {
		at_lock = NULL;
		call();
	}
	__real_gm_lock_take(lock);
}

static void let_the_first_end(void)
{
	atomic_store(&claimed, true);
	while (!atomic_load(&over))
		sched_yield();
}

static void *free_second(void *unused)
{
	at_lock = let_the_first_end;
	result = gm_pool_free(pool, second.base, NULL, NULL);
	atomic_store(&claimed, true); /* in any case */
	return unused;
}

/* No shelf takes a pinned block, so that its free needs the pool's lock. */
static struct gm_block take_pinned(void)
{
	struct gm_block block = fake_alloc(pool, SIZE);
	gm_pool_pin(pool, block.base, SIZE);
	return block;
}

static void take_again(void)
{
	gm_pool_context_gone(pool, 1);
	second = take_pinned();
	pthread_create(&other, NULL, free_second, NULL);
	while (!atomic_load(&claimed))
		sched_yield();
}

int main(void)
{
	pool = fake_pool(GM_GIB, UINT64_MAX);
	first = take_pinned();
	at_lock = take_again;
	CUresult own = gm_pool_free(pool, first.base, NULL, NULL);
	atomic_store(&over, true);
	TAP_OK(!at_lock, "a free was under way when the context went");
	pthread_join(other, NULL);
	TAP_OK(second.base == first.base && second.id != first.id,
	       "the memory of an ended context is another block's");
	TAP_IS(own, CUDA_ERROR_INVALID_VALUE, "the first free does not free the other block");
	TAP_IS(result, CUDA_SUCCESS, "the second free frees the other block");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "claimed");
	return tap_done();
}
