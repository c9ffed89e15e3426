/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First fit: one arena grows at its end by whole granules and never shrinks. A request, rounded up
 * to 512 bytes, gets the lowest address with room.
 */
#include <stdlib.h>

#include "base/size.h"
#include "pool/pool.h"
#include "tools/replay/policy.h"
#include "tools/replay/policy_span.h"

enum { STEP = 512 };

struct state {
	const struct gm_driver *driver;
	CUdeviceptr base, end; /* of the mapped range */
	struct gm_spans spans;
	struct gm_span *last;
};

static void *first_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	struct state *state = gm_policy_make(sizeof *state);
	(void)limit;
	state->driver = driver;
	driver->cuMemAddressReserve(&state->base, gm_round_up(memory, GM_POOL_GRANULE), 0, 0, 0);
	state->end = state->base;
	return state;
}

/* Map `size` bytes more at the end. */
static bool arena_map(struct state *state, uint64_t size)
{
	const struct gm_driver *driver = state->driver;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	if (driver->cuMemCreate(&handle, size, &prop, 0) != CUDA_SUCCESS)
		return false;
	if (driver->cuMemMap(state->end, size, 0, handle, 0) != CUDA_SUCCESS ||
	    driver->cuMemSetAccess(state->end, size, &access, 1) != CUDA_SUCCESS)
		return false;
	state->end += size;
	return true;
}

/* A free span of `size` bytes at the end; NULL: the device is full. */
static struct gm_span *arena_grow(struct state *state, uint64_t size)
{
	struct gm_span *last = state->last;
	bool open = last && !last->used;
	uint64_t more = gm_round_up(open ? size - last->size : size, GM_POOL_GRANULE);
	CUdeviceptr at = state->end;
	if (!arena_map(state, more))
		return NULL;
	if (open) {
		gm_span_extend(&state->spans, last, more);
		return last;
	}
	state->last = gm_span_add(&state->spans, last, at, more);
	return state->last;
}

static bool first_alloc(void *arg, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	struct state *state = arg;
	(void)now;
	size = gm_round_up(size, STEP);
	struct gm_span *span = gm_span_find(&state->spans, size);
	if (!span && !(span = arena_grow(state, size)))
		return false;
	gm_span_take(&state->spans, span, size);
	if (span == state->last && span->after)
		state->last = span->after;
	*out = (struct gm_policy_place){span->address, span};
	return true;
}

static void first_free(void *arg, const struct gm_policy_place *place, uint64_t now)
{
	struct state *state = arg;
	(void)now;
	struct gm_span *span = gm_span_give(&state->spans, place->of);
	if (!span->after)
		state->last = span;
}

static void first_close(void *arg)
{
	struct state *state = arg;
	gm_spans_close(&state->spans);
	free(state);
}

extern const struct gm_policy gm_policy_first;
const struct gm_policy gm_policy_first = {
	"first-fit",
	false,
	first_open,
	first_alloc,
	first_free,
	first_close,
	"one arena that only grows; the lowest address with room"};
