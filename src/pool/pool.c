/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "pool/internal.h"
#include "pool/patience.h"
#include "pool/pin.h"
#include "pool/stats.h"
#include "pool/vacant.h"
#include "pool/valid.h"

#define RANGE_FACTOR 8 /* addresses reserved, in sizes of the device's memory */

/* --- create and destroy --- */

static int device_attribute(const struct gm_pool *pool, CUdevice_attribute attribute)
{
	int value = 0;
	if (pool->driver->cuDeviceGetAttribute(&value, attribute, pool->config.device) !=
	    CUDA_SUCCESS)
		return 0;
	return value;
}

/* CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, which toolkits before 12.8 lack. */
#define ATTRIBUTE_DECOMPRESS ((CUdevice_attribute)136)

/* Query the device's memory and properties. NOT_SUPPORTED: a property that a pool needs is missing.
 */
static CUresult device_query(struct gm_pool *pool)
{
	size_t memory = 0, granularity = 0;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pool->config.device},
	};
	if (!device_attribute(pool, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
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
	pool->small = gm_limbo_small(pool);
	if (device_attribute(pool, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
		pool->extras |= GM_CHUNK_RDMA;
	if (device_attribute(pool, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		pool->extras |= GM_CHUNK_EXPORTABLE;
	if (device_attribute(pool, ATTRIBUTE_DECOMPRESS))
		pool->extras |= GM_CHUNK_DECOMPRESS;
	return CUDA_SUCCESS;
}

static size_t chunk_table_bytes(const struct gm_pool *pool)
{
	return pool->range.size / GM_POOL_GRANULE * sizeof(struct gm_chunk *);
}

static CUresult tables_open(struct gm_pool *pool)
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
	if (!gm_table_open(&pool->table, pool->range.base, pool->range.size) ||
	    !gm_shelves_open(pool))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult gm_pool_create(const struct gm_pool_config *config, struct gm_pool **out)
{
	struct gm_pool *pool = calloc(1, sizeof *pool);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->config = *config;
	pool->trim_after = config->trim_after;
	pool->patience = GM_PATIENCE_TIME / GM_PATIENCE_SHARE;
	pool->driver = config->driver;
	gm_lock_init(&pool->lock, GM_LOCK_RANK_POOL);
	pthread_cond_init(&pool->given_back, NULL);
	gm_extents_open(&pool->extents, &pool->table);
	pool->extents.hot.device = pool->config.ordinal;
	gm_slabs_open(&pool->slabs, &pool->extents, pool->config.defer);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = device_query(pool);
	if (result == CUDA_SUCCESS)
		result = tables_open(pool);
	gm_driver_quiet_end(pool->driver, mode);
	if (result == CUDA_SUCCESS)
		*out = pool;
	else
		gm_pool_destroy(pool);
	return result;
}

static void chunks_end(struct gm_pool *pool, struct gm_chunk *chunks)
{
	for (struct gm_chunk *chunk = chunks, *after; chunk; chunk = after) {
		after = chunk->after;
		if (chunk->vacant)
			gm_vacant_unhost(pool, chunk);
		else if (chunk->handle) { /* else it is away */
			gm_chunk_unmap(pool, chunk);
			gm_chunk_release(pool, chunk);
		}
		free(chunk->run);
		free(chunk);
	}
}

void gm_pool_destroy(struct gm_pool *pool)
{
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	gm_epoch_close(pool);
	gm_stand_in_close(pool);
	gm_aliases_close(pool);
	chunks_end(pool, pool->chunks);
	for (struct gm_loan *loan = pool->loans, *next; loan; loan = next) {
		next = loan->next;
		chunks_end(pool, loan->chunks);
		free(loan);
	}
	gm_pool_lock(pool);
	gm_slabs_close(&pool->slabs);
	gm_pool_unlock(pool);
	gm_extents_close(&pool->extents);
	gm_table_close(&pool->table);
	if (pool->chunk_of)
		munmap(pool->chunk_of, chunk_table_bytes(pool));
	gm_range_close(&pool->range, pool->driver);
	gm_driver_quiet_end(pool->driver, mode);
	gm_array_free(&pool->pins);
	gm_shelves_close(pool);
	pthread_cond_destroy(&pool->given_back);
	gm_lock_destroy(&pool->lock);
	free(pool);
}

/* --- blocks --- */

uint64_t gm_pool_chunk_number(struct gm_pool *pool, CUdeviceptr address)
{
	gm_pool_lock(pool);
	const struct gm_chunk *chunk = gm_chunk_at(pool, address);
	uint64_t number = chunk ? chunk->serial : 0;
	gm_pool_unlock(pool);
	return number;
}

uint64_t gm_pool_now(const struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	if (config->trim_after == UINT64_MAX && !(config->defer && config->clock))
		return 0; /* ages are not needed */
	return config->clock ? config->clock() : gm_clock_coarse_ns();
}

void gm_pool_put_back(struct gm_pool *pool, struct gm_piece *piece)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_pool_put_back_since(pool, piece, gm_pool_now(pool));
}

void gm_pool_put_back_since(struct gm_pool *pool, struct gm_piece *piece, uint64_t since)
{
	CUdeviceptr base = GM_GET(piece->base);
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (piece->pinned)
		gm_pool_unpin(pool, piece);
	gm_chunk_unuse(pool, base, GM_GET(piece->held), since);
	struct gm_extent *extent = gm_table_find(&pool->table, base);
	if (&extent->piece == piece)
		gm_extent_give(&pool->extents, extent);
	else
		gm_slab_give(&pool->slabs, extent, piece);
}

bool gm_pool_reserves(const struct gm_pool *pool, CUdeviceptr address)
{
	return gm_pool_has(pool, address);
}

bool gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	if (!gm_pool_reserves(pool, address))
		return false;
	gm_table_read(&pool->table, address, out);
	out->ordinal = pool->config.ordinal;
	return true;
}

void gm_pool_release(struct gm_pool *pool, struct gm_piece *piece, const struct gm_heat *heat)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_pool_count_freed(pool, GM_GET(piece->size), GM_GET(piece->held));
	piece->stamp = 0;
	if (heat)
		gm_hot_put_back(pool, piece, heat);
	else
		gm_pool_put_back(pool, piece);
}

/* --- all blocks --- */

struct visit {
	bool (*each)(void *arg, struct gm_piece *piece);
	void *arg;
};

static bool extent_visit(void *arg, struct gm_extent *extent)
{
	const struct visit *visit = arg;
	if (GM_GET(extent->piece.state) != GM_SLAB)
		return visit->each(visit->arg, &extent->piece);
	struct gm_slab *slab = GM_GET(extent->slab);
	for (uint32_t i = 0; i < GM_GET(slab->n) && GM_GET(extent->slab) == slab; i++)
		if (!visit->each(visit->arg, &slab->slots[i]))
			return false;
	return true;
}

bool gm_pool_each_piece(const struct gm_pool *pool, bool (*each)(void *arg, struct gm_piece *piece),
			void *arg)
{
	struct visit visit = {each, arg};
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return gm_extent_each(&pool->extents, extent_visit, &visit);
}

struct gone {
	struct gm_pool *pool;
	uint64_t context, n;
};

static bool piece_free_if_owned(void *arg, struct gm_piece *piece)
{
	struct gone *gone = arg;
	if (gm_piece_is_live(piece) && GM_GET(piece->context) == gone->context &&
	    !gm_vacant_in(gone->pool, piece)) {
		gm_pool_release(gone->pool, piece, NULL);
		gone->n++;
	}
	return true;
}

/* A live block of the context with a vacant place, claimed; NULL: there is none. */
static struct gm_piece *vacant_claim(struct gm_pool *pool, uint64_t context)
{
	struct gm_piece *piece = NULL;
	gm_pool_lock(pool);
	gm_shelves_lock(pool);
	for (struct gm_chunk *chunk = pool->chunks; chunk && !piece; chunk = chunk->after) {
		piece = chunk->vacant ? gm_table_live(&pool->table, chunk->base) : NULL;
		if (piece && (GM_GET(piece->context) != context ||
			      !gm_piece_claim(piece, GM_GET(piece->id))))
			piece = NULL;
	}
	gm_shelves_unlock(pool);
	gm_pool_unlock(pool);
	return piece;
}

uint64_t gm_pool_context_gone(struct gm_pool *pool, uint64_t context)
{
	struct gone gone = {pool, context, 0};
	struct gm_piece *piece;
	while (GM_GET(pool->vacant) && (piece = vacant_claim(pool, context)))
		gone.n += gm_vacant_end(pool, piece);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	gm_shelves_lock(pool);
	gm_pool_each_piece(pool, piece_free_if_owned, &gone);
	gm_shelves_unlock(pool);
	gm_counter_add(pool->config.ordinal, GM_C_free_context, gone.n);
	gm_limbo_gone(pool, context);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return gone.n;
}

struct walk {
	void (*each)(void *arg, const struct gm_block *block);
	void *arg;
	unsigned ordinal;
};

static bool piece_walk(void *arg, struct gm_piece *piece)
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
	gm_shelves_lock((struct gm_pool *)pool);
	gm_pool_each_piece(pool, piece_walk, &walk);
	gm_shelves_unlock((struct gm_pool *)pool);
	gm_pool_unlock(pool);
}
