/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/vacant.h"

#include <sched.h>

#include "log/count.h"
#include "pool/grow.h"
#include "pool/internal.h"
#include "pool/pin.h"
#include "pool/valid.h"

/* Under the pool's lock. */
void gm_vacant_count(const struct gm_pool *pool)
{
	const unsigned device = pool->config.ordinal;
	const uint64_t vacant = GM_GET(pool->vacant), hosted = GM_GET(pool->hosted);
	gm_counter_set(device, GM_C_lend_vacant, vacant);
	gm_counter_raise(device, GM_C_lend_vacant_peak, vacant);
	gm_counter_set(device, GM_C_lend_host, hosted);
	gm_counter_raise(device, GM_C_lend_host_peak, hosted);
}

/* --- vacate --- */

/* Under the pool's lock: a chunk for the memory of `place`, with addresses. NULL: no host memory.
 */
static struct gm_chunk *guest_make(struct gm_pool *pool, struct gm_chunk *place)
{
	struct gm_chunk *guest = gm_chunk_new(pool, place->size);
	if (!guest)
		return NULL;
	guest->run = gm_range_take(&pool->range, place->size);
	if (!guest->run) {
		gm_chunk_forget(pool, guest);
		return NULL;
	}
	guest->handle = place->handle;
	guest->exportable = place->exportable;
	guest->base = place->base;
	return guest;
}

enum moved { MOVED, STAYED, LOST };

/* No lock is held. LOST: the memory was returned to the driver. */
static enum moved memory_move(struct gm_pool *pool, struct gm_chunk *guest,
			      const struct gm_access *access)
{
	const CUdeviceptr place = guest->base;
	if (gm_chunk_unmap(pool, guest) != CUDA_SUCCESS)
		return STAYED;
	if (gm_chunk_map(pool, guest, guest->run->base, access) == CUDA_SUCCESS)
		return MOVED;
	if (gm_chunk_map(pool, guest, place, access) == CUDA_SUCCESS)
		return STAYED;
	gm_chunk_release(pool, guest);
	return LOST;
}

/* Under the pool's lock, released meanwhile. */
static enum moved place_vacate(struct gm_pool *pool, struct gm_chunk *place)
{
	struct gm_access access;
	struct gm_chunk *guest = guest_make(pool, place);
	if (!guest)
		return STAYED;
	place->busy++;
	place->moving = true;
	pool->vacant += place->size;
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	enum moved moved = memory_move(pool, guest, &access);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	place->moving = false;
	if (moved == STAYED) {
		place->access = guest->access ? guest->access : place->access;
		place->busy--;
		pool->vacant -= place->size;
	} else {
		place->handle = 0;
		place->vacant = true;
	}
	if (moved == MOVED) {
		guest->serial = ++pool->chunk_serial;
		gm_chunk_publish(pool, guest);
		gm_chunk_record(pool, guest, GM_RECORD_MAP, 0, 0);
	} else {
		gm_chunk_forget(pool, guest);
	}
	return moved;
}

static bool place_may_be_vacated(const struct gm_chunk *chunk)
{
	return chunk->used == chunk->size && !chunk->pins && !chunk->busy && !chunk->away &&
	       !chunk->moving;
}

/* --- memory of the host --- */

/* Names of cuda.h that toolkits before 12.2 lack. */
enum { ATTRIBUTE_HOST_NUMA_ID = 134, LOCATION_HOST_NUMA = 3 };

/* No lock is held. False: it is mapped as before. */
static bool host_end(struct gm_pool *pool, struct gm_chunk *place)
{
	if (gm_chunk_unmap(pool, place) != CUDA_SUCCESS)
		return false;
	pool->driver->cuMemRelease(place->handle);
	atomic_fetch_sub_explicit(&pool->hosted, place->size, memory_order_relaxed);
	return true;
}

void gm_vacant_unhost(struct gm_pool *pool, struct gm_chunk *place)
{
	if (place->handle && host_end(pool, place))
		place->handle = 0;
}

/* Under the pool's lock, released meanwhile. Waits until no thread changes the place's access. */
static bool place_unhost(struct gm_pool *pool, struct gm_chunk *place)
{
	while (place->busy > 1) {
		gm_pool_unlock(pool);
		sched_yield();
		gm_pool_lock(pool);
	}
	place->moving = true;
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	bool ended = host_end(pool, place);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	place->moving = false;
	if (ended)
		place->handle = 0;
	return ended;
}

