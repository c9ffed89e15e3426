/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/chunk.h"

#include <stdlib.h>

#include "base/msg.h"
#include "log/log.h"
#include "pool/internal.h"
#include "pool/peer.h"
#include "pool/stats.h"
#include "pool/trim.h"

/* CU_MEM_CREATE_USAGE_HW_DECOMPRESS, which toolkits before 12.8 lack. */
enum { USAGE_DECOMPRESS = 2 };

/* --- driver calls --- */

/* Before and after a driver call that creates or releases physical memory. */
static void change_begin(struct gm_pool *pool)
{
	gm_pool_lock(pool);
	pool->changes++;
	pool->changing++;
	gm_pool_unlock(pool);
}

static void change_end(struct gm_pool *pool, uint64_t more)
{
	gm_pool_lock(pool);
	pool->made += more;
	pool->changing--;
	gm_pool_unlock(pool);
}

static CUresult handle_create(struct gm_pool *pool, struct gm_chunk *chunk, unsigned extras,
			      const struct gm_access *access)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pool->config.device},
	};
	if (extras & GM_CHUNK_EXPORTABLE)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.allocFlags.gpuDirectRDMACapable = (extras & GM_CHUNK_RDMA) != 0;
	if (extras & GM_CHUNK_DECOMPRESS)
		prop.allocFlags.usage = USAGE_DECOMPRESS;
	change_begin(pool);
	CUresult result = pool->driver->cuMemCreate(&chunk->handle, chunk->size, &prop, 0);
	change_end(pool, result == CUDA_SUCCESS ? chunk->size : 0);
	chunk->exportable = prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
	if (result != CUDA_SUCCESS || !access)
		return result;
	result = gm_chunk_map(pool, chunk, chunk->base, access);
	if (result != CUDA_SUCCESS)
		gm_chunk_release(pool, chunk);
	return result;
}

/* Containers may forbid properties that the device supports. Under WSL 2 the driver creates memory
 * for RDMA, but cuMemSetAccess on it fails. */
