/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations, compared with a list of the live blocks: blocks do not overlap, are aligned,
 * and are found from their first, last and an inner byte and nowhere else; the figures equal those
 * of the list; the pool is valid after each step.
 */
#include "pool_fake.h"

#define BLOCKS 200
#define STEPS 3000
#define MEMORY (512 * GM_MIB)

static struct gm_block live[BLOCKS];
static unsigned n_live;
static uint64_t last_id;
static uint64_t seed;

static uint64_t next(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 20) % below;
}

/* Mostly small, sometimes large: every order of magnitude is equally likely. */
static uint64_t random_size(void)
{
	return 1 + next((uint64_t)1 << (3 + next(25)));
}

static const char *check_found(const struct gm_pool *pool, const struct gm_block *block)
{
	uint64_t probes[] = {0, block->size - 1, next(block->size), block->held - 1};
	struct gm_block found;
	for (unsigned i = 0; i < 4; i++)
		if (!gm_pool_find(pool, block->base + probes[i], &found) || !found.live ||
		    found.id != block->id || found.base != block->base ||
		    found.size != block->size || found.context != block->context)
			return "a byte of a block does not lead to it";
	for (unsigned i = 0; i < 2; i++) {
		CUdeviceptr outside = i ? block->base - 1 : block->base + block->held;
		if (gm_pool_find(pool, outside, &found) && found.live && found.id == block->id)
			return "a byte outside leads to a block";
	}
	return NULL;
}

static const char *check_new(const struct gm_block *block, uint64_t size)
{
	if (block->size != size || block->held < size || block->base % 512)
		return "a block is not what was asked for";
	if ((size >= 8 * GM_MIB || size % (2 * GM_MIB) == 0) && block->base % (2 * GM_MIB))
		return "a large block is not aligned";
	if (block->id <= last_id)
		return "an id comes twice";
	for (unsigned i = 0; i < n_live; i++)
		if (block->base < live[i].base + live[i].held &&
		    live[i].base < block->base + block->held)
			return "two blocks overlap";
	last_id = block->id;
	return NULL;
}

static const char *check_sums(const struct gm_pool *pool)
{
	uint64_t requested = 0, handed_out = 0;
	struct gm_pool_stats stats = fake_stats(pool);
	for (unsigned i = 0; i < n_live; i++) {
		requested += live[i].size;
		handed_out += live[i].held;
	}
	if (stats.requested != requested || stats.handed_out != handed_out ||
	    stats.live_blocks != n_live)
		return "the pool counts other blocks";
	struct gm_null_totals totals;
	gm_null_totals(&totals);
	if (stats.mapped != totals.mapped || stats.mapped != totals.created)
		return "the driver maps something else";
	return stats.mapped == stats.handed_out + stats.idle ? NULL : "bytes are missing";
}

static const char *allocate(struct gm_pool *pool)
{
	struct gm_block block;
	uint64_t size = random_size();
	CUresult result = gm_pool_alloc(pool, size, next(3), &block);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return fake_stats(pool).idle + MEMORY - fake_stats(pool).mapped < size
			       ? NULL
			       : ""; /* counted by the caller: fragmentation */
	if (result != CUDA_SUCCESS)
		return "a strange error";
	const char *why = check_new(&block, size);
	live[n_live++] = block;
	return why;
}

static const char *free_one(struct gm_pool *pool)
{
	unsigned i = (unsigned)next(n_live);
	struct gm_block was;
	const char *why = check_found(pool, &live[i]);
	if (why)
		return why;
	if (gm_pool_free(pool, live[i].base, NULL, &was) != CUDA_SUCCESS || was.id != live[i].id)
		return "a live block is not freed";
	if (gm_pool_free(pool, live[i].base, NULL, NULL) != CUDA_ERROR_INVALID_VALUE)
		return "a block is freed twice";
	live[i] = live[--n_live];
	return NULL;
}

static const char *step(struct gm_pool *pool, unsigned i, unsigned *refused)
{
	const char *why = NULL;
	bool filling = i / 500 % 2 == 0; /* waves: the pool fills up and empties */
	if (next(200) == 0)
		gm_pool_give_back(pool, next(MEMORY), next(2));
	else if (n_live < BLOCKS && (n_live == 0 || next(10) < (filling ? 7u : 3u)))
		why = allocate(pool);
	else
		why = free_one(pool);
	if (why && !*why) {
		(*refused)++;
		why = NULL;
	}
	const char *invalid = NULL;
	if (!why && !gm_pool_is_valid(pool, &invalid))
		why = invalid;
	if (!why)
		why = check_sums(pool);
	return why;
}

int main(void)
{
	for (uint64_t run = 1; run <= 3; run++) {
		struct gm_pool *pool = fake_pool(MEMORY, UINT64_MAX);
		const char *why = NULL;
		unsigned i, refused = 0;
		seed = run * 977;
		n_live = 0;
		for (i = 0; i < STEPS && !why; i++)
			why = step(pool, i, &refused);
		TAP_OK(!why, "run %d: every step keeps the pool as it should be", (int)run);
		if (why)
			printf("# step %u: %s\n", i, why);
		TAP_OK(refused < STEPS / 20, "run %d: few requests fail while memory is idle",
		       (int)run);
		printf("# refused %u\n", refused);
		for (unsigned k = 0; k < n_live; k++) {
			const char *lost = check_found(pool, &live[k]);
			why = why ? why : lost;
		}
		TAP_OK(!why, "run %d: all blocks are found at the end", (int)run);
		while (n_live && !free_one(pool))
			;
		gm_pool_give_back(pool, 0, true);
		TAP_OK(fake_stats(pool).mapped == 0 && fake_valid(pool),
		       "run %d: all memory can be given back", (int)run);
		fake_end(pool, "random");
	}
	return tap_done();
}
