/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/sites.h"

#include <stdlib.h>
#include <string.h>

#include "heap/chunks/chunks.h"
#include "heap/policy.h"
#include "heap/record.h"
#include "log/log.h"

/* Granules whose numbers fill one granule of memory. */
#define GRANULES_A_PAGE (GM_SITE_NUMBERED / (uint32_t)sizeof(uint16_t))

_Static_assert((int)GM_HEAP_SITE_WORDS == (int)GM_SITE_WORDS,
	       "the shim sees all the code that is read");

void gm_heap_sites_open(struct gm_heap_host *heap)
{
	const char *policy = gm_heap_policy_name(heap->policy);
	if (!heap->config.sites || strcmp(policy, "granule") != 0)
		return;
	heap->sited = calloc(GM_SITES, sizeof *heap->sited);
	atomic_store(&heap->sites, heap->sited != NULL);
}

bool gm_heap_has_sites(const struct gm_heap_host *heap)
{
	return atomic_load(&heap->sites);
}

static uint64_t pages_of(uint32_t granules)
{
	return (granules + GRANULES_A_PAGE - 1) / GRANULES_A_PAGE;
}

uint64_t gm_heap_sites_addresses(const struct gm_heap_host *heap)
{
	return atomic_load(&heap->sites) ? pages_of(heap->capacity) << GM_GRANULE_SHIFT : 0;
}

static CUdeviceptr page_address(const struct gm_heap_host *heap, uint64_t page)
{
	return gm_heap_chunk_address(heap, heap->capacity) + (page << GM_GRANULE_SHIFT);
}

void gm_heap_sites_set_up(struct gm_heap_host *heap, CUdeviceptr counts)
{
	struct gm_heap_shared *shared = heap->shared;
	CUdeviceptr read = heap->shared_device + offsetof(struct gm_heap_shared, sites);
	shared->job.heap.sites = (struct gm_sites *)(uintptr_t)counts;
	shared->job.heap.numbers = (uint16_t *)(uintptr_t)page_address(heap, 0);
	shared->job.sites = shared->reading.sites = (struct gm_sites_read *)(uintptr_t)read;
}

/* --- memory of the numbers --- */

static bool page_is_mapped(const struct gm_heap_host *heap, uint32_t page)
{
	for (size_t i = 0; i < heap->numbered.n; i++)
		if (page - heap->numbered.at[i].first < heap->numbered.at[i].count)
			return true;
	return false;
}

