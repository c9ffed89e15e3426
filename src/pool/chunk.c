/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/chunk.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/msg.h"
#include "pool/internal.h"

/* --- driver calls --- */

static CUresult create(struct gm_pool *pool, struct gm_chunk *chunk, unsigned extras,
		       const struct gm_access *access)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pool->config.device},
	};
	if (extras & GM_CHUNK_EXPORTABLE)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.allocFlags.gpuDirectRDMACapable = (extras & GM_CHUNK_RDMA) != 0;
	CUresult result = pool->driver->cuMemCreate(&chunk->handle, chunk->size, &prop, 0);
	if (result != CUDA_SUCCESS || !access)
		return result;
	result = gm_chunk_map(pool, chunk, chunk->base, access);
	if (result != CUDA_SUCCESS)
		gm_chunk_release(pool, chunk);
	return result;
}

/* Containers may forbid what the device allows; under WSL 2 memory for RDMA can be created, but no
 * access be given to it. */
CUresult gm_chunk_create(struct gm_pool *pool, struct gm_chunk *chunk,
			 const struct gm_access *access)
{
	unsigned asked = GM_GET(pool->extras), extras = asked;
	CUresult result = create(pool, chunk, extras, access);
	while (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY && extras) {
		extras = (extras - 1) & asked; /* the next smaller subset */
		result = create(pool, chunk, extras, access);
	}
	if (result == CUDA_SUCCESS && extras != asked)
		atomic_fetch_and_explicit(&pool->extras, extras, memory_order_relaxed);
	return result;
}

CUresult gm_chunk_map(struct gm_pool *pool, struct gm_chunk *chunk, CUdeviceptr at,
		      const struct gm_access *access)
{
	const struct gm_driver *driver = pool->driver;
	CUresult result = driver->cuMemMap(at, chunk->size, 0, chunk->handle, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver->cuMemSetAccess(at, chunk->size, access->list, access->n);
	if (result != CUDA_SUCCESS) {
		driver->cuMemUnmap(at, chunk->size);
		return result;
	}
	chunk->base = at;
	chunk->access = access->generation;
	return CUDA_SUCCESS;
}

CUresult gm_chunk_unmap(struct gm_pool *pool, struct gm_chunk *chunk)
{
	return pool->driver->cuMemUnmap(chunk->base, chunk->size);
}

void gm_chunk_release(struct gm_pool *pool, struct gm_chunk *chunk)
{
	CUresult result = pool->driver->cuMemRelease(chunk->handle);
	chunk->handle = 0;
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED)
		GM_MSG_ONCE(GM_MSG_WARN, "the driver keeps %llu bytes of device %u: %s",
			    (unsigned long long)chunk->size, pool->config.ordinal,
			    gm_driver_error(pool->driver, result));
}

/* --- books --- */

static struct gm_chunk **entry(const struct gm_pool *pool, CUdeviceptr address)
{
	return &pool->chunk_of[(address - pool->range.base) / GM_POOL_GRANULE];
}

struct gm_chunk *gm_chunk_at(const struct gm_pool *pool, CUdeviceptr address)
{
	return address - pool->range.base < pool->range.size ? *entry(pool, address) : NULL;
}

static void enter(struct gm_pool *pool, const struct gm_chunk *chunk, struct gm_chunk *value)
{
	struct gm_chunk **at = entry(pool, chunk->base);
	for (uint64_t i = 0; i < chunk->size / GM_POOL_GRANULE; i++)
		at[i] = value;
}

/* --- the list of wholly idle chunks --- */

/* Mostly the last: only what was on a shelf for a while may have been idle for longer. */
static void enter_idle(struct gm_pool *pool, struct gm_chunk *chunk)
{
	const struct gm_pool_config *config = &pool->config;
	struct gm_chunk *before = pool->idle_last;
	while (before && before->idle_since > chunk->idle_since)
		before = before->idle_before;
	struct gm_chunk *after = before ? before->idle_after : pool->idle_first;
	chunk->idle_before = before;
	chunk->idle_after = after;
	*(before ? &before->idle_after : &pool->idle_first) = chunk;
	*(after ? &after->idle_before : &pool->idle_last) = chunk;
	if (config->idle && pool->idle > config->keep)
		config->idle(config->idle_arg);
}