/* The processor's node nearest to the device; 0: the driver does not know it. */
static int host_node(const struct gm_pool *pool)
{
	int node = 0;
	CUresult result = pool->driver->cuDeviceGetAttribute(
		&node, (CUdevice_attribute)ATTRIBUTE_HOST_NUMA_ID, pool->config.device);
	return result == CUDA_SUCCESS && node > 0 ? node : 0;
}

/* *host is what the place becomes: for the caller, who takes the lock. */
static CUresult host_make(struct gm_pool *pool, const struct gm_chunk *place,
			  const struct gm_access *access, struct gm_chunk *host)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = (CUmemLocationType)LOCATION_HOST_NUMA, .id = host_node(pool)},
	};
	CUmemGenericAllocationHandle handle;
	CUresult result = pool->driver->cuMemCreate(&handle, place->size, &prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	*host = (struct gm_chunk){.size = place->size, .base = place->base, .handle = handle};
	result = gm_chunk_map(pool, host, place->base, access);
	if (result != CUDA_SUCCESS)
		pool->driver->cuMemRelease(handle);
	return result;
}

static CUresult place_host(struct gm_pool *pool, struct gm_chunk *place)
{
	struct gm_access access;
	gm_access_now(pool, true, &access);
	place->moving = true;
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	struct gm_chunk host;
	CUresult result = host_make(pool, place, &access, &host);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	place->moving = false;
	if (result != CUDA_SUCCESS)
		return result;
	place->handle = host.handle;
	place->access = host.access;
	atomic_fetch_add_explicit(&pool->hosted, place->size, memory_order_relaxed);
	return CUDA_SUCCESS;
}

/* The live block, not pinned, that [base, base + size) lies in, or NULL. */
static struct gm_piece *block_at(const struct gm_pool *pool, CUdeviceptr base, uint64_t size)
{
	struct gm_piece *piece = gm_pool_has(pool, base) ? gm_table_live(&pool->table, base) : NULL;
	return piece && !piece->pinned && size <= GM_GET(piece->base) + GM_GET(piece->held) - base
		       ? piece
		       : NULL;
}

bool gm_vacant_may_begin(struct gm_pool *pool, const struct gm_chunk *chunk)
{
	return place_may_be_vacated(chunk) && block_at(pool, chunk->base, chunk->size);
}

