/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/range.h"

#include <stdlib.h>

#include "base/debug.h"
#include "pool/pool.h"

static struct gm_run *run_new(CUdeviceptr base, uint64_t size)
{
	struct gm_run *run = malloc(sizeof *run);
	if (run)
		*run = (struct gm_run){.base = base, .size = size};
	return run;
}

CUresult gm_range_open(struct gm_range *range, const struct gm_driver *driver, uint64_t want,
		       uint64_t least)
{
	*range = (struct gm_range){0};
	range->free = run_new(0, 0);
	if (!range->free)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	for (uint64_t size = want; size >= least && size; size /= 2) {
		size -= size % GM_POOL_GRANULE;
		result = driver->cuMemAddressReserve(&range->base, size, GM_POOL_GRANULE, 0, 0);
		if (result == CUDA_SUCCESS) {
			range->size = size;
			*range->free = (struct gm_run){.base = range->base, .size = size};
			return CUDA_SUCCESS;
		}
	}
	free(range->free);
	range->free = NULL;
	return result;
}

void gm_range_close(struct gm_range *range, const struct gm_driver *driver)
{
	if (range->size)
		driver->cuMemAddressFree(range->base, range->size);
	for (struct gm_run *run = range->free, *next; run; run = next) {
		next = run->next;
		free(run);
	}
	*range = (struct gm_range){0};
}

/* Take the first `size` bytes of the free run at *link. */
static struct gm_run *run_take(struct gm_range *range, struct gm_run **link, uint64_t size)
{
	struct gm_run *found = *link, *taken = found;
	if (!found)
		return NULL;
	if (found->size == size) {
		*link = found->next;
	} else {
		taken = run_new(found->base, size);
		if (!taken)
			return NULL;
		found->base += size;
		found->size -= size;
	}
	taken->next = NULL;
	range->taken += size;
	return taken;
}

struct gm_run *gm_range_take(struct gm_range *range, uint64_t size)
{
	struct gm_run **link = &range->free;
	while (*link && (*link)->size < size)
		link = &(*link)->next;
	return run_take(range, link, size);
}

struct gm_run *gm_range_take_at(struct gm_range *range, CUdeviceptr base, uint64_t size)
{
	struct gm_run **link = &range->free;
	while (*link && ((*link)->base != base || (*link)->size < size))
		link = &(*link)->next;
	return run_take(range, link, size);
}

struct gm_run *gm_range_cut(struct gm_run *run, uint64_t size)
{
	GM_ASSERT(size > 0 && size < run->size);
	struct gm_run *rest = run_new(run->base + size, run->size - size);
	if (rest)
		run->size = size;
	return rest;
}

/* Join `run` with `next`, its successor in the list, if the two touch. */
static void run_join(struct gm_run *run, struct gm_run *next)
{
	if (!next || run->base + run->size != next->base)
		return;
	run->size += next->size;
	run->next = next->next;
	free(next);
}

void gm_range_put(struct gm_range *range, struct gm_run *run)
{
	struct gm_run *before = NULL, **link = &range->free;
	while (*link && (*link)->base < run->base) {
		before = *link;
		link = &before->next;
	}
	range->taken -= run->size;
	run->next = *link;
	*link = run;
	run_join(run, run->next);
	if (before)
		run_join(before, run);
}

const char *gm_range_check(const struct gm_range *range)
{
	uint64_t total = 0;
	CUdeviceptr end = range->base;
	for (const struct gm_run *run = range->free; run; run = run->next) {
		if (run->base < end || (total && run->base == end))
			return "free addresses are sorted and joined";
		if (run->size == 0 || run->base % GM_POOL_GRANULE || run->size % GM_POOL_GRANULE)
			return "free addresses come in granules";
		end = run->base + run->size;
		total += run->size;
	}
	if (end > range->base + range->size)
		return "free addresses lie in the range";
	return total + range->taken == range->size ? NULL : "addresses are free or taken";
}
