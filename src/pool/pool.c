/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "pool/internal.h"

#define RANGE_FACTOR 8 /* addresses reserved, in device memories */

/* --- making and ending a pool --- */

static int attribute(const struct gm_pool *pool, CUdevice_attribute which)
{
	int value = 0;
	if (pool->driver->cuDeviceGetAttribute(&value, which, pool->config.device) != CUDA_SUCCESS)
		return 0;
	return value;
}

/* What the device can do; NOT_SUPPORTED: not enough for a pool. */
static CUresult ask_device(struct gm_pool *pool)
{
	size_t memory = 0, granularity = 0;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pool->config.device},
	};
	if (!attribute(pool, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult result = pool->driver->cuDeviceTotalMem_v2(&memory, pool->config.device);
	if (result == CUDA_SUCCESS)
		result = pool->driver->cuMemGetAllocationGranularity(
			&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (result != CUDA_SUCCESS)
		return result;
	if (memory < GM_POOL_GRANULE || granularity == 0 || GM_POOL_GRANULE % granularity)
		return CUDA_ERROR_NOT_SUPPORTED;
	pool->memory = memory;
	if (attribute(pool, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
		pool->extras |= GM_CHUNK_RDMA;
	if (attribute(pool, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		pool->extras |= GM_CHUNK_EXPORTABLE;
	return CUDA_SUCCESS;
}

static size_t chunk_table_bytes(const struct gm_pool *pool)
{
	return pool->range.size / GM_POOL_GRANULE * sizeof(struct gm_chunk *);
}

static CUresult open_tables(struct gm_pool *pool)
{
	uint64_t memory = gm_round_up(pool->memory, GM_POOL_GRANULE);
	CUresult result = gm_range_open(&pool->range, pool->driver, RANGE_FACTOR * memory, memory);
	if (result != CUDA_SUCCESS)
		return result;
	void *table = mmap(NULL, chunk_table_bytes(pool), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->chunk_of = table;
	if (!gm_table_open(&pool->table, pool->range.base, pool->range.size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult gm_pool_create(const struct gm_pool_config *config, struct gm_pool **out)
{
	struct gm_pool *pool = calloc(1, sizeof *pool);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->config = *config;
	pool->driver = config->driver;
	pool->retired_last = &pool->retired_first;
	gm_lock_init(&pool->lock, GM_RANK_POOL);
	pthread_cond_init(&pool->given_back, NULL);
	gm_extents_open(&pool->extents, &pool->table);
	gm_slabs_open(&pool->slabs, &pool->extents);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = ask_device(pool);
	if (result == CUDA_SUCCESS)
		result = open_tables(pool);
	gm_driver_quiet_end(pool->driver, mode);
	if (result == CUDA_SUCCESS)
		*out = pool;
	else
		gm_pool_destroy(pool);
	return result;
}

static void end_chunks(struct gm_pool *pool, struct gm_chunk *chunks)
{
	for (struct gm_chunk *chunk = chunks, *after; chunk; chunk = after) {
		after = chunk->after;
		gm_chunk_unmap(pool, chunk);
		gm_chunk_release(pool, chunk);
		free(chunk->run);
		free(chunk);
	}
}

void gm_pool_destroy(struct gm_pool *pool)
{
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	end_chunks(pool, pool->chunks);
	for (struct gm_loan *loan = pool->loans, *next; loan; loan = next) {
		next = loan->next;
		end_chunks(pool, loan->chunks);
		free(loan);
	}
	gm_slabs_close(&pool->slabs);
	gm_extents_close(&pool->extents);
	gm_table_close(&pool->table);
	if (pool->chunk_of)
		munmap(pool->chunk_of, chunk_table_bytes(pool));
	gm_range_close(&pool->range, pool->driver);
	gm_driver_quiet_end(pool->driver, mode);
	gm_array_free(&pool->pins);
	pthread_cond_destroy(&pool->given_back);
	gm_lock_destroy(&pool->lock);
	free(pool);
}

/* --- blocks --- */

void gm_pool_put_back(struct gm_pool *pool, struct gm_piece *piece)
{
	CUdeviceptr base = GM_GET(piece->base);
	if (pool->pins.n)
		gm_pool_unpin(pool, piece);
	gm_chunk_unuse(pool, base, GM_GET(piece->held));
	struct gm_extent *extent = gm_table_find(&pool->table, base);
	if (&extent->piece == piece)
		gm_extent_give(&pool->extents, extent);
	else
		gm_slab_give(&pool->slabs, extent, piece);
}

bool gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	if (address - pool->table.base >= pool->table.size)
		return false;
	gm_table_look(&pool->table, address, out);
	out->ordinal = pool->config.ordinal;
	return true;
}

/* A freed block's memory becomes idle. */
static void release(struct gm_pool *pool, struct gm_piece *piece)
{
	gm_pool_count_freed(pool, GM_GET(piece->size), GM_GET(piece->held));
	gm_pool_put_back(pool, piece);
}

static void set_state(struct gm_piece *piece, enum gm_state state)
{
	gm_piece_begin(piece);
	GM_SET(piece->state, state);
	gm_piece_end(piece);
}

/* The live block that begins at `address` and that no other thread is freeing. */
static struct gm_piece *find_to_free(struct gm_pool *pool, CUdeviceptr address)
{
	struct gm_piece *piece = gm_table_live(&pool->table, address);
	if (!piece || GM_GET(piece->base) != address || GM_GET(piece->state) != GM_LIVE)
		return NULL;
	return piece;
}

/* Wait for the owner context of a block that find_to_free found, and act on the answer. The lock is
 * dropped meanwhile. */
static CUresult fence_and_free(struct gm_pool *pool, struct gm_piece *piece,
			       const struct gm_block *block)
{
	enum gm_fenced fenced;
	set_state(piece, GM_FREEING);
	gm_pool_unlock(pool);
	CUresult result = gm_pool_fence(pool, block->context, true, &fenced);
	gm_pool_lock(pool);
	/* The context may have gone, and the block with it. */
	if (GM_GET(piece->state) != GM_FREEING || GM_GET(piece->id) != block->id)
		return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
	if (result != CUDA_SUCCESS) {
		set_state(piece, GM_LIVE);
	} else if (fenced == GM_FENCED_LATER) {
		gm_pool_count_freed(pool, block->size, block->held);
		gm_pool_retire(pool, piece);
	} else {
		release(pool, piece);
	}
	return result;
}

static CUresult free_block(struct gm_pool *pool, CUdeviceptr address, bool fence,
			   struct gm_block *out)
{
	struct gm_block block = {0};
	CUresult result = CUDA_SUCCESS;
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	struct gm_piece *piece = find_to_free(pool, address);
	if (!piece) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		gm_piece_copy(piece, pool->config.ordinal, &block);
		if (fence)
			result = fence_and_free(pool, piece, &block);
		else
			release(pool, piece);
	}
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	if (result == CUDA_SUCCESS && out)
		*out = block;
	return result;
}

CUresult gm_pool_free(struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	return free_block(pool, address, pool->config.fence != NULL, out);
}

CUresult gm_pool_free_done(struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	return free_block(pool, address, false, out);
}

/* --- all blocks --- */

struct visit {
	bool (*each)(void *arg, struct gm_piece *piece);
	void *arg;
};

static bool visit_extent(void *arg, struct gm_extent *extent)
{
	const struct visit *visit = arg;
	if (GM_GET(extent->piece.state) != GM_SLAB)
		return visit->each(visit->arg, &extent->piece);
	struct gm_slab *slab = GM_GET(extent->slab);
	for (uint32_t i = 0; i < slab->n && GM_GET(extent->slab) == slab; i++)
		if (!visit->each(visit->arg, &slab->slots[i]))
			return false;
	return true;
}

bool gm_pool_each_piece(const struct gm_pool *pool, bool (*each)(void *arg, struct gm_piece *piece),
			void *arg)
{
	struct visit visit = {each, arg};
	return gm_extent_each(&pool->extents, visit_extent, &visit);
}

struct gone {
	struct gm_pool *pool;
	uint64_t context, n;
};

static bool free_if_owned(void *arg, struct gm_piece *piece)
{
	struct gone *gone = arg;
	if (gm_piece_is_live(piece) && GM_GET(piece->context) == gone->context) {
		release(gone->pool, piece);
		gone->n++;
	}
	return true;
}

uint64_t gm_pool_context_gone(struct gm_pool *pool, uint64_t context)
{
	struct gone gone = {pool, context, 0};
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	gm_pool_unretire(pool, context);
	gm_pool_each_piece(pool, free_if_owned, &gone);
	gm_counter_add(pool->config.ordinal, GM_C_free_context, gone.n);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return gone.n;
}

struct walk {
	void (*each)(void *arg, const struct gm_block *block);
	void *arg;
	unsigned ordinal;
};

static bool walk_piece(void *arg, struct gm_piece *piece)
{
	const struct walk *walk = arg;
	struct gm_block block;
	if (gm_piece_is_live(piece)) {
		gm_piece_copy(piece, walk->ordinal, &block);
		walk->each(walk->arg, &block);
	}
	return true;
}

void gm_pool_walk(const struct gm_pool *pool, void (*each)(void *arg, const struct gm_block *block),
		  void *arg)
{
	struct walk walk = {each, arg, pool->config.ordinal};
	gm_pool_lock(pool);
	gm_pool_each_piece(pool, walk_piece, &walk);
	gm_pool_unlock(pool);
}
