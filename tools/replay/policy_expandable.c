/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of PyTorch's caching allocator with expandable segments, for one stream: written after
 * c10/cuda/CUDACachingAllocator.cpp of PyTorch at commit 001074d25084 (late 2024, after 2.5).
 *   - Requests are rounded up to 512 bytes. Requests up to 1 MiB share one range of addresses, with
 *     pages of 2 MiB; larger requests share another, with pages of 20 MiB.
 *   - A request takes the smallest free block that fits. The size of a block includes the unmapped
 *     addresses behind it. The rest is split off if it has 512 bytes or more.
 *   - If no block fits, the first free addresses with room, mapped or not, get their missing pages.
 *   - When the driver refuses, all pages in free blocks are unmapped and returned, and the request
 *     is retried once.
 * Not modelled: streams and events, graphs, garbage collection, max_split_size.
 */
#include <stdlib.h>

#include "base/size.h"
#include "tools/replay/policy.h"
#include "tools/replay/policy_area.h"

#define STEP ((uint64_t)512)
#define SMALL GM_MIB /* the largest small request */
#define SMALL_PAGE (2 * GM_MIB)
#define LARGE_PAGE (20 * GM_MIB)

struct state {
	struct gm_area small, large;
};

static void *expandable_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	struct state *state = gm_policy_make(sizeof *state);
	(void)limit;
	gm_area_open(&state->small, driver, memory, SMALL_PAGE);
	gm_area_open(&state->large, driver, memory, LARGE_PAGE);
	return state;
}

static void areas_unmap(struct state *state)
{
	gm_area_unmap(&state->large);
	gm_area_unmap(&state->small);
}

/* --- allocation --- */

static struct gm_area *state_area(struct state *state, uint64_t size)
{
	return size <= SMALL ? &state->small : &state->large;
}

static bool expandable_alloc(void *arg, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	struct state *state = arg;
	(void)now;
	size = gm_round_up(size, STEP);
	struct gm_area *area = state_area(state, size);
	struct gm_span *span = gm_area_fit(area, size);
	if (!span && !(span = gm_area_grow(area, size))) {
		areas_unmap(state);
		if (!(span = gm_area_grow(area, size)))
			return false;
	}
	gm_span_take(&area->spans, span, size);
	*out = (struct gm_policy_place){span->address, span};
	return true;
}

static void expandable_free(void *arg, const struct gm_policy_place *place, uint64_t now)
{
	struct gm_span *span = place->of;
	struct gm_area *area = state_area(arg, span->size);
	(void)now;
	gm_span_give(&area->spans, span);
}

static void expandable_close(void *arg)
{
	struct state *state = arg;
	gm_area_close(&state->small);
	gm_area_close(&state->large);
	free(state);
}

extern const struct gm_policy gm_policy_expandable;
const struct gm_policy gm_policy_expandable = {
	"expandable",
	false,
	expandable_open,
	expandable_alloc,
	expandable_free,
	expandable_close,
	"PyTorch with expandable_segments:True: pages of 2 and 20 MiB"};
