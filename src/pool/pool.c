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
	pool->driver = config->driver;
	gm_lock_init(&pool->lock, GM_RANK_POOL);
	pthread_cond_init(&pool->given_back, NULL);
	gm_freed_bound(pool);
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
	gm_retired_close(pool);
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
	gm_shelves_close(pool);
	pthread_cond_destroy(&pool->given_back);
	gm_lock_destroy(&pool->lock);
	free(pool);
}

/* --- blocks --- */

void gm_pool_put_back(struct gm_pool *pool, struct gm_piece *piece)
{
	gm_pool_put_back_since(pool, piece, gm_pool_now(pool));
}

void gm_pool_put_back_since(struct gm_pool *pool, struct gm_piece *piece, uint64_t since)
{
	CUdeviceptr base = GM_GET(piece->base);
	if (piece->pinned)
		gm_pool_unpin(pool, piece);
	gm_chunk_unuse(pool, base, GM_GET(piece->held), since);
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

/* Is a claimed block still the caller's? Its context may have gone, and the block with it. Under
 * the pool's lock or a shelf's. */
static bool is_mine(const struct gm_piece *piece, const struct gm_block *block)
{
	return GM_GET(piece->state) == GM_FREEING && GM_GET(piece->id) == block->id;
}

/* A block on its way, and what is known of it. */
struct freeing {
	struct gm_shelf *shelf; /* of this thread */
	struct gm_piece *piece; /* claimed */
	struct gm_block block;
	uint64_t context; /* whose work may be using it */
	CUresult result;  /* not success: it is not to be freed after all */
	enum gm_fenced fenced;
};

static bool shelve(struct gm_pool *pool, const struct freeing *f)
{
	gm_lock_take(&f->shelf->lock);
	bool shelved = is_mine(f->piece, &f->block) && gm_shelf_put(pool, f->shelf, f->piece);
	gm_lock_release(&f->shelf->lock);
	return shelved;
}

/* A live block is freed, and the GPU may still be using it. What is found to be used no more comes
 * to this thread's shelf. */
static CUresult retire(struct gm_pool *pool, const struct freeing *f)
{
	struct gm_retired *retired = gm_retired_of(pool, f->context);
	if (!retired)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gm_pool_count_freed(pool, f->block.size, f->block.held);
	f->piece->next = NULL;
	gm_lock_take(&f->shelf->lock);
	gm_freed_hand_over(pool, f->shelf);
	gm_retired_add(pool, retired, f->piece);
	gm_freed_allow(pool, f->shelf, retired);
	gm_lock_release(&f->shelf->lock);
	if (!gm_retired_due(pool, retired))
		return CUDA_SUCCESS;
	gm_retired_poll(pool, retired);
	gm_shelf_put_idle(pool, f->shelf, gm_retired_take(pool, retired));
	gm_retired_poll_others(pool, retired);
	return CUDA_SUCCESS;
}

/* What the shelf does not take, for it is full or the block is pinned; what cannot be idle yet; and
 * what is not to be freed after all. */
static CUresult free_slowly(struct gm_pool *pool, const struct freeing *f)
{
	CUresult result = f->result;
	gm_pool_lock(pool);
	if (!is_mine(f->piece, &f->block)) {
		result = result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
	} else {
		if (result == CUDA_SUCCESS && f->fenced == GM_FENCED_LATER)
			result = retire(pool, f);
		else if (result == CUDA_SUCCESS &&
			 !gm_shelf_put_making_room(pool, f->shelf, f->piece))
			release(pool, f->piece);
		if (result != CUDA_SUCCESS)
			set_state(f->piece, GM_LIVE);
	}
	gm_pool_unlock(pool);
	return result;
}

/* What was retired before a fence that has passed. */
static void settle(struct gm_pool *pool, uint64_t context, uint64_t up_to)
{
	if (up_to == 0 || GM_GET(pool->retired) == 0)
		return;
	gm_pool_lock(pool);
	gm_retired_passed(pool, context, up_to);
	gm_pool_unlock(pool);
}

/* Wait for the owner context of a claimed block, and act on the answer. */
static CUresult fence_and_free(struct gm_pool *pool, struct freeing *f)
{
	uint64_t up_to = GM_GET(pool->retirements);
	f->result = gm_pool_fence(pool, f->block.context, true, &f->fenced);
	bool passed = f->result == CUDA_SUCCESS && f->fenced == GM_FENCED_PASSED;
	CUresult result = f->result;
	if (!passed || !shelve(pool, f))
		result = free_slowly(pool, f);
	if (passed)
		settle(pool, f->block.context, up_to);
	return result;
}

enum how { WAIT, RETIRE, AT_ONCE };

#define OWNER 0 /* no context has this key */

/* `context`: whose work may be using the block. */
static CUresult free_block(struct gm_pool *pool, CUdeviceptr address, enum how how,
			   uint64_t context, struct gm_block *out)
{
	struct freeing f = {.fenced = how == RETIRE ? GM_FENCED_LATER : GM_FENCED_PASSED};
	bool done = false;
	gm_pool_debug_visit(pool);
	f.shelf = gm_shelf_mine(pool);
	gm_lock_take(&f.shelf->lock);
	f.piece = gm_table_claim(&pool->table, address, &f.block);
	f.context = context == OWNER ? f.block.context : context;
	if (f.piece && how == RETIRE)
		done = gm_freed_put(pool, f.shelf, f.piece, f.context);
	else if (f.piece && how == AT_ONCE)
		done = gm_shelf_put(pool, f.shelf, f.piece);
	gm_lock_release(&f.shelf->lock);
	CUresult result = f.piece ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (f.piece && !done)
		result = how == WAIT ? fence_and_free(pool, &f) : free_slowly(pool, &f);
	gm_pool_debug_visit(pool);
	f.block.ordinal = pool->config.ordinal;
	if (result == CUDA_SUCCESS && out)
		*out = f.block;
	return result;
}

/* The native errors come at once, the waiting later. */
static CUresult ask_natively(const struct gm_pool *pool, CUdeviceptr address)
{
	const struct gm_deferral *defer = pool->config.defer;
	struct gm_block block;
	if (defer->is_quiet && defer->is_quiet())
		return CUDA_SUCCESS;
	if (!gm_pool_find(pool, address, &block) || !block.live || block.base != address)
		return CUDA_ERROR_INVALID_VALUE;
	return defer->ask(pool->config.fence_arg, block.context);
}

CUresult gm_pool_free(struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	if (!pool->config.defer)
		return free_block(pool, address, pool->config.fence ? WAIT : AT_ONCE, OWNER, out);
	CUresult result = ask_natively(pool, address);
	return result == CUDA_SUCCESS ? free_block(pool, address, RETIRE, OWNER, out) : result;
}

CUresult gm_pool_free_behind(struct gm_pool *pool, CUdeviceptr address, uint64_t context,
			     struct gm_block *out)
{
	GM_ASSERT(pool->config.defer);
	return free_block(pool, address, RETIRE, context, out);
}

CUresult gm_pool_free_done(struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	return free_block(pool, address, AT_ONCE, OWNER, out);
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
	gm_shelves_lock(pool);
	gm_freed_hand_over_all(pool);
	gm_pool_each_piece(pool, free_if_owned, &gone);
	gm_shelves_unlock(pool);
	gm_counter_add(pool->config.ordinal, GM_C_free_context, gone.n);
	gm_retired_gone(pool, context);
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
	gm_shelves_lock((struct gm_pool *)pool);
	gm_pool_each_piece(pool, walk_piece, &walk);
	gm_shelves_unlock((struct gm_pool *)pool);
	gm_pool_unlock(pool);
}
