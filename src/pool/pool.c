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
	gm_freed_open(pool);
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

bool gm_pool_reserves(const struct gm_pool *pool, CUdeviceptr address)
{
	return address - pool->table.base < pool->table.size;
}

bool gm_pool_find(const struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	if (!gm_pool_reserves(pool, address))
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
	const struct gm_block *block;
	uint64_t context; /* whose work may be using it */
	enum gm_fenced fenced;
};

/* A live block is freed, and the GPU may still be using it. What is found to be used no more comes
 * to this thread's shelf. */
static CUresult retire(struct gm_pool *pool, const struct freeing *f)
{
	struct gm_retired *retired = gm_retired_of(pool, f->shelf, f->context);
	if (!retired) {
		set_state(f->piece, GM_LIVE);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	f->piece->next = NULL;
	struct gm_retiring one = {f->piece, f->piece, 1, f->block->held};
	gm_quick_take(&f->shelf->lock);
	gm_shelf_count_freed(pool, f->shelf, f->piece);
	set_state(f->piece, GM_RETIRED);
	gm_retired_note(pool, f->piece);
	gm_freed_hand_over(pool, f->shelf);
	gm_retired_add(pool, retired, &one);
	gm_freed_allow(pool, f->shelf, retired);
	gm_quick_release(&f->shelf->lock);
	gm_freed_sweep(pool);
	if (!gm_retired_due(pool, retired))
		return CUDA_SUCCESS;
	gm_retired_poll(pool, retired);
	gm_retired_restock(pool, f->shelf, f->context);
	gm_retired_poll_others(pool, retired);
	return CUDA_SUCCESS;
}

/* What the shelf does not take, for it is full or the block is pinned, and what cannot be idle yet.
 */
static CUresult free_slowly(struct gm_pool *pool, const struct freeing *f)
{
	CUresult result = CUDA_SUCCESS;
	gm_pool_lock(pool);
	if (!is_mine(f->piece, f->block))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (f->fenced == GM_FENCED_LATER)
		result = retire(pool, f);
	else if (!gm_shelf_put_making_room(pool, f->shelf, f->piece))
		release(pool, f->piece);
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

enum how { RETIRE, AT_ONCE };

/* The live block that begins there; NULL: there is none. */
static struct gm_piece *begins_at(const struct gm_pool *pool, CUdeviceptr address,
				  struct gm_block *block)
{
	if (!gm_pool_reserves(pool, address))
		return NULL;
	struct gm_piece *piece = gm_table_look(&pool->table, address, block);
	block->ordinal = pool->config.ordinal;
	return piece && block->base == address ? piece : NULL;
}

/* What `block` says of `piece` was true a moment ago: of several threads that free it one gets it.
 * `context`: whose work may be using it. */
static CUresult free_block(struct gm_pool *pool, struct gm_piece *piece,
			   const struct gm_block *block, enum how how, uint64_t context)
{
	const struct freeing f = {.shelf = gm_shelf_mine(pool),
				  .piece = piece,
				  .block = block,
				  .context = context,
				  .fenced = how == RETIRE ? GM_FENCED_LATER : GM_FENCED_PASSED};
	bool done = false;
	gm_quick_take(&f.shelf->lock);
	bool mine = gm_piece_claim(piece, block->id);
	if (mine)
		done = how == RETIRE ? gm_freed_put(pool, f.shelf, piece, context)
				     : gm_shelf_put(pool, f.shelf, piece);
	gm_quick_release(&f.shelf->lock);
	if (GM_LIKELY(done))
		return CUDA_SUCCESS;
	return mine ? free_slowly(pool, &f) : CUDA_ERROR_INVALID_VALUE;
}

/* A fence that is asked for after this covers what used so many retired blocks. Acquire: that was
 * submitted before. */
static uint64_t retirements(const struct gm_pool *pool)
{
	return atomic_load_explicit(&pool->retirements, memory_order_acquire);
}

static bool is_idle(const struct gm_pool *pool, uint64_t context)
{
	const struct gm_pool_config *config = &pool->config;
	return config->is_idle && config->is_idle(config->fence_arg, context);
}

static CUresult free_fenced(struct gm_pool *pool, struct gm_piece *piece,
			    const struct gm_block *block, bool passed, uint64_t up_to)
{
	CUresult result = free_block(pool, piece, block, passed ? AT_ONCE : RETIRE, block->context);
	if (passed)
		settle(pool, block->context, up_to);
	return result;
}

/* Wait for the owner context first. On an idle GPU that is a look, which all frees pay for alike:
 * it is not worth a reading of the clock before and after. */
static CUresult wait_and_free(struct gm_pool *pool, struct gm_piece *piece, struct gm_block *block,
			      struct gm_timing call)
{
	enum gm_fenced fenced = GM_FENCED_PASSED;
	uint64_t up_to = retirements(pool);
	CUresult result = CUDA_SUCCESS;
	if (GM_LIKELY(is_idle(pool, block->context))) {
		block->waited = gm_pool_count_fence(pool, call);
	} else {
		block->since = call.start ? call.start : gm_tick();
		result = gm_pool_fence(pool, block->context, true, block->since, &fenced,
				       &block->waited);
	}
	if (result != CUDA_SUCCESS)
		return result;
	return free_fenced(pool, piece, block, fenced == GM_FENCED_PASSED, up_to);
}

/* A block that few others would share a fence with: a look whether the GPU is idle costs less. */
static CUresult look_and_free(struct gm_pool *pool, struct gm_piece *piece,
			      const struct gm_block *block)
{
	uint64_t up_to = retirements(pool);
	return free_fenced(pool, piece, block, is_idle(pool, block->context), up_to);
}

/* The native errors come at once, the waiting later. */
static CUresult ask_and_free(struct gm_pool *pool, struct gm_piece *piece,
			     const struct gm_block *block)
{
	const struct gm_deferral *defer = pool->config.defer;
	CUresult result = CUDA_SUCCESS;
	if (!defer->is_quiet || !defer->is_quiet())
		result = defer->ask(pool->config.fence_arg, block->context);
	if (result != CUDA_SUCCESS)
		return result;
	if (GM_UNLIKELY(gm_freed_is_large(pool, block->held)))
		return look_and_free(pool, piece, block);
	return free_block(pool, piece, block, RETIRE, block->context);
}

CUresult gm_pool_free_since(struct gm_pool *pool, CUdeviceptr address, struct gm_timing call,
			    struct gm_block *out)
{
	struct gm_block own, *block = out ? out : &own;
	CUresult result;
	struct gm_piece *piece = begins_at(pool, address, block);
	if (!piece)
		return CUDA_ERROR_INVALID_VALUE;
	gm_pool_debug_visit(pool);
	block->since = block->waited = 0;
	if (pool->config.defer)
		result = ask_and_free(pool, piece, block);
	else if (pool->config.fence)
		result = wait_and_free(pool, piece, block, call);
	else
		result = free_block(pool, piece, block, AT_ONCE, block->context);
	gm_pool_debug_visit(pool);
	return result;
}

CUresult gm_pool_free_behind(struct gm_pool *pool, CUdeviceptr address, uint64_t context,
			     struct gm_block *out)
{
	struct gm_block own, *block = out ? out : &own;
	struct gm_piece *piece = begins_at(pool, address, block);
	GM_ASSERT(pool->config.defer);
	block->since = block->waited = 0;
	return piece ? free_block(pool, piece, block, RETIRE, context) : CUDA_ERROR_INVALID_VALUE;
}

CUresult gm_pool_free_done(struct gm_pool *pool, CUdeviceptr address, struct gm_block *out)
{
	struct gm_block own, *block = out ? out : &own;
	struct gm_piece *piece = begins_at(pool, address, block);
	block->since = block->waited = 0;
	return piece ? free_block(pool, piece, block, AT_ONCE, block->context)
		     : CUDA_ERROR_INVALID_VALUE;
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
