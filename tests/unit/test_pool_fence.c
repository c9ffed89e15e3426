/* SPDX-License-Identifier: BSD-3-Clause */
/* Frees that wait, that cannot wait now, that fail, that race, and contexts that end. */
#include "pool_fake.h"

#include "log/counters.h"

static struct {
	struct gm_pool *pool;
	CUresult result;
	enum gm_fenced fenced;
	bool native;
	uint64_t context;
	unsigned calls;
	void (*meanwhile)(void);
	CUdeviceptr address; /* for `meanwhile` */
} fence;

static CUresult fence_fake(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg;
	GM_ASSERT(gm_lock_none_held(GM_LOCK_RANK_CAPTURE, GM_LOCK_RANK_COUNT));
	fence.calls++;
	fence.context = context;
	fence.native = native;
	if (fence.meanwhile)
		fence.meanwhile();
	*fenced = fence.fenced;
	return fence.result;
}

static const struct gm_fence_ops waiting = {.wait = fence_fake};

static struct gm_pool *open_pool(uint64_t memory)
{
	struct gm_pool_config config = {
		.driver = &fake_driver, .limit = UINT64_MAX, .fences = &waiting};
	fake_open(memory);
	memset(&fence, 0, sizeof fence);
	gm_pool_create(&config, &fence.pool);
	return fence.pool;
}

static void free_again(void)
{
	struct gm_block found;
	fence.meanwhile = NULL;
	TAP_OK(gm_pool_find(fence.pool, fence.address, &found) && found.live,
	       "a block is alive until its fence has passed");
	TAP_IS(gm_pool_free(fence.pool, fence.address, NULL, NULL), CUDA_SUCCESS,
	       "another thread may free the block first");
	struct gm_block next = fake_alloc(fence.pool, found.size);
	TAP_IS(next.base, found.base, "the memory of a freed block may be in use again");
	TAP_OK(fake_valid(fence.pool), "the pool is valid meanwhile");
}

static void waits(void)
{
	struct gm_pool *pool = open_pool(GM_GIB);
	struct gm_block block = fake_alloc(pool, 5 * GM_MIB), found;
	TAP_IS(fence.calls, 0, "an allocation waits for nothing");
	struct gm_block other = fake_alloc(pool, 3 * GM_MIB);
	TAP_IS(gm_pool_free(pool, other.base, &fake_done, &found), CUDA_SUCCESS,
	       "a block without users is freed");
	TAP_OK(fence.calls == 0 && found.id == other.id && fake_stats(pool).requested == block.size,
	       "a block without users is idle at once, without a wait");
	TAP_IS(gm_pool_free(pool, other.base, &fake_done, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a block without users is freed once");
	fence.meanwhile = free_again;
	fence.address = block.base;
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a free that lost the race fails");
	TAP_OK(gm_pool_find(pool, block.base, &found) && found.live && found.id != block.id,
	       "the next block at the address is not freed");
	fence.calls = 0;
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_SUCCESS,
	       "a free after a lost race succeeds");
	TAP_OK(fence.calls == 1 && fence.native && fence.context == 1,
	       "a free waits for the block's context, on the program's behalf");
	TAP_IS(fake_stats(pool).handed_out, 0, "no block is handed out after the frees");

	block = fake_alloc(pool, 700);
	fence.meanwhile = NULL;
	fence.result = CUDA_ERROR_ILLEGAL_ADDRESS;
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "an error of the fence is the answer");
	TAP_OK(gm_pool_find(pool, block.base, &found) && found.live && found.id == block.id,
	       "a block whose fence failed stays live");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fence.result = CUDA_SUCCESS;
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_SUCCESS,
	       "a block whose fence failed can be freed again");
	fake_end(pool, "waiting");
}

static bool idle;

static bool is_idle_fake(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	GM_ASSERT(gm_lock_none_held(GM_LOCK_RANK_CAPTURE, GM_LOCK_RANK_COUNT));
	return idle;
}

static const struct gm_fence_ops polling = {.is_idle = is_idle_fake, .wait = fence_fake};

static uint64_t count_of(enum gm_counter counter)
{
	return gm_counter_get(0, counter);
}

