/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/pin.h"

#include "pool/internal.h"
#include "pool/vacant.h"
#include "pool/valid.h"

/* Count a pin in every chunk under it, or no longer. */
static void pin_count(struct gm_pool *pool, struct gm_pin *pin, bool more)
{
	if (pin->counted == more)
		return;
	pin->counted = more;
	CUdeviceptr at = pin->base, end = pin->base + pin->size;
	while (at < end) {
		struct gm_chunk *chunk = gm_chunk_at(pool, at);
		chunk->pins += more ? 1u : -1u;
		at = chunk->base + chunk->size;
	}
}

/* The pin that equals this one; NULL: none. */
static struct gm_pin *pin_find(const struct gm_pool *pool, const struct gm_pin *pin)
{
	for (size_t i = 0; i < pool->pins.n; i++) {
		struct gm_pin *p = &pool->pins.at[i];
		if (p->id == pin->id && p->base == pin->base && p->size == pin->size &&
		    p->shared == pin->shared)
			return p;
	}
	return NULL;
}

/* From now on no stream orders the uses of the block's memory. If it was hot when it was handed
 * out, wait for the work from before it was freed, as the native cudaFree did. */
static void block_cool(struct gm_pool *pool, CUdeviceptr address)
{
	for (uint64_t known = 0; pool->config.order;) {
		gm_pool_lock(pool);
		gm_shelves_lock(pool);
		struct gm_piece *piece = gm_table_live(&pool->table, address);
		uint64_t stamp = piece ? piece->stamp : 0;
		if (stamp && stamp == known)
			piece->stamp = 0;
		gm_shelves_unlock(pool);
		gm_pool_unlock(pool);
		if (stamp == known)
			return;
		pool->config.order->cool(true);
		known = stamp;
	}
}

static CUresult block_pin(struct gm_pool *pool, CUdeviceptr address, size_t size, bool shared)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	block_cool(pool, address);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	gm_shelves_lock(pool); /* else a free meanwhile could leave its pin */
	struct gm_piece *piece = gm_table_live(&pool->table, address);
	if (piece) {
		uint64_t rest = GM_GET(piece->base) + GM_GET(piece->held) - address;
		struct gm_pin pin = {.id = GM_GET(piece->id),
				     .base = address,
				     .size = size ? size : 1,
				     .shared = shared};
		if (size > rest) {
			result = CUDA_ERROR_INVALID_VALUE;
		} else if (piece->pinned && pin_find(pool, &pin)) {
			result = CUDA_SUCCESS;
		} else if (!gm_array_push(&pool->pins, pin)) {
			result = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			pin_count(pool, &pool->pins.at[pool->pins.n - 1], !shared);
			piece->pinned = true;
			result = CUDA_SUCCESS;
		}
	}
	gm_shelves_unlock(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	/* Pinned memory is not vacated any more, but a part may be vacant, or about to be. */
	if (GM_UNLIKELY(GM_GET(pool->vacant)) && result == CUDA_SUCCESS) {
		gm_vacant_await(pool, address, size ? size : 1);
		result = gm_pool_occupy(pool, address, size ? size : 1);
		/* What is in memory of the host cannot be shared as memory of the device. */
		if (result == CUDA_SUCCESS && gm_vacant_any(pool, address, size ? size : 1))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return result;
}

CUresult gm_pool_pin(struct gm_pool *pool, CUdeviceptr address, size_t size)
{
	return block_pin(pool, address, size, false);
}

CUresult gm_pool_share(struct gm_pool *pool, CUdeviceptr address, size_t size)
{
	return block_pin(pool, address, size, true);
}

bool gm_pool_share_open(struct gm_pool *pool, CUdeviceptr base, uint64_t id, bool open)
{
	struct gm_pin *pin = NULL;
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	for (size_t i = 0; i < pool->pins.n && !pin; i++) {
		struct gm_pin *p = &pool->pins.at[i];
		if (p->shared && p->id == id && p->base == base)
			pin = p;
	}
	if (pin)
		pin_count(pool, pin, open);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return pin;
}

void gm_pool_unpin(struct gm_pool *pool, struct gm_piece *piece)
{
	uint64_t id = GM_GET(piece->id);
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	piece->pinned = false;
	for (size_t i = 0; i < pool->pins.n;) {
		if (pool->pins.at[i].id == id) {
			pin_count(pool, &pool->pins.at[i], false);
			pool->pins.at[i] = pool->pins.at[--pool->pins.n];
		} else {
			i++;
		}
	}
}