CUresult gm_chunk_create(struct gm_pool *pool, struct gm_chunk *chunk,
			 const struct gm_access *access)
{
	const bool again = chunk->exportable; /* its contents were away */
	unsigned wanted = GM_GET(pool->extras) | (again ? GM_CHUNK_EXPORTABLE : 0), extras = wanted;
	CUresult result = handle_create(pool, chunk, extras, access);
	/* The driver made such memory before, and other processes may have handles of blocks. */
	if (again && result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
		result = handle_create(pool, chunk, extras, access);
	while (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY && extras) {
		extras = (extras - 1) & wanted; /* the next smaller subset */
		result = handle_create(pool, chunk, extras, access);
	}
	if (result == CUDA_SUCCESS && extras != wanted)
		atomic_fetch_and_explicit(&pool->extras, extras, memory_order_relaxed);
	if (result != CUDA_SUCCESS)
		chunk->exportable = again;
	return result;
}

CUresult gm_chunk_map(struct gm_pool *pool, struct gm_chunk *chunk, CUdeviceptr at,
		      const struct gm_access *access)
{
	const struct gm_driver *driver = pool->driver;
	CUresult result = driver->cuMemMap(at, chunk->size, 0, chunk->handle, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = gm_access_set(driver, at, chunk->size, access);
	if (result != CUDA_SUCCESS) {
		driver->cuMemUnmap(at, chunk->size);
		return result;
	}
	if (chunk->base != at) /* other threads read the base of a returning chunk (away.c) */
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
	change_begin(pool);
	CUresult result = pool->driver->cuMemRelease(chunk->handle);
	change_end(pool, -chunk->size);
	chunk->handle = 0;
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED)
		GM_MSG_ONCE(GM_MSG_WARN, "the driver keeps %llu bytes of device %u: %s",
			    (unsigned long long)chunk->size, pool->config.ordinal,
			    gm_driver_error(pool->driver, result));
}

void gm_chunk_record_loan(struct gm_pool *pool, const struct gm_chunk *chunk,
			  enum gm_record_kind kind, uint64_t ns, CUdeviceptr old,
			  enum gm_record_flag flag)
{
	unsigned device = pool->config.ordinal;
	if (kind == GM_RECORD_MAP) {
		gm_counter_add(device, GM_C_map_calls, 1);
		gm_counter_add(device, GM_C_map_bytes, chunk->size);
		gm_counter_add(device, GM_C_map_ns, ns);
	} else if (kind == GM_RECORD_UNMAP) {
		gm_counter_add(device, GM_C_unmap_calls, 1);
		gm_counter_add(device, GM_C_unmap_bytes, chunk->size);
	} else if (kind == GM_RECORD_REMAP) {
		gm_counter_add(device, GM_C_remap_calls, 1);
		gm_counter_add(device, GM_C_remap_bytes, chunk->size);
		gm_counter_add(device, GM_C_remap_ns, ns);
	}
	if (kind == GM_RECORD_DEMOTE) {
		gm_counter_add(device, GM_C_demote_calls, 1);
		gm_counter_add(device, GM_C_demote_bytes, chunk->size);
		gm_counter_add(device, GM_C_demote_ns, ns);
	} else if (kind == GM_RECORD_PROMOTE) {
		gm_counter_add(device, GM_C_promote_calls, 1);
		gm_counter_add(device, GM_C_promote_bytes, chunk->size);
		gm_counter_add(device, GM_C_promote_ns, ns);
	}
	if (!gm_log_wants(kind))
		return;
	gm_log_put(&(struct gm_record){.address = chunk->base,
				       .size = chunk->size,
				       .held = old,
				       .id = chunk->serial,
				       .duration = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns,
				       .flags = (uint16_t)flag,
				       .device = (uint8_t)device,
				       .kind = (uint8_t)kind});
}

void gm_chunk_record(struct gm_pool *pool, const struct gm_chunk *chunk, enum gm_record_kind kind,
		     uint64_t ns, CUdeviceptr old)
{
	gm_chunk_record_loan(pool, chunk, kind, ns, old, 0);
}

/* --- books: the pool's lock is held --- */

static struct gm_chunk **table_entry(const struct gm_pool *pool, CUdeviceptr address)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return &pool->chunk_of[(address - pool->range.base) / GM_POOL_GRANULE];
}

struct gm_chunk *gm_chunk_at(const struct gm_pool *pool, CUdeviceptr address)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return address - pool->range.base < pool->range.size ? *table_entry(pool, address) : NULL;
}

static void table_enter(struct gm_pool *pool, const struct gm_chunk *chunk, struct gm_chunk *value)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_chunk **at = table_entry(pool, chunk->base);
	for (uint64_t i = 0; i < chunk->size / GM_POOL_GRANULE; i++)
		at[i] = value;
}

/* --- the list of wholly idle chunks --- */

/* The list is sorted by age. The search from its end is short: a chunk is idle since an earlier
 * time only if its last blocks lay on a shelf. */
static void idle_enter(struct gm_pool *pool, struct gm_chunk *chunk)
{
	struct gm_chunk *before = pool->idle_last;
	while (before && before->idle_since > chunk->idle_since)
		before = before->idle_before;
	struct gm_chunk *after = before ? before->idle_after : pool->idle_first;
	chunk->idle_before = before;
	chunk->idle_after = after;
	*(before ? &before->idle_after : &pool->idle_first) = chunk;
	*(after ? &after->idle_before : &pool->idle_last) = chunk;
	gm_pool_tell_idle(pool);
}

static void idle_leave(struct gm_pool *pool, struct gm_chunk *chunk)
{
	struct gm_chunk *before = chunk->idle_before, *after = chunk->idle_after;
	*(before ? &before->idle_after : &pool->idle_first) = after;
	*(after ? &after->idle_before : &pool->idle_last) = before;
}

/* --- into the pool, and out of it --- */

