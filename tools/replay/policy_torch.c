/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of PyTorch's caching allocator with its default settings, for one stream: written after
 * c10/cuda/CUDACachingAllocator.cpp of PyTorch at commit 001074d25084 (late 2024, after 2.5).
 *   - Requests are rounded up to 512 bytes. A request up to 1 MiB is small, with segments of 2 MiB.
 *     Below 10 MiB, segments have 20 MiB; from there on, the request's size rounded up to 2 MiB.
 *     Small and large requests have separate pools.
 *   - A request takes the smallest free block that fits, of these the lowest. The rest is split off
 *     if it has 512 bytes or more (small), or more than 1 MiB (large). Free neighbours of a segment
 *     merge.
 *   - A segment is one cudaMalloc. If it fails, every wholly free segment of both pools is returned
 *     to the driver, and the call is retried once.
 * Not modelled: streams and events, graphs, expandable segments, garbage collection, max_split_size
 * (unlimited by default).
 */
#include <stdlib.h>

#include "base/size.h"
#include "tools/replay/policy.h"
#include "tools/replay/policy_span.h"

#define STEP ((uint64_t)512)
#define SMALL GM_MIB /* the largest small request */
#define SMALL_SEGMENT (2 * GM_MIB)
#define LARGE_SEGMENT (20 * GM_MIB)
#define LARGE (10 * GM_MIB) /* from here on a segment has the size of its request */
#define LARGE_STEP (2 * GM_MIB)

struct state {
	const struct gm_driver *driver;
	struct gm_spans small, large;
};

static void *torch_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	struct state *state = gm_policy_make(sizeof *state);
	(void)memory, (void)limit;
	state->driver = driver;
	state->small.by_size = state->large.by_size = true;
	return state;
}

static uint64_t segment_size(uint64_t size)
{
	if (size <= SMALL)
		return SMALL_SEGMENT;
	return size < LARGE ? LARGE_SEGMENT : gm_round_up(size, LARGE_STEP);
}

/* Free a segment that is wholly free: a span without neighbours. */
static void segment_release(void *arg, struct gm_span *span)
{
	struct state *state = arg;
	if (span->before || span->after)
		return;
	state->driver->cuMemFree_v2(span->address);
	gm_span_drop(span->size == SMALL_SEGMENT ? &state->small : &state->large, span);
}

static void segments_release(struct state *state)
{
	gm_span_each(&state->large, segment_release, state);
	gm_span_each(&state->small, segment_release, state);
}

/* A new segment; NULL: the device is full. */
static struct gm_span *segment_make(struct state *state, struct gm_spans *pool, uint64_t size)
{
	CUdeviceptr address;
	if (state->driver->cuMemAlloc_v2(&address, size) != CUDA_SUCCESS) {
		segments_release(state);
		if (state->driver->cuMemAlloc_v2(&address, size) != CUDA_SUCCESS)
			return NULL;
	}
	return gm_span_add(pool, NULL, address, size);
}

static bool torch_alloc(void *arg, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	struct state *state = arg;
	(void)now;
	size = gm_round_up(size, STEP);
	const bool small = size <= SMALL;
	struct gm_spans *pool = small ? &state->small : &state->large;
	struct gm_span *span = gm_span_find(pool, size);
	if (!span && !(span = segment_make(state, pool, segment_size(size))))
		return false;
	uint64_t remaining = span->size - size;
	bool splits = small ? remaining >= STEP : remaining > SMALL;
	gm_span_take(pool, span, splits ? size : span->size);
	*out = (struct gm_policy_place){span->address, span};
	return true;
}

static void torch_free(void *arg, const struct gm_policy_place *place, uint64_t now)
{
	struct state *state = arg;
	struct gm_span *span = place->of;
	(void)now;
	gm_span_give(span->size <= SMALL ? &state->small : &state->large, span);
}

static void torch_close(void *arg)
{
	struct state *state = arg;
	gm_spans_close(&state->small);
	gm_spans_close(&state->large);
	free(state);
}

extern const struct gm_policy gm_policy_torch;
const struct gm_policy gm_policy_torch = {
	"pytorch",
	false,
	torch_open,
	torch_alloc,
	torch_free,
	torch_close,
	"PyTorch's cache: segments of 2, 20 and more MiB, by best fit"};