/* Frees of blocks without users do not wait, and read the clock only if they are timed. */
static void looks(void)
{
	struct gm_pool_config config = {
		.driver = &fake_driver, .limit = UINT64_MAX, .fences = &polling};
	const struct gm_free untimed = {0}, timed = {.call = {gm_tick() - 1000000, 3}};
	struct gm_pool *pool;
	struct gm_block b;
	fake_open(GM_GIB);
	memset(&fence, 0, sizeof fence);
	gm_pool_create(&config, &pool);
	TAP_OK(fake_alloc(pool, 3000).since, "an allocation of new memory reads the clock");
	idle = true;
	uint64_t fences = count_of(GM_C_fences), ns = count_of(GM_C_fence_ns);
	gm_pool_free(pool, fake_alloc(pool, 3000).base, &untimed, &b);
	TAP_OK(!b.since && !b.waited, "a free on an idle GPU that is not timed reads no clock");
	TAP_OK(count_of(GM_C_fences) == fences + 1 && count_of(GM_C_fence_ns) == ns,
	       "a free that is not timed counts as a fence without time");
	b = fake_alloc(pool, 3000);
	TAP_OK(!b.since, "an allocation from a shelf reads no clock");
	gm_pool_free(pool, b.base, &timed, &b);
	TAP_OK(!b.since && b.waited >= timed.call.start + 1000000, "a timed free reads the clock");
	TAP_OK(count_of(GM_C_fence_ns) - ns >= 3 * (uint64_t)900000,
	       "a timed free counts for the untimed ones");
	TAP_IS(fence.calls, 0, "no free on an idle GPU waits");
	idle = false;
	ns = count_of(GM_C_fence_ns);
	gm_pool_free(pool, fake_alloc(pool, 3000).base, &timed, &b);
	TAP_OK(fence.calls == 1 && fence.native, "a free on a busy GPU waits");
	TAP_IS(b.since, timed.call.start, "a timed free counts from its beginning");
	TAP_IS(gm_tick_ns(b.since, b.waited), count_of(GM_C_fence_ns) - ns,
	       "a wait counts for itself alone");
	uint64_t before = gm_tick();
	gm_pool_free(pool, fake_alloc(pool, 3000).base, &untimed, &b);
	TAP_OK(b.since >= before && b.waited >= b.since, "an untimed free counts from its wait on");
	TAP_IS(count_of(GM_C_fences), fences + 4, "all frees count as fences");
	gm_pool_context_gone(pool, 1);
	fake_end(pool, "looking");
}

