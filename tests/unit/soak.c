/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations on a pool of the simulated driver, compared with a list of the live blocks.
 * Each block carries its id in its first and last bytes, so that overlaps are found. The first half
 * of the operations frees as with GPUMEM_FREE=sync, the second as with defer.
 *
 *   soak [--seed N] [--operations N]
 *
 * The same seed repeats the same operations. `make soak` runs ten million.
 */
#include <stdlib.h>

#include "base/size.h"
#include "pool/pool.h"
#include "sim/sim.h"

#include "../tap.h"

#define BLOCKS 600
#define CONTEXTS 3
#define LOAN_AT ((CUdeviceptr)1 << 45)
#define LOAN (8 * GM_MIB)

static struct gm_driver driver;
static struct gm_pool *pool;
static uint64_t state, now, lent_at;
static struct gm_block live[BLOCKS];
static unsigned n_live;
static uint64_t requested;

static uint64_t below(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 20) % n;
}

/* --- callbacks of the pool --- */

static uint64_t clock_fake(void)
{
	return now;
}

static CUresult fence(void *arg, uint64_t context, bool native, enum gm_fenced *fenced)
{
	(void)arg, (void)context, (void)native;
	*fenced = below(32) ? GM_FENCED_PASSED : GM_FENCED_LATER;
	return CUDA_SUCCESS;
}

static CUresult ask(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return CUDA_SUCCESS;
}

static uint64_t fences;

static CUresult record_fence(void *arg, uint64_t context, CUevent *event)
{
	(void)arg, (void)context;
	if (below(16) == 0)
		return CUDA_ERROR_NOT_READY;
	*event = below(16) ? (CUevent)&fences : NULL;
	fences += *event != NULL;
	return CUDA_SUCCESS;
}