static CUresult pages_map(struct gm_heap_host *heap, uint32_t first, uint32_t count)
{
	const struct gm_heap_run run = {first, count};
	if (!gm_array_reserve(&heap->numbered, heap->numbered.n + 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = gm_pool_lend(heap->config.pool, page_address(heap, first),
				       gm_heap_chunk_bytes(count));
	if (result != CUDA_SUCCESS)
		return result;
	heap->numbered.at[heap->numbered.n++] = run;
	atomic_fetch_add(&heap->numbered_bytes, gm_heap_chunk_bytes(count));
	return result;
}

CUresult gm_heap_sites_cover(struct gm_heap_host *heap, uint32_t first, uint32_t count)
{
	CUresult result = CUDA_SUCCESS;
	if (!atomic_load(&heap->sites))
		return result;
	uint32_t end = (uint32_t)pages_of(first + count);
	for (uint32_t page = first / GRANULES_A_PAGE, n; page < end && result == CUDA_SUCCESS;
	     page += n ? n : 1) {
		for (n = 0; page + n < end && !page_is_mapped(heap, page + n);)
			n++;
		if (n)
			result = pages_map(heap, page, n);
	}
	return result;
}

void gm_heap_sites_drop(struct gm_heap_host *heap)
{
	for (size_t i = 0; i < heap->numbered.n; i++)
		gm_pool_take_back(heap->config.pool, page_address(heap, heap->numbered.at[i].first),
				  gm_heap_chunk_bytes(heap->numbered.at[i].count));
	heap->numbered.n = 0;
	atomic_store(&heap->numbered_bytes, 0);
}

/* --- the beginning --- */

void gm_heap_sites_begin(struct gm_heap_host *heap, bool on)
{
	const struct gm_driver *driver = heap->config.driver;
	if (!atomic_load(&heap->sites))
		return;
	CUdeviceptr counts = (CUdeviceptr)(uintptr_t)heap->shared->job.heap.sites;
	CUresult result = driver->cuMemsetD8Async(counts, 0, sizeof(struct gm_sites), heap->stream);
	if (result == CUDA_SUCCESS)
		result = driver->cuStreamSynchronize(heap->stream);
	if (on && result == CUDA_SUCCESS)
		return;
	gm_lock_take(&heap->lock);
	heap->shared->job.sites = heap->shared->reading.sites = NULL;
	atomic_store(&heap->sites, false);
	gm_lock_release(&heap->lock);
}

/* --- the log --- */

static uint64_t clip(uint64_t value)
{
	return value < UINT32_MAX ? value : UINT32_MAX;
}

static struct gm_record record_begin(const struct gm_heap_host *heap, unsigned kind,
				     uint32_t number, unsigned flags)
{
	const struct gm_context *context = heap->config.context;
	return (struct gm_record){
		.id = number,
		.context = (uint32_t)context->key,
		.flags = (uint16_t)flags,
		.device = (uint8_t)context->ordinal,
		.kind = (uint8_t)kind,
	};
}

/* The record that names a site. The search for its place takes long, so it is made once. */
static struct gm_record site_name(const struct gm_heap_host *heap, uint32_t number)
{
	const struct gm_heap_site site = {heap->sited[number].last.address,
					  heap->shared->sites.code[number].word};
	struct gm_record record = record_begin(heap, GM_RECORD_SITE, number, 0);
	struct gm_image_place *place = calloc(1, sizeof *place); /* too large for a stack */
	record.address = site.address;
	if (place && site.address && heap->config.site_find &&
	    heap->config.site_find(&site, place)) {
		record.size = place->offset;
		record.string = *place->function ? gm_log_string(place->function) : 0;
		record.held = *place->file ? gm_log_string(place->file) : 0;
		record.held |= (uint64_t)place->line << 32;
	}
	free(place);
	return record;
}

static void site_record_name(struct gm_heap_host *heap, uint32_t number, unsigned flags)
{
	struct gm_record *name = &heap->sited[number].name;
	if (!name->kind)
		*name = site_name(heap, number);
	struct gm_record record = *name;
	record.flags = (uint16_t)flags;
	gm_log_put(&record);
}

static void site_record(struct gm_heap_host *heap, uint32_t number, unsigned flags)
{
	const struct gm_heap_sited *site = &heap->sited[number];
	const uint64_t *at = site->last.at;
	if (!site->name.kind || flags)
		site_record_name(heap, number, flags);
	struct gm_record blocks = record_begin(heap, GM_RECORD_SITE_BLOCKS, number, flags);
	blocks.address = at[GM_SITE_BYTES] - at[GM_SITE_FREED_BYTES];
	blocks.size = at[GM_SITE_MALLOCS] - at[GM_SITE_FREES];
	blocks.held = site->peak;
	gm_log_put(&blocks);
	struct gm_record calls = record_begin(heap, GM_RECORD_SITE_CALLS, number, flags);
	calls.address = at[GM_SITE_MALLOCS];
	calls.size = at[GM_SITE_NULLS];
	calls.held = clip(at[GM_SITE_TWICE]) | clip(at[GM_SITE_INVALID]) << 32;
	gm_log_put(&calls);
}

/* What was freed: not less than nothing, which frees of a block by several lanes at once can leave,
 * and not more than was allocated, which a free that was read before its malloc can. */
static uint64_t freed_of(uint64_t freed, uint64_t allocated)
{
	if (freed > INT64_MAX)
		return 0;
	return freed < allocated ? freed : allocated;
}

/* Take a site's figures out of a reading; true: they changed. */
static bool site_take(struct gm_heap_host *heap, uint32_t number)
{
	const struct gm_site_figures *read = &heap->shared->sites.figures[number];
	struct gm_heap_sited *site = &heap->sited[number];
	struct gm_site_figures now = {.address = __atomic_load_n(&read->address, __ATOMIC_ACQUIRE)};
	uint64_t any = 0;
	for (unsigned kind = 0; kind < GM_SITE_COUNTS; kind++) {
		now.at[kind] = __atomic_load_n(&read->at[kind], __ATOMIC_RELAXED);
		any |= now.at[kind];
	}
	now.at[GM_SITE_FREES] = freed_of(now.at[GM_SITE_FREES], now.at[GM_SITE_MALLOCS]);
	now.at[GM_SITE_FREED_BYTES] = freed_of(now.at[GM_SITE_FREED_BYTES], now.at[GM_SITE_BYTES]);
	if (!(any || now.address) || memcmp(&now, &site->last, sizeof now) == 0)
		return false;
	uint64_t live = now.at[GM_SITE_BYTES] - now.at[GM_SITE_FREED_BYTES];
	site->last = now;
	site->peak = site->peak > live ? site->peak : live;
	return true;
}

void gm_heap_sites_blind(struct gm_heap_host *heap, unsigned readings)
{
	if (atomic_load(&heap->sites))
		__atomic_store_n(&heap->shared->sites.blind, readings, __ATOMIC_SEQ_CST);
}

static void reading_was_blind(struct gm_heap_host *heap)
{
	uint64_t *blind = &heap->shared->sites.blind; /* there, if the heap has sites */
	if (!atomic_load(&heap->sites))
		return;
	uint64_t due = __atomic_load_n(blind, __ATOMIC_RELAXED);
	if (due)
		__atomic_compare_exchange_n(blind, &due, due - 1, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
}

void gm_heap_sites_record(struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	reading_was_blind(heap);
	for (uint32_t i = 0; atomic_load(&heap->sites) && i < GM_SITES; i++)
		if (site_take(heap, i))
			site_record(heap, i, 0);
}

void gm_heap_sites_record_last(struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (uint32_t i = 0; atomic_load(&heap->sites) && i < GM_SITES; i++)
		if (heap->sited[i].name.kind)
			site_record(heap, i, GM_RECORD_LAST);
}