static void leave_idle(struct gm_pool *pool, struct gm_chunk *chunk)
{
	struct gm_chunk *before = chunk->idle_before, *after = chunk->idle_after;
	*(before ? &before->idle_after : &pool->idle_first) = after;
	*(after ? &after->idle_before : &pool->idle_last) = before;
}

uint64_t gm_pool_now(const struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	if (config->trim_after == UINT64_MAX && !(config->defer && config->clock))
		return 0; /* nobody asks how long something lies idle */
	return config->clock ? config->clock() : gm_clock_coarse_ns();
}

/* --- coming and going --- */

struct gm_chunk *gm_chunk_new(struct gm_pool *pool, uint64_t size)
{
	struct gm_chunk *chunk = calloc(1, sizeof *chunk);
	if (!chunk || !gm_extents_promise(&pool->extents)) {
		free(chunk);
		return NULL;
	}
	chunk->size = size;
	pool->pending += size;
	return chunk;
}

void gm_chunk_publish(struct gm_pool *pool, struct gm_chunk *chunk)
{
	GM_ASSERT(chunk->used == 0 && chunk->run && chunk->run->base == chunk->base);
	pool->pending -= chunk->size;
	chunk->before = NULL;
	chunk->after = pool->chunks;
	if (pool->chunks)
		pool->chunks->before = chunk;
	pool->chunks = chunk;
	enter(pool, chunk, chunk);
	gm_extent_add(&pool->extents, chunk->base, chunk->size);
	gm_pool_count_chunk(pool, chunk->size);
	chunk->idle_since = gm_pool_now(pool);
	enter_idle(pool, chunk);
}

static struct gm_extent *detach(struct gm_pool *pool, struct gm_chunk *chunk,
				struct gm_extent *extent)
{
	extent = gm_extent_remove(&pool->extents, extent, chunk->base, chunk->size);
	enter(pool, chunk, NULL);
	leave_idle(pool, chunk);
	*(chunk->before ? &chunk->before->after : &pool->chunks) = chunk->after;
	if (chunk->after)
		chunk->after->before = chunk->before;
	gm_pool_count_chunk_gone(pool, chunk->size);
	return extent;
}

static bool may_go(const struct gm_chunk *chunk)
{
	return !chunk->pins && !chunk->busy;
}

/* Detach from the chunks that lie in one idle extent: the picked ones, or, if `wanted` is not NULL,
 * as many as it takes. */
static void detach_from(struct gm_pool *pool, struct gm_extent *extent, uint64_t *wanted,
			struct gm_chunk **list)
{
	CUdeviceptr at = GM_GET(extent->piece.base), end = at + GM_GET(extent->piece.held);
	struct gm_chunk *chunk = gm_chunk_at(pool, at);
	if (chunk->base < at)
		at = chunk->base + chunk->size;
	while (extent && at < end && (!wanted || *wanted)) {
		chunk = gm_chunk_at(pool, at);
		at += chunk->size;
		if (at > end || (wanted ? !may_go(chunk) : !chunk->picked))
			continue;
		if (!gm_extents_reserve(&pool->extents, 2))
			return;
		extent = detach(pool, chunk, extent);
		gm_extents_promise(&pool->extents);
		if (wanted)
			*wanted -= chunk->size < *wanted ? chunk->size : *wanted;
		chunk->after = *list;
		*list = chunk;
	}
}

static struct gm_chunk *detach_all(struct gm_pool *pool, uint64_t *wanted)
{
	struct gm_chunk *list = NULL;
	gm_shelves_empty(pool);
	gm_slabs_flush(&pool->slabs);
	struct gm_extent *idle = gm_extent_list_idle(&pool->extents, GM_POOL_GRANULE);
	while (idle && (!wanted || *wanted)) {
		struct gm_piece *next = idle->piece.next; /* idle is cut to pieces */
		detach_from(pool, idle, wanted, &list);
		idle = (struct gm_extent *)next;
	}
	return list;
}