struct gm_chunk *gm_chunk_new(struct gm_pool *pool, uint64_t size)
{
	struct gm_chunk *chunk = calloc(1, sizeof *chunk);
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
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
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	GM_ASSERT(chunk->used == 0 && chunk->run && chunk->run->base == chunk->base);
	pool->pending -= chunk->size;
	chunk->before = NULL;
	chunk->after = pool->chunks;
	if (pool->chunks)
		pool->chunks->before = chunk;
	pool->chunks = chunk;
	table_enter(pool, chunk, chunk);
	if (!chunk->heat.stamp)
		gm_extent_add(&pool->extents, chunk->base, chunk->size);
	gm_pool_count_chunk(pool, chunk->size);
	chunk->idle_since = gm_pool_now(pool);
	idle_enter(pool, chunk);
	if (chunk->heat.stamp)
		gm_hot_add(pool, chunk->base, chunk->size, &chunk->heat);
	chunk->heat.stamp = 0;
}

static struct gm_extent *chunk_detach(struct gm_pool *pool, struct gm_chunk *chunk,
				      struct gm_extent *extent)
{
	chunk->heat = pool->extents.hot.heat;
	chunk->heat.stamp = extent->piece.stamp;
	extent = gm_extent_remove(&pool->extents, extent, chunk->base, chunk->size);
	table_enter(pool, chunk, NULL);
	idle_leave(pool, chunk);
	*(chunk->before ? &chunk->before->after : &pool->chunks) = chunk->after;
	if (chunk->after)
		chunk->after->before = chunk->before;
	gm_pool_count_chunk_gone(pool, chunk->size);
	return extent;
}

bool gm_chunk_is_movable(const struct gm_pool *pool, const struct gm_chunk *chunk)
{
	return !chunk->pins && !chunk->busy && !gm_hot_has_chunk(pool, chunk);
}

/* Detach chunks that lie in one idle extent: the picked ones, or, if `wanted` is not NULL, any
 * until *wanted bytes are reached. */
static void chunks_detach_from(struct gm_pool *pool, struct gm_extent *extent, uint64_t *wanted,
			       struct gm_chunk **list)
{
	CUdeviceptr at = GM_GET(extent->piece.base), end = at + GM_GET(extent->piece.held);
	struct gm_chunk *chunk = gm_chunk_at(pool, at);
	if (chunk->base < at)
		at = chunk->base + chunk->size;
	while (extent && at < end && (!wanted || *wanted)) {
		chunk = gm_chunk_at(pool, at);
		at += chunk->size;
		if (at > end || (wanted ? !gm_chunk_is_movable(pool, chunk) : !chunk->picked))
			continue;
		if (!gm_extents_reserve(&pool->extents, 2))
			return;
		extent = chunk_detach(pool, chunk, extent);
		gm_extents_promise(&pool->extents);
		if (wanted)
			*wanted -= chunk->size < *wanted ? chunk->size : *wanted;
		chunk->after = *list;
		*list = chunk;
	}
}

static struct gm_chunk *chunks_detach_all(struct gm_pool *pool, uint64_t *wanted)
{
	struct gm_chunk *list = NULL;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_slabs_flush(&pool->slabs);
	struct gm_extent *idle = gm_extent_list_idle(&pool->extents, GM_POOL_GRANULE);
	while (idle && (!wanted || *wanted)) {
		struct gm_piece *next = idle->piece.next; /* the extent may be cut */
		chunks_detach_from(pool, idle, wanted, &list);
		idle = (struct gm_extent *)next;
	}
	return list;
}

struct gm_chunk *gm_chunks_detach(struct gm_pool *pool, uint64_t bytes)
{
	return chunks_detach_all(pool, &bytes);
}

struct gm_chunk *gm_chunks_detach_picked(struct gm_pool *pool)
{
	struct gm_chunk *list = chunks_detach_all(pool, NULL);
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after)
		chunk->picked = false; /* not detached: no host memory */
	for (struct gm_chunk *chunk = list; chunk; chunk = chunk->after)
		chunk->picked = false;
	return list;
}

