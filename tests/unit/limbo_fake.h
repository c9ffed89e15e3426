/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of deferred reuse: a pool on the fake driver, and fences that pass on the test's
 * command. */
#ifndef GM_TESTS_LIMBO_FAKE_H
#define GM_TESTS_LIMBO_FAKE_H

#include "pool/internal.h"
#include "pool/ladder.h"
#include "pool/stats.h"

#include "pool_fake.h"

/* Fences are numbered from 1. The test sets `passed`, the number of the last one that has
 * passed. */
static struct {
	struct gm_pool *pool;
	uintptr_t recorded, passed, dropped;
	unsigned asks, queries, waits, fences, looks;
	uint64_t context; /* of the last call */
	CUresult answer, record, broken;
	bool none; /* nothing can be running */
	bool idle; /* nothing is running */
	void (*meanwhile)(void);
} f;

static inline void enter(uint64_t context)
{
	GM_ASSERT(gm_lock_none_held(GM_LOCK_RANK_CAPTURE, GM_LOCK_RANK_COUNT));
	f.context = context;
}

static inline void interrupt(void)
{
	void (*act)(void) = f.meanwhile;
	f.meanwhile = NULL;
	if (act)
		act();
}

static inline CUresult ask(void *arg, uint64_t context)
{
	(void)arg;
	enter(context);
	f.asks++;
	return f.answer;
}

static inline CUresult record(void *arg, uint64_t context, CUevent *fence)
{
	(void)arg;
	enter(context);
	*fence = NULL;
	if (f.record == CUDA_SUCCESS && !f.none)
		*fence = (CUevent)++f.recorded;
	interrupt();
	return f.record;
}

static inline CUresult passed(void *arg, uint64_t context, CUevent fence)
{
	(void)arg;
	enter(context);
	f.queries++;
	CUresult result = (uintptr_t)fence <= f.passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	interrupt();
	return f.broken ? f.broken : result;
}

static inline CUresult wait_for(void *arg, uint64_t context, CUevent fence)
{
	(void)arg;
	enter(context);
	f.waits++;
	interrupt();
	if (f.broken == CUDA_SUCCESS && f.passed < (uintptr_t)fence)
		f.passed = (uintptr_t)fence;
	return f.broken;
}

static inline void drop(void *arg, uint64_t context, CUevent fence)
{
	(void)arg;
	(void)fence;
	enter(context);
	f.dropped++;
}

static inline bool is_idle(void *arg, uint64_t context)
{
	(void)arg;
	enter(context);
	f.looks++;
	interrupt();
	return f.idle;
}

/* The fence for frees that cannot record one. */
static inline CUresult fence_fake(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg;
	enter(context);
	GM_ASSERT(!native);
	f.fences++;
	interrupt();
	*fenced = f.record == CUDA_ERROR_NOT_READY ? GM_FENCED_LATER : GM_FENCED_PASSED;
	return CUDA_SUCCESS;
}

static const struct gm_fence_ops polled = {.ask = ask,
					   .wait = fence_fake,
					   .record = record,
					   .passed = passed,
					   .wait_for = wait_for,
					   .drop = drop};
static const struct gm_fence_ops asked_idle = {.ask = ask,
					       .is_idle = is_idle,
					       .wait = fence_fake,
					       .record = record,
					       .passed = passed,
					       .wait_for = wait_for,
					       .drop = drop};
static const struct gm_fence_ops old_driver = {.ask = ask, .wait = fence_fake};

/* A free of a block that work of context 2 may use. */
static const struct gm_free behind = {.after = GM_FREE_AFTER_USERS, .users = 2};

static inline struct gm_pool *open_with(uint64_t memory, uint64_t retire,
					const struct gm_fence_ops *fences)
{
	struct gm_pool_config config = {.driver = &fake_driver,
					.limit = UINT64_MAX,
					.fences = fences,
					.defer = true,
					.retire = retire,
					.retire_ppm = 125000,
					.trim_after = UINT64_MAX};
	fake_open(memory);
	memset(&f, 0, sizeof f);
	gm_pool_create(&config, &f.pool);
	return f.pool;
}

static inline struct gm_pool *open_pool(uint64_t memory, uint64_t retire)
{
	return open_with(memory, retire, &polled);
}

static inline void end(const char *name)
{
	TAP_OK(fake_valid(f.pool), "%s: the pool is valid", name);
	fake_end(f.pool, name);
	TAP_IS(f.dropped, f.recorded, "%s: all fences were given back", name);
}

static inline uint64_t retired(void)
{
	return fake_stats(f.pool).retired;
}

/* Blocks and bytes in the open bag of a shelf. */
static inline struct gm_bag open_bag(const struct gm_shelf *shelf)
{
	return shelf->limbo.open ? *shelf->limbo.open : (struct gm_bag){0};
}

static inline void free_small(unsigned n)
{
	while (n--)
		gm_pool_free(f.pool, fake_alloc(f.pool, 3000).base, NULL, NULL);
}

/* The same, but all blocks are allocated before the first free, so that no allocation searches the
 * freed blocks. */
static inline void free_blocks(unsigned n, uint64_t size)
{
	CUdeviceptr *blocks = calloc(n, sizeof *blocks);
	if (!blocks)
		abort();
	for (unsigned i = 0; i < n; i++)
		blocks[i] = fake_alloc(f.pool, size).base;
	for (unsigned i = 0; i < n; i++)
		gm_pool_free(f.pool, blocks[i], NULL, NULL);
	free(blocks);
}

#endif