uint64_t gm_pool_vacate(struct gm_pool *pool, CUdeviceptr base, uint64_t size)
{
	uint64_t bytes = 0;
	enum moved moved = MOVED;
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	const uint64_t generation = pool->access;
	CUdeviceptr at = block_at(pool, base, size) ? base : base + size, end = base + size;
	while (at < end && moved == MOVED) {
		struct gm_chunk *chunk = gm_chunk_at(pool, at);
		const bool whole = chunk->base >= base && chunk->size <= end - chunk->base;
		at = chunk->base + chunk->size;
		if (whole && chunk->vacant && chunk->handle && !chunk->pins)
			moved = place_unhost(pool, chunk) ? MOVED : STAYED;
		if (!whole || !place_may_be_vacated(chunk))
			continue;
		moved = place_vacate(pool, chunk);
		bytes += moved == MOVED ? chunk->size : 0;
	}
	if (pool->access != generation) /* granted or revoked meanwhile */
		gm_access_refresh(pool);
	gm_vacant_count(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return bytes;
}

uint64_t gm_pool_lack(struct gm_pool *pool, uint64_t bytes)
{
	const uint64_t length = gm_round_up(bytes, GM_POOL_GRANULE);
	gm_pool_lock(pool);
	const bool limited = pool->config.limit != UINT64_MAX;
	const uint64_t lack = limited ? gm_pool_excess(pool, length) : 0;
	gm_pool_unlock(pool);
	return lack ? gm_round_up(lack, GM_POOL_GRANULE) : length;
}

bool gm_pool_is_vacant(struct gm_pool *pool, CUdeviceptr base)
{
	gm_pool_lock(pool);
	const struct gm_chunk *chunk = gm_pool_has(pool, base) ? gm_chunk_at(pool, base) : NULL;
	const bool vacant = chunk && chunk->vacant && !chunk->handle;
	gm_pool_unlock(pool);
	return vacant;
}

uint64_t gm_pool_place(struct gm_pool *pool, CUdeviceptr at, CUdeviceptr *base)
{
	gm_pool_lock(pool);
	const struct gm_chunk *chunk = gm_pool_has(pool, at) ? gm_chunk_at(pool, at) : NULL;
	const uint64_t size = chunk ? chunk->size : 0;
	*base = chunk ? chunk->base : 0;
	gm_pool_unlock(pool);
	return size;
}

/* --- occupy; no lock is held --- */

static CUresult guest_map(struct gm_pool *pool, struct gm_chunk *guest, CUdeviceptr place,
			  const struct gm_access *access)
{
	if (!guest->handle) {
		guest->base = place;
		return gm_chunk_create(pool, guest, access);
	}
	CUresult result = gm_chunk_unmap(pool, guest);
	if (result != CUDA_SUCCESS)
		return result;
	result = gm_chunk_map(pool, guest, place, access);
	if (result != CUDA_SUCCESS &&
	    gm_chunk_map(pool, guest, guest->run->base, access) != CUDA_SUCCESS)
		gm_chunk_release(pool, guest);
	return result;
}

/* --- occupy; the pool's lock is held, and released around driver calls --- */

/* Memory for a place: an idle chunk of its size, or a new one, in both cases detached. NULL: there
 * is no room. */
static struct gm_chunk *guest_find(struct gm_pool *pool, uint64_t size)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after)
		if (chunk->size == size && gm_chunk_is_movable(pool, chunk))
			return gm_chunk_detach(pool, chunk) ? chunk : NULL;
	if (gm_pool_room(pool) < size)
		gm_pool_shed(pool, size - gm_pool_room(pool));
	return gm_pool_room(pool) < size ? NULL : gm_chunk_new(pool, size);
}

/* The place has no memory of the guest: it goes back to where it came from. */
static void guest_return(struct gm_pool *pool, struct gm_chunk *guest)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (guest->run && guest->handle)
		gm_chunk_publish(pool, guest);
	else
		gm_chunk_forget(pool, guest);
}

static CUresult place_try(struct gm_pool *pool, struct gm_chunk *place)
{
	struct gm_access access;
	struct gm_chunk *guest = guest_find(pool, place->size);
	if (!guest)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->giving++;
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = guest_map(pool, guest, place->base, &access);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	gm_pool_giving_end(pool);
	if (result != CUDA_SUCCESS) {
		if (guest->run && !guest->handle)
			gm_chunk_record(pool, guest, GM_RECORD_UNMAP, 0, 0);
		guest_return(pool, guest);
		return result;
	}
	place->handle = guest->handle;
	place->exportable = guest->exportable;
	place->access = guest->access;
	place->vacant = false;
	place->busy--;
	pool->vacant -= place->size;
	if (guest->run) { /* it was idle memory, at its own addresses */
		guest->base = guest->run->base;
		gm_chunk_record(pool, guest, GM_RECORD_UNMAP, 0, 0);
	}
	gm_chunk_forget(pool, guest);
	return CUDA_SUCCESS;
}

/* If the driver has no memory, although the limit allows it: idle chunks of other sizes go first.
 */
static CUresult place_occupy(struct gm_pool *pool, struct gm_chunk *place)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	CUresult result = place_try(pool, place);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_pool_shed(pool, place->size))
		result = place_try(pool, place);
	return result;
}

/* Apply `fill` to the places in [base, +size) without memory. */
static CUresult places_fill(struct gm_pool *pool, CUdeviceptr base, uint64_t size,
			    CUresult (*fill)(struct gm_pool *pool, struct gm_chunk *place))
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	CUresult result = CUDA_SUCCESS;
	gm_pool_debug_check(pool);
	const uint64_t generation = pool->access;
	for (CUdeviceptr at = base, end = base + size; at < end && result == CUDA_SUCCESS;) {
		struct gm_chunk *chunk = gm_chunk_at(pool, at);
		if (!chunk)
			break;
		at = chunk->base + chunk->size;
		if (chunk->vacant && !chunk->handle)
			result = fill(pool, chunk);
	}
	if (pool->access != generation)
		gm_access_refresh(pool);
	gm_vacant_count(pool);
	gm_pool_debug_check(pool);
	return result;
}