static CUresult passed(void *arg, uint64_t context, CUevent event)
{
	(void)arg, (void)context, (void)event;
	return below(2) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static bool is_idle(void *arg, uint64_t context)
{
	(void)arg, (void)context;
	return below(2);
}

static CUresult wait_for(void *arg, uint64_t context, CUevent event)
{
	(void)arg, (void)context, (void)event;
	return CUDA_SUCCESS;
}

static void drop(void *arg, uint64_t context, CUevent event)
{
	(void)arg, (void)context, (void)event;
	fences--;
}

static const struct gm_fence_ops fences_ops = {.ask = ask,
					       .is_idle = is_idle,
					       .wait = fence,
					       .record = record_fence,
					       .passed = passed,
					       .wait_for = wait_for,
					       .drop = drop};
static const struct gm_free done = {.after = GM_FREE_AFTER_NOTHING};

/* --- blocks --- */

static uint64_t *word(CUdeviceptr at)
{
	return (uint64_t *)(uintptr_t)at;
}

static void sign(const struct gm_block *block)
{
	*word(block->base) = *word(block->base + block->held - 8) = block->id;
}

static bool is_signed(const struct gm_block *block)
{
	return *word(block->base) == block->id && *word(block->base + block->held - 8) == block->id;
}

/* Some sizes recur, as in programs. */
static uint64_t random_size(void)
{
	static const uint64_t often[] = {512, 4096, 100000, 3 * GM_MIB, 20 * GM_MIB};
	return below(3) ? often[below(5)] : 1 + below((uint64_t)1 << (3 + below(22)));
}

static const char *allocate(void)
{
	struct gm_block *block = &live[n_live], found;
	uint64_t size = random_size();
	CUresult result = gm_pool_alloc(pool, size, below(CONTEXTS), block);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return NULL;
	if (result != CUDA_SUCCESS || block->size != size || block->held < size)
		return "a block is not what was asked for";
	if (!gm_pool_find(pool, block->base + below(size), &found) || found.id != block->id)
		return "a block is not found";
	sign(block);
	requested += size;
	n_live++;
	return NULL;
}

static const char *free_one(void)
{
	unsigned i = (unsigned)below(n_live);
	struct gm_block was;
	if (!is_signed(&live[i]))
		return "a block does not hold what was written";
	CUresult result = below(8) ? gm_pool_free(pool, live[i].base, NULL, &was)
				   : gm_pool_free(pool, live[i].base, &done, &was);
	if (result != CUDA_SUCCESS || was.id != live[i].id || was.size != live[i].size)
		return "a live block is not freed";
	if (gm_pool_free(pool, live[i].base, NULL, NULL) != CUDA_ERROR_INVALID_VALUE)
		return "a block is freed twice";
	requested -= was.size;
	live[i] = live[--n_live];
	return NULL;
}

static const char *end_context(void)
{
	uint64_t context = below(CONTEXTS), n = 0;
	for (unsigned i = 0; i < n_live;) {
		if (live[i].context != context) {
			i++;
			continue;
		}
		requested -= live[i].size;
		live[i] = live[--n_live];
		n++;
	}
	return gm_pool_context_gone(pool, context) == n ? NULL : "a context has other blocks";
}

static const char *check(void)
{
	struct gm_pool_stats stats;
	const char *why = NULL;
	if (!gm_pool_is_valid(pool, &why))
		return why;
	gm_pool_stats(pool, &stats);
	if (stats.requested != requested || stats.live_blocks != n_live)
		return "the pool counts other blocks";
	return stats.mapped == stats.handed_out + stats.idle + stats.retired ? NULL
									     : "bytes are missing";
}

/* --- other operations --- */

static const char *lend_or_take_back(void)
{
	if (!lent_at && gm_pool_lend(pool, LOAN_AT, LOAN) == CUDA_SUCCESS)
		lent_at = LOAN_AT;
	else if (lent_at && gm_pool_take_back(pool, lent_at, LOAN) == CUDA_SUCCESS)
		lent_at = 0;
	return NULL;
}

static const char *pin(void)
{
	const struct gm_block *block = &live[below(n_live)];
	CUresult result = gm_pool_pin(pool, block->base, block->size);
	return result == CUDA_SUCCESS ? NULL : "a live block is not pinned";
}

static const char *rare(void)
{
	switch (below(8)) {
	case 0:
		gm_pool_give_back(pool, below(256 * GM_MIB), below(2));
		return NULL;
	case 1:
		gm_pool_drain(pool);
		return NULL;
	case 2:
		now += below(GM_GIB);
		while (gm_pool_trim(pool, now))
			;
		return gm_pool_trim_next(pool) >= now ? NULL : "what is due was not trimmed";
	case 3:
		return lend_or_take_back();
	case 4:
		return n_live ? pin() : NULL;
	case 5:
		return below(8) ? NULL : end_context();
	default:
		return check();
	}
}

static const char *step(uint64_t i)
{
	bool filling = i / 2000 % 2 == 0; /* waves: the pool fills up and empties */
	now++;
	if (below(256) == 0)
		return rare();
	if (n_live < BLOCKS && (n_live == 0 || below(10) < (filling ? 6u : 4u)))
		return allocate();
	return free_one();
}

/* --- */

static bool open_pool(bool defer)
{
	struct gm_pool_config config = {.driver = &driver,
					.limit = UINT64_MAX,
					.fences = &fences_ops,
					.defer = defer,
					.retire = 32 * GM_MIB,
					.retire_ppm = 125000,
					.trim_after = GM_GIB,
					.clock = clock_fake};
	setenv("SIM_MEMORY", "256M", 1);
	setenv("SIM_DEVICES", "1", 1);
	gm_sim_reset();
	CUresult (*init)(unsigned flags) = gm_sim_symbol(NULL, "cuInit");
	return init(0) == CUDA_SUCCESS && !gm_driver_load(&driver, gm_sim_symbol, NULL) &&
	       gm_pool_create(&config, &pool) == CUDA_SUCCESS;
}

static void soak(uint64_t operations, bool defer)
{
	const char *why = NULL;
	const char *name = defer ? "deferred" : "waiting";
	uint64_t i;
	n_live = 0;
	requested = lent_at = 0;
	if (!TAP_OK(open_pool(defer), "%s: a pool on the simulated device", name))
		return;
	for (i = 0; i < operations && !why; i++)
		why = step(i);
	if (!why)
		why = check();
	TAP_OK(!why, "%s: the pool is as it should be", name);
	if (why)
		printf("# operation %llu: %s\n", (unsigned long long)i, why);
	gm_pool_destroy(pool);
	TAP_IS(fences, 0, "%s: no fence is left", name);
	TAP_IS(gm_sim_leaks(true), 0, "%s: no memory leaks", name);
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t value)
{
	for (int i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], name) == 0)
			value = strtoull(argv[i + 1], NULL, 10);
	return value;
}

int main(int argc, char **argv)
{
	uint64_t seed = option(argc, argv, "--seed", 1);
	uint64_t operations = option(argc, argv, "--operations", 20000);
	printf("# seed %llu, %llu operations\n", (unsigned long long)seed,
	       (unsigned long long)operations);
	state = seed;
	now = GM_GIB;
	soak(operations - operations / 2, false);
	soak(operations / 2, true);
	return tap_done();
}
