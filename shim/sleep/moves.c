/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/moves.h"

#include <stdio.h>

#include "residency/control.h"
#include "shim/foreign/physical.h"
#include "shim/foreign/prefetch.h"
#include "shim/memory/device.h"

struct gm_moves_bytes gm_moves_bytes(unsigned ordinal)
{
	const struct gm_physical_bytes created = gm_physical_bytes(ordinal);
	struct gm_moves_bytes bytes = {.moves = created.moves, .away = created.away};
	struct gm_pool_stats stats = {0};
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	if (pool)
		gm_pool_stats(pool, &stats);
	const uint64_t has = stats.mapped - stats.vacant + stats.lent,
		       rest = stats.away + stats.pinned;
	bytes.moves += has > rest ? has - rest : 0;
	bytes.away += stats.away;
	bytes.stays = stats.pinned;
	return bytes;
}

uint64_t gm_moves_need(void)
{
	uint64_t bytes = 0;
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		bytes += gm_moves_bytes(i).moves;
	return bytes;
}

static struct gm_moved pool_move(struct gm_move *mover, unsigned ordinal, bool out)
{
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	if (!pool)
		return (struct gm_moved){.result = CUDA_SUCCESS};
	return out ? gm_move_out(mover, pool, ordinal) : gm_move_in(mover, pool, ordinal);
}

static struct gm_moved created_send(void *ordinal, const struct gm_mover *mover)
{
	return gm_physical_send(*(unsigned *)ordinal, mover);
}

static struct gm_moved created_fetch(void *ordinal, const struct gm_mover *mover)
{
	return gm_physical_fetch(*(unsigned *)ordinal, mover);
}

static bool device_has_context(unsigned ordinal)
{
	struct gm_context *context = gm_context_newest();
	while (context && (context->ordinal != ordinal || atomic_load(&context->gone)))
		context = context->next;
	return context;
}

/* Nobody has used memory of a device without a context, so it stays. */
static struct gm_moved created_move(struct gm_move *mover, unsigned ordinal, bool out)
{
	if (!gm_physical_any() || (out && !device_has_context(ordinal)))
		return (struct gm_moved){.result = CUDA_SUCCESS};
	return gm_move_run(mover, ordinal, out, out ? created_send : created_fetch, &ordinal);
}

/* Awake, managed pages are where they were used last. */
static struct gm_moved managed_move(struct gm_move *mover, unsigned ordinal, bool out)
{
	if (out)
		return gm_prefetch_send(mover, ordinal);
	gm_prefetch_woke(ordinal);
	return (struct gm_moved){.result = CUDA_SUCCESS};
}

static struct gm_moved (*const kinds[])(struct gm_move *, unsigned ordinal, bool out) = {
	pool_move,
	created_move,
	managed_move,
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static enum gm_refusal refusal_of(const struct gm_move *mover, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return GM_REFUSAL_NONE;
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return GM_REFUSAL_DEVICE_MEMORY;
	return mover->refusal != GM_REFUSAL_NONE ? mover->refusal : GM_REFUSAL_CALL;
}

/* Kind by kind: managed memory of one device must not take the host memory that the pools of the
 * next one need, and at a wake it counts as awake once all else is back. */
enum gm_refusal gm_moves_run(struct gm_move *mover, bool out, uint64_t *bytes, char *name)
{
	enum gm_refusal refusal = GM_REFUSAL_NONE;
	*bytes = 0;
	for (unsigned i = 0; i < gm_shim_n_devices * KINDS && refusal == GM_REFUSAL_NONE; i++) {
		struct gm_moved moved =
			kinds[i / gm_shim_n_devices](mover, i % gm_shim_n_devices, out);
		*bytes += moved.bytes;
		refusal = refusal_of(mover, moved.result);
	}
	if (refusal != GM_REFUSAL_NONE)
		snprintf(name, GM_CONTROL_NAME, "%s", mover->refused_for);
	return refusal;
}