struct gm_chunk *gm_chunks_detach(struct gm_pool *pool, uint64_t bytes)
{
	return detach_all(pool, &bytes);
}

struct gm_chunk *gm_chunks_detach_picked(struct gm_pool *pool)
{
	struct gm_chunk *list = detach_all(pool, NULL);
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after)
		chunk->picked = false; /* what host memory did not suffice for */
	for (struct gm_chunk *chunk = list; chunk; chunk = chunk->after)
		chunk->picked = false;
	return list;
}

/* The largest chunk that may be picked; none is larger than `most`, or in the idle extent that ends
 * at `apart`. */
static struct gm_chunk *largest(const struct gm_pool *pool, uint64_t most, CUdeviceptr apart)
{
	struct gm_chunk *best = NULL;
	const struct gm_extent *tail = apart ? gm_table_ends_at(&pool->table, apart) : NULL;
	CUdeviceptr from = tail ? GM_GET(tail->piece.base) : 0;
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after) {
		if (chunk->picked || !may_go(chunk) || chunk->size > most ||
		    (chunk->base >= from && chunk->base < apart))
			continue;
		if (!best || chunk->size > best->size)
			best = chunk;
		if (best->size == most)
			break;
	}
	return best;
}

bool gm_chunks_any(const struct gm_pool *pool, uint64_t most, CUdeviceptr apart)
{
	return largest(pool, most, apart) != NULL;
}

uint64_t gm_chunks_pick(struct gm_pool *pool, uint64_t bytes, unsigned most, CUdeviceptr apart)
{
	uint64_t picked = 0, limit = bytes;
	gm_shelves_empty(pool);
	gm_slabs_flush(&pool->slabs);
	for (; most && limit; most--) {
		struct gm_chunk *chunk = largest(pool, limit, apart);
		if (!chunk)
			break;
		chunk->picked = true;
		picked += chunk->size;
		limit = bytes - picked < chunk->size ? bytes - picked : chunk->size;
	}
	return picked;
}

bool gm_chunk_detach(struct gm_pool *pool, struct gm_chunk *chunk)
{
	GM_ASSERT(!chunk->used && may_go(chunk));
	gm_slabs_flush(&pool->slabs);
	if (!gm_extents_reserve(&pool->extents, 2))
		return false;
	detach(pool, chunk, gm_extent_idle_at(&pool->extents, chunk->base));
	gm_extents_promise(&pool->extents);
	chunk->after = NULL;
	return true;
}

static void count_used(struct gm_pool *pool, CUdeviceptr base, uint64_t length, bool more,
		       uint64_t since)
{
	for (CUdeviceptr end = base + length; base < end;) {
		struct gm_chunk *chunk = gm_chunk_at(pool, base);
		CUdeviceptr stop = chunk->base + chunk->size;
		uint64_t part = (stop < end ? stop : end) - base;
		if (!chunk->used)
			leave_idle(pool, chunk);
		chunk->used += more ? part : -part;
		base += part;
		if (chunk->idle_since < since)
			chunk->idle_since = since;
		if (!chunk->used)
			enter_idle(pool, chunk);
	}
}

void gm_chunk_use(struct gm_pool *pool, CUdeviceptr base, uint64_t length)
{
	count_used(pool, base, length, true, 0);
}

void gm_chunk_unuse(struct gm_pool *pool, CUdeviceptr base, uint64_t length, uint64_t since)
{
	count_used(pool, base, length, false, since);
}

void gm_chunk_forget(struct gm_pool *pool, struct gm_chunk *chunk)
{
	pool->pending -= chunk->size;
	if (chunk->run)
		gm_range_put(&pool->range, chunk->run);
	gm_extents_absolve(&pool->extents);
	free(chunk);
}
