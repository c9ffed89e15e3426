/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/replay/policy_area.h"

#include <stdlib.h>

#include "tools/replay/policy.h"

/* `page` need not be a power of two. */
static uint64_t pages_up(uint64_t size, uint64_t page)
{
	return (size + page - 1) / page * page;
}

void gm_area_open(struct gm_area *area, const struct gm_driver *driver, uint64_t memory,
		  uint64_t page)
{
	/* PyTorch reserves further ranges of 9/8 of the memory when one is full; the model has one
	 * long range. */
	uint64_t size = pages_up(8 * memory, page);
	*area = (struct gm_area){.driver = driver, .page = page};
	area->spans.by_size = true;
	area->handles = gm_policy_make(size / page * sizeof *area->handles);
	driver->cuMemAddressReserve(&area->base, size, 0, 0, 0);
	area->first = gm_span_reserve(area->base, size);
}

/* --- pages --- */

static void pages_return(struct gm_area *area, uint64_t from, uint64_t end)
{
	for (uint64_t at = from; at < end; at += area->page) {
		CUmemGenericAllocationHandle *handle =
			&area->handles[(at - area->base) / area->page];
		area->driver->cuMemUnmap(at, area->page);
		area->driver->cuMemRelease(*handle);
		*handle = 0;
	}
}

/* Create and map pages. False: the driver has no more memory; no page was made. */
static bool pages_make(struct gm_area *area, uint64_t from, uint64_t size)
{
	const struct gm_driver *driver = area->driver;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	for (uint64_t at = from; at < from + size; at += area->page) {
		CUmemGenericAllocationHandle *handle =
			&area->handles[(at - area->base) / area->page];
		if (driver->cuMemCreate(handle, area->page, &prop, 0) != CUDA_SUCCESS) {
			pages_return(area, from, at);
			return false;
		}
		driver->cuMemMap(at, area->page, 0, *handle, 0);
	}
	return driver->cuMemSetAccess(from, size, &access, 1) == CUDA_SUCCESS;
}

/* Unmap the pages that lie in a free span. */
static void span_unmap(void *arg, struct gm_span *span)
{
	struct gm_area *area = arg;
	uint64_t from = area->base + pages_up(span->address - area->base, area->page);
	uint64_t end = span->address + span->size;
	end -= (end - area->base) % area->page;
	if (from >= end)
		return;
	pages_return(area, from, end);
	gm_span_unmap(&area->spans, span, from, end);
}

void gm_area_unmap(struct gm_area *area)
{
	gm_span_each(&area->spans, span_unmap, area);
}

/* --- allocation --- */

/* The size of the span after mapping the absent span behind it. */
static uint64_t span_grown(const struct gm_span *span)
{
	const struct gm_span *next = span->after;
	return span->size + (next && next->absent ? next->size : 0);
}

struct gm_span *gm_area_fit(const struct gm_area *area, uint64_t size)
{
	struct gm_span *span = gm_span_find(&area->spans, size), *next = span;
	while (span && (next = gm_span_next(&area->spans, next)) &&
	       span_grown(next) < span_grown(span))
		span = next;
	return span;
}

/* The first run of absent and free spans with room for `size` bytes; it begins with an absent span,
 * or with a free span directly before one. NULL: the range is used up. */
static struct gm_span *area_room(const struct gm_area *area, uint64_t size)
{
	for (struct gm_span *hole = area->first; hole; hole = hole->after) {
		if (!hole->absent)
			continue;
		struct gm_span *from = hole->before && !hole->before->used ? hole->before : hole;
		uint64_t bytes = 0;
		for (struct gm_span *at = from; at && (at->absent || !at->used) && bytes < size;
		     at = at->after)
			bytes += at->size;
		if (bytes >= size)
			return from;
	}
	return NULL;
}

/* Map at least `size` bytes of an absent span, or all of it. Returns the free span of the new
 * pages; NULL: the driver has no more memory. */
static struct gm_span *area_map(struct gm_area *area, struct gm_span *hole, uint64_t size)
{
	size = pages_up(size < hole->size ? size : hole->size, area->page);
	if (!pages_make(area, hole->address, size))
		return NULL;
	return gm_span_map(&area->spans, hole, size);
}

struct gm_span *gm_area_grow(struct gm_area *area, uint64_t size)
{
	struct gm_span *span = area_room(area, size);
	if (span && span->absent)
		span = area_map(area, span, size);
	while (span && span->size < size)
		span = area_map(area, span->after, size - span->size);
	return span;
}

void gm_area_close(struct gm_area *area)
{
	for (struct gm_span *at = area->first, *next; at; at = next) {
		next = at->after;
		if (at->absent)
			free(at);
	}
	gm_spans_close(&area->spans);
	free(area->handles);
}
