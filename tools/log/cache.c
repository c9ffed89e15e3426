/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/cache.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* The number of blocks from the first on that begin at `address` or below. */
static size_t blocks_until(const struct gm_cache_block *blocks, size_t n, uint64_t address)
{
	size_t low = 0, high = n;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (blocks[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A segment that begins repeats the live blocks; of a damaged log, blocks may overlap. */
static void block_add(struct gm_cache_device *cache, const struct gm_record *r)
{
	const uint64_t most = UINT64_MAX - r->address;
	const struct gm_cache_block block = {
		r->address, r->address + (r->size < most ? r->size : most), r->id, false};
	const size_t i = blocks_until(cache->alive.at, cache->alive.n, r->address);
	struct gm_cache_block *at = cache->alive.at;
	if (i > 0 && at[i - 1].address == r->address) {
		if (at[i - 1].id != r->id)
			at[i - 1] = block;
		return;
	}
	if (!gm_array_push(&cache->alive, block))
		memory_exhausted();
	at = cache->alive.at;
	memmove(at + i + 1, at + i, (cache->alive.n - 1 - i) * sizeof *at);
	at[i] = block;
}

static void block_remove(struct gm_cache_device *cache, const struct gm_record *r)
{
	struct gm_cache_block *at = cache->alive.at;
	size_t *n = &cache->alive.n;
	const size_t i = blocks_until(at, *n, r->address);
	if (i == 0 || at[i - 1].id != r->id)
		return;
	memmove(at + i - 1, at + i, (*n - i) * sizeof *at);
	--*n;
}

static void tensor_add(struct gm_cache_device *cache, const struct gm_record *r)
{
	struct gm_cache_block *at = cache->alive.at;
	const size_t i = blocks_until(at, cache->alive.n, r->address);
	if (i == 0 || r->address >= at[i - 1].end || at[i - 1].segment)
		return;
	at[i - 1].segment = true;
	if (!gm_array_push(&cache->segments, at[i - 1].id))
		memory_exhausted();
}

static int id_compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void gm_cache_find(struct gm_cache *cache, struct gm_log_file *file)
{
	struct gm_log_entry entry;
	const struct gm_record *r = &entry.record;
	*cache = (struct gm_cache){0};
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		if (r->device >= GM_COUNTER_DEVICES || r->status)
			continue;
		struct gm_cache_device *device = &cache->devices[r->device];
		if (r->kind == GM_RECORD_ALLOCATE || r->kind == GM_RECORD_LIVE)
			block_add(device, r);
		else if (r->kind == GM_RECORD_FREE)
			block_remove(device, r);
		else if (r->kind == GM_RECORD_TENSOR || r->kind == GM_RECORD_TENSOR_LIVE)
			tensor_add(device, r);
	}
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		struct gm_cache_device *device = &cache->devices[d];
		gm_array_free(&device->alive);
		if (device->segments.n)
			qsort(device->segments.at, device->segments.n, sizeof *device->segments.at,
			      id_compare);
	}
}

bool gm_cache_has(const struct gm_cache *cache, unsigned device, uint64_t id)
{
	const struct gm_cache_device *of = &cache->devices[device];
	return of->segments.n &&
	       bsearch(&id, of->segments.at, of->segments.n, sizeof id, id_compare);
}

void gm_cache_free(struct gm_cache *cache)
{
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		gm_array_free(&cache->devices[d].alive);
		gm_array_free(&cache->devices[d].segments);
	}
}
