/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A range of addresses that grows by pages, for models of allocators on virtual memory:
 *   - A request takes the smallest free block that fits. The size of a block includes the unmapped
 *     addresses behind it. The rest is split off; free neighbours merge.
 *   - If no block fits, the first free addresses with room, mapped or not, get their missing pages.
 * One thread.
 */
#ifndef GM_REPLAY_POLICY_AREA_H
#define GM_REPLAY_POLICY_AREA_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"
#include "tools/replay/policy_span.h"

/* A range and its mapped pages. Absent spans begin and end at page boundaries. */
struct gm_area {
	const struct gm_driver *driver;
	struct gm_spans spans;
	struct gm_span *first; /* the span with the lowest address */
	CUdeviceptr base;
	uint64_t page;
	CUmemGenericAllocationHandle *handles; /* of each page; 0: it is absent */
};

/* A range of eight times `memory` bytes, in pages of `page`. Ends with gm_area_close. */
void gm_area_open(struct gm_area *area, const struct gm_driver *driver, uint64_t memory,
		  uint64_t page);
void gm_area_close(struct gm_area *area);

/* A free span of at least `size` bytes. _fit: a mapped one; NULL: none. _grow: one with new pages;
 * NULL: the driver has no more memory, or the range is used up. */
struct gm_span *gm_area_fit(const struct gm_area *area, uint64_t size);
struct gm_span *gm_area_grow(struct gm_area *area, uint64_t size);

/* Return all pages that lie in free spans. */
void gm_area_unmap(struct gm_area *area);

#endif
