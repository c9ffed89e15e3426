/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool on the simulated driver, blocks with distinct contents, and a mover. */
#ifndef GM_TESTS_UNIT_MOVED_H
#define GM_TESTS_UNIT_MOVED_H

#include "base/clock.h"
#include "base/size.h"
#include "context/fence.h"
#include "residency/window.h"

#include "on_sim.h"
#include "pool/internal.h"

#define MIB ((size_t)GM_MIB)
#define SECOND 1000000000u
enum { BLOCKS = 64 };

/* How contents are copied. */
enum way { BY_DRIVER, BY_RING, BY_DMA, BY_FOLDER, WAYS };
static const char *const ways[] = {"by the driver", "by the ring", "by DMA to registered pieces",
				   "into a folder"};

static struct gm_move move;
static struct gm_ring ring;
static struct gm_crew crew;
static struct gm_context *context;
static struct gm_pool *pool;
static struct gm_block blocks[BLOCKS];

static inline struct gm_ring *ring_any(void)
{
	return &ring;
}

/* A folder on a file system that supports files without a name. */
static inline const char *folder_path(void)
{
	const char *path = getenv("TMPDIR");
	return path && *path == '/' ? path : "/tmp";
}

static inline void set_up(enum way way, uint64_t warm)
{
	CUresult ignored;
	bool has_ring = way == BY_RING || way == BY_DMA;
	setenv("SIM_MEMORY", "256M", 1);
	sim_start("13.0", "1");
	sim_set_current(sim_primary(0));
	gm_context_forget_all();
	context = gm_context_current(&sim, &ignored);
	memset(ring.site, 0, sizeof ring.site);
	ring.registrar = NULL;
	move = (struct gm_move){.driver = &sim, .ring = has_ring ? ring_any : NULL};
	move.store.warm = way == BY_FOLDER ? GM_WINDOW : warm;
	move.folder.calls = &gm_folder_system;
	move.folder.path = way == BY_FOLDER ? folder_path() : NULL;
	move.store.pinnable = UINT64_MAX;
	move.store.crew = &crew;
	move.store.threads = way == BY_DMA ? 2 : 0;
	move.store.driver = way == BY_DMA || way == BY_FOLDER ? &sim : NULL;
	struct gm_pool_config config = {.driver = &sim,
					.limit = UINT64_MAX,
					.trim_after = UINT64_MAX,
					.fences = gm_fence_ops(&sim),
					.fence_arg = &sim};
	if (gm_pool_create(&config, &pool) != CUDA_SUCCESS ||
	    (has_ring && !gm_ring_init(&ring, &sim, 2, 2 * MIB))) {
		printf("Bail out! no pool\n");
		exit(1);
	}
	memset(blocks, 0, sizeof blocks);
}

static inline unsigned char *block_bytes(const struct gm_block *b)
{
	return (unsigned char *)(uintptr_t)b->base;
}

static inline bool block_make(unsigned i, size_t size)
{
	if (gm_pool_alloc(pool, size, context->key, &blocks[i]) != CUDA_SUCCESS) {
		blocks[i].size = 0;
		return false;
	}
	for (size_t at = 0; at < size; at += 509)
		block_bytes(&blocks[i])[at] = (unsigned char)(at * 31 + blocks[i].id * 7);
	return true;
}

/* The bytes of the pool in the mover's stores. */
static inline uint64_t stored(void)
{
	return move.store.taken + move.folder.taken;
}

static inline void block_end(unsigned i)
{
	gm_pool_free(pool, blocks[i].base, NULL, NULL);
	blocks[i].size = 0;
}

/* Blocks whose contents differ from those that block_make wrote. */
static inline unsigned blocks_wrong(void)
{
	unsigned wrong = 0;
	for (unsigned i = 0; i < BLOCKS; i++) {
		const struct gm_block *b = &blocks[i];
		bool same = true;
		for (size_t at = 0; at < b->size && same; at += 509)
			same = block_bytes(b)[at] == (unsigned char)(at * 31 + b->id * 7);
		wrong += !same;
	}
	return wrong;
}

static inline void all_end(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (blocks[i].size)
			block_end(i);
	if (ring.slots && gm_ring_take(&ring)) {
		gm_ring_release(&ring);
		gm_ring_leave(&ring);
	}
	gm_pool_destroy(pool);
	gm_store_trim(&move.store);
}

static inline void tear_down(const char *title)
{
	all_end();
	SIM(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000)(0); /* events */
	TAP_IS(gm_sim_leaks(true), 0, "%s: no memory leaks", title);
}

static inline struct gm_pool_stats stats_now(void)
{
	struct gm_pool_stats stats;
	gm_pool_stats(pool, &stats);
	return stats;
}

static inline bool pool_valid(void)
{
	const char *why = "";
	bool valid = gm_pool_is_valid(pool, &why);
	if (!valid)
		printf("# %s\n", why);
	return valid;
}

#endif