CUresult gm_pool_occupy(struct gm_pool *pool, CUdeviceptr base, uint64_t size)
{
	gm_pool_lock(pool);
	gm_hot_cool(pool, false);
	gm_shelves_empty(pool);
	CUresult result = places_fill(pool, base, size, place_occupy);
	gm_pool_unlock(pool);
	return result;
}

CUresult gm_pool_occupy_host(struct gm_pool *pool, CUdeviceptr base, uint64_t size)
{
	gm_pool_lock(pool);
	CUresult result = places_fill(pool, base, size, place_host);
	gm_pool_unlock(pool);
	return result;
}

/* --- the end of a block --- */

/* The next vacant place from `at` to below `end`, or NULL. */
static struct gm_chunk *vacant_next(const struct gm_pool *pool, CUdeviceptr at, CUdeviceptr end)
{
	while (at < end) {
		struct gm_chunk *chunk = gm_chunk_at(pool, at);
		if (chunk->vacant)
			return chunk;
		at = chunk->base + chunk->size;
	}
	return NULL;
}

static bool place_moves(const struct gm_pool *pool, CUdeviceptr at, CUdeviceptr end)
{
	for (struct gm_chunk *chunk; at < end; at = chunk->base + chunk->size) {
		chunk = gm_chunk_at(pool, at);
		if (!chunk)
			return false;
		if (chunk->moving && !chunk->away)
			return true;
	}
	return false;
}

void gm_vacant_await(struct gm_pool *pool, CUdeviceptr base, uint64_t size)
{
	gm_pool_lock(pool);
	while (place_moves(pool, base, base + size)) {
		gm_pool_unlock(pool);
		sched_yield();
		gm_pool_lock(pool);
	}
	gm_pool_unlock(pool);
}

bool gm_vacant_in(const struct gm_pool *pool, const struct gm_piece *piece)
{
	const CUdeviceptr base = GM_GET(piece->base);
	return GM_GET(pool->vacant) && vacant_next(pool, base, base + GM_GET(piece->held));
}

bool gm_vacant_any(struct gm_pool *pool, CUdeviceptr base, uint64_t size)
{
	gm_pool_lock(pool);
	const bool any = vacant_next(pool, base, base + size);
	gm_pool_unlock(pool);
	return any;
}

bool gm_vacant_has(struct gm_pool *pool, const struct gm_block *block)
{
	if (!GM_GET(pool->vacant))
		return false;
	gm_pool_lock(pool);
	bool has = vacant_next(pool, block->base, block->base + block->held);
	gm_pool_unlock(pool);
	return has;
}

bool gm_vacant_end(struct gm_pool *pool, struct gm_piece *piece)
{
	const CUdeviceptr base = GM_GET(piece->base), end = base + GM_GET(piece->held);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	for (struct gm_chunk *at = vacant_next(pool, base, end); at;
	     at = vacant_next(pool, at->base + at->size, end))
		if (at->handle && !place_unhost(pool, at)) {
			gm_pool_unlock(pool);
			return false;
		}
	gm_slabs_flush(&pool->slabs);
	size_t n = 0;
	for (struct gm_chunk *at = vacant_next(pool, base, end); at;
	     at = vacant_next(pool, at->base + at->size, end))
		n++;
	if (!gm_extents_reserve(&pool->extents, 2 * n)) {
		gm_pool_unlock(pool);
		return false;
	}
	if (piece->pinned)
		gm_pool_unpin(pool, piece);
	gm_pool_release(pool, piece, NULL);
	for (struct gm_chunk *at = vacant_next(pool, base, end), *next; at; at = next) {
		next = vacant_next(pool, at->base + at->size, end);
		at->vacant = false;
		at->busy--;
		bool detached = gm_chunk_detach(pool, at);
		GM_ASSERT(detached); /* reserved above */
		pool->vacant -= at->size;
		gm_chunk_record(pool, at, GM_RECORD_UNMAP, 0, 0);
		gm_chunk_forget(pool, at);
	}
	gm_vacant_count(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return true;
}