static void extent_mark_remappable(const struct gm_pool *pool, const struct gm_extent *extent)
{
	CUdeviceptr at = GM_GET(extent->piece.base), end = at + GM_GET(extent->piece.held);
	struct gm_chunk *chunk = gm_chunk_at(pool, at);
	at = chunk->base < at ? chunk->base + chunk->size : at;
	for (; at < end; at += chunk->size) {
		chunk = gm_chunk_at(pool, at);
		chunk->remappable = at + chunk->size <= end && !chunk->pins && !chunk->busy;
	}
}

/* Mark the chunks that may move: each lies in one idle extent, or in a hot one (alias.h). */
static void chunks_mark_remappable(const struct gm_pool *pool, uint64_t context)
{
	const bool hot = gm_alias_is_allowed(pool, context);
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after)
		chunk->remappable = false;
	const struct gm_extent *at = gm_extent_list_idle(&pool->extents, GM_POOL_GRANULE);
	for (; at; at = (const struct gm_extent *)at->piece.next)
		if (!at->piece.stamp || hot)
			extent_mark_remappable(pool, at);
}

/* The largest chunk of at most `most` bytes that may be picked, outside the idle extent that ends
 * at `below`. */
static struct gm_chunk *chunks_largest(const struct gm_pool *pool, uint64_t most, CUdeviceptr below)
{
	struct gm_chunk *best = NULL;
	const struct gm_extent *tail = below ? gm_table_ends_at(&pool->table, below) : NULL;
	CUdeviceptr from = tail ? GM_GET(tail->piece.base) : 0;
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after) {
		if (chunk->picked || !chunk->remappable || chunk->size > most ||
		    (chunk->base >= from && chunk->base < below))
			continue;
		if (!best || chunk->size > best->size)
			best = chunk;
		if (best->size == most)
			break;
	}
	return best;
}

bool gm_chunks_any(const struct gm_pool *pool, uint64_t most, CUdeviceptr below, uint64_t context)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	chunks_mark_remappable(pool, context);
	return chunks_largest(pool, most, below) != NULL;
}

uint64_t gm_chunks_pick(struct gm_pool *pool, uint64_t bytes, unsigned most, CUdeviceptr below,
			uint64_t context)
{
	uint64_t picked = 0, limit = bytes;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_slabs_flush(&pool->slabs);
	chunks_mark_remappable(pool, context);
	for (; most && limit; most--) {
		struct gm_chunk *chunk = chunks_largest(pool, limit, below);
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
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	GM_ASSERT(!chunk->used && gm_chunk_is_movable(pool, chunk));
	gm_slabs_flush(&pool->slabs);
	if (!gm_extents_reserve(&pool->extents, 2))
		return false;
	chunk_detach(pool, chunk, gm_extent_idle_at(&pool->extents, chunk->base));
	gm_extents_promise(&pool->extents);
	chunk->after = NULL;
	return true;
}

static void chunk_count_used(struct gm_pool *pool, CUdeviceptr base, uint64_t length, bool more,
			     uint64_t since)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (CUdeviceptr end = base + length; base < end;) {
		struct gm_chunk *chunk = gm_chunk_at(pool, base);
		CUdeviceptr stop = chunk->base + chunk->size;
		uint64_t part = (stop < end ? stop : end) - base;
		if (!chunk->used)
			idle_leave(pool, chunk);
		chunk->used += more ? part : -part;
		base += part;
		if (chunk->idle_since < since)
			chunk->idle_since = since;
		if (!chunk->used)
			idle_enter(pool, chunk);
	}
}

void gm_chunk_use(struct gm_pool *pool, CUdeviceptr base, uint64_t length)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	chunk_count_used(pool, base, length, true, 0);
}

void gm_chunk_unuse(struct gm_pool *pool, CUdeviceptr base, uint64_t length, uint64_t since)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	chunk_count_used(pool, base, length, false, since);
}

void gm_chunk_forget(struct gm_pool *pool, struct gm_chunk *chunk)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->pending -= chunk->size;
	if (chunk->run)
		gm_range_put(&pool->range, chunk->run);
	gm_extents_absolve(&pool->extents);
	free(chunk);
}
