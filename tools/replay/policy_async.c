/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of PyTorch's backend cudaMallocAsync, for one stream. PyTorch sets the release threshold
 * of the device's pool to the largest number, so no synchronisation returns memory. The driver's
 * pool has no public source. The model follows the reserved memory seen from outside (driver 580):
 * the peak of a training is that of its blocks and some pages, not of segments.
 *   - Requests are rounded up to 512 bytes; a freed block is reused at once.
 *   - All blocks share one range of addresses, mapped by pages of 32 MiB (policy_area.h).
 *   - When the device is full, all pages in free blocks are returned, and the request is retried
 *     once.
 */
#include <stdlib.h>

#include "base/size.h"
#include "tools/replay/policy.h"
#include "tools/replay/policy_area.h"

#define STEP ((uint64_t)512)
#define PAGE (32 * GM_MIB)

static void *async_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	struct gm_area *area = gm_policy_make(sizeof *area);
	(void)limit;
	gm_area_open(area, driver, memory, PAGE);
	return area;
}

static bool async_alloc(void *arg, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	struct gm_area *area = arg;
	(void)now;
	size = gm_round_up(size, STEP);
	struct gm_span *span = gm_area_fit(area, size);
	if (!span && !(span = gm_area_grow(area, size))) {
		gm_area_unmap(area);
		if (!(span = gm_area_grow(area, size)))
			return false;
	}
	gm_span_take(&area->spans, span, size);
	*out = (struct gm_policy_place){span->address, span};
	return true;
}

static void async_free(void *arg, const struct gm_policy_place *place, uint64_t now)
{
	struct gm_area *area = arg;
	(void)now;
	gm_span_give(&area->spans, place->of);
}

static void async_close(void *arg)
{
	gm_area_close(arg);
	free(arg);
}

extern const struct gm_policy gm_policy_async;
const struct gm_policy gm_policy_async = {"malloc-async",
					  false,
					  async_open,
					  async_alloc,
					  async_free,
					  async_close,
					  "PyTorch with backend:cudaMallocAsync: pages of 32 MiB"};