static void retires(void)
{
	struct gm_pool *pool = open_pool(64 * GM_MIB);
	struct gm_block small = fake_alloc(pool, 700), large = fake_alloc(pool, 40 * GM_MIB);
	struct gm_block found;
	fence.fenced = GM_FENCED_LATER;
	TAP_IS(gm_pool_free(pool, small.base, NULL, NULL), CUDA_SUCCESS,
	       "a free without a fence succeeds");
	TAP_IS(gm_pool_free(pool, large.base, NULL, &found), CUDA_SUCCESS,
	       "a second free without a fence succeeds");
	TAP_IS(found.id, large.id, "frees without a fence return the block");
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_IS(stats.retired, 1024 + 40 * GM_MIB, "frees without a fence retire their blocks");
	TAP_IS(stats.mapped, stats.handed_out + stats.idle + stats.retired,
	       "the sums agree with retired memory");
	TAP_IS(stats.live_blocks, 0, "no retired block is live");
	TAP_OK(gm_pool_find(pool, large.base, &found) && !found.live,
	       "a retired block is not found");
	TAP_IS(gm_pool_free(pool, large.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a retired block is not freed twice");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_IS(gm_pool_give_back(pool, 0, false), 0, "retired memory is not given back");
	TAP_IS(gm_pool_drain(pool), 0, "a drain without a fence settles no block");
	TAP_OK(!fence.native, "a drain asks for a fence on the pool's behalf");
	TAP_OK(!fake_alloc(pool, 40 * GM_MIB).base, "a retired block is not reused");
	fence.fenced = GM_FENCED_PASSED;
	unsigned calls = fence.calls;
	struct gm_block again = fake_alloc(pool, 40 * GM_MIB);
	TAP_OK(again.base, "an allocation at the device's limit waits for retired memory");
	TAP_IS(fence.calls, calls + 1, "one wait covers all blocks of the context");
	TAP_OK(fake_stats(pool).retired == 0 && fake_valid(pool),
	       "no block is retired after the wait");
	fake_end(pool, "retirement");
}

/* Only threads that defer their frees need memory repeatedly before its fences pass. */
static void grows_as_needed(void)
{
	struct gm_pool *pool = open_pool(256 * GM_MIB);
	struct gm_block large = fake_alloc(pool, 40 * GM_MIB);
	fence.fenced = GM_FENCED_LATER;
	gm_pool_free(pool, large.base, NULL, NULL);
	fake_alloc(pool, 4 * GM_MIB);
	TAP_IS(fake_stats(pool).mapped, 44 * GM_MIB,
	       "the pool does not grow for memory that waits for a capture");
	fence.fenced = GM_FENCED_PASSED;
	gm_pool_drain(pool);
	gm_pool_context_gone(pool, 1);
	fake_end(pool, "growth");
}

static void free_one_more(void)
{
	fence.meanwhile = NULL;
	fence.fenced = GM_FENCED_LATER;
	gm_pool_free(fence.pool, fence.address, NULL, NULL);
	fence.fenced = GM_FENCED_PASSED;
}

static void settles_only_older(void)
{
	struct gm_pool *pool = open_pool(GM_GIB);
	struct gm_block a = fake_alloc(pool, GM_MIB), b = fake_alloc(pool, 2 * GM_MIB), c;
	gm_pool_alloc(pool, 3 * GM_MIB, 2, &c);
	fence.fenced = GM_FENCED_LATER;
	gm_pool_free(pool, a.base, NULL, NULL);
	gm_pool_free(pool, c.base, NULL, NULL);
	fence.fenced = GM_FENCED_PASSED;
	fence.meanwhile = free_one_more;
	fence.address = b.base;
	TAP_IS(gm_pool_drain(pool), 4 * GM_MIB, "a fence covers earlier frees");
	TAP_IS(fake_stats(pool).retired, 2 * GM_MIB,
	       "a fence does not cover frees during its record");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_IS(gm_pool_drain(pool), 2 * GM_MIB,
	       "the next fence covers frees during the record of the one before");
	fake_end(pool, "order");
}

static void context_goes(void)
{
	struct gm_pool *pool = fence.pool;
	fence.meanwhile = NULL;
	TAP_IS(gm_pool_context_gone(pool, 1), 1, "the context goes with its one block");
	TAP_IS(fake_alloc(pool, 5 * GM_MIB).base, fence.address, "the freed memory is reused");
}

static void contexts_go(void)
{
	struct gm_pool *pool = open_pool(GM_GIB);
	struct gm_block other, blocks[40];
	for (int i = 0; i < 40; i++)
		blocks[i] = fake_alloc(pool, i % 2 ? 3000 : GM_MIB + (uint64_t)i);
	gm_pool_alloc(pool, 4000, 2, &other);
	fence.fenced = GM_FENCED_LATER;
	for (int i = 0; i < 10; i++)
		gm_pool_free(pool, blocks[i].base, NULL, NULL);
	unsigned calls = fence.calls;
	TAP_IS(gm_pool_context_gone(pool, 1), 30, "30 live blocks go with their context");
	struct gm_pool_stats stats = fake_stats(pool);
	TAP_OK(stats.retired == 0 && stats.live_blocks == 1 && stats.requested == 4000,
	       "10 retired blocks end with their context, not another's block");
	TAP_IS(fence.calls, calls, "the end of a context asks for no fence");
	TAP_OK(fake_valid(pool), "the pool is valid");
	TAP_IS(gm_pool_context_gone(pool, 1), 0, "a context goes once");
	fake_end(pool, "contexts");

	pool = open_pool(GM_GIB);
	struct gm_block block = fake_alloc(pool, 5 * GM_MIB);
	fence.meanwhile = context_goes;
	fence.address = block.base;
	TAP_IS(gm_pool_free(pool, block.base, NULL, NULL), CUDA_ERROR_INVALID_VALUE,
	       "a free that its context overtook frees nothing");
	TAP_IS(fake_stats(pool).live_blocks, 1, "the next block at the address is not freed");
	TAP_OK(fake_valid(pool), "the pool is valid");
	fake_end(pool, "overtaking");
}

int main(void)
{
	waits();
	looks();
	retires();
	grows_as_needed();
	settles_only_older();
	contexts_go();
	return tap_done();
}
