/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A heap's addresses are reserved at once; its memory is mapped as needed:
 *
 *   reserved (= device)                                                     reserved + addresses
 *   |<--------------- own: the books ----------------->|<----- granules: capacity ---->|
 *   | gm_heap | free words | ... | policy's | site counts | chunk | hole | chunk | ... | numbers |
 *
 * Site counts and numbers of sites are those of device/sites.h: only of a heap with sites.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/size.h"
#include "context/fence.h"
#include "heap/chunks/chunks.h"
#include "heap/kernel.h"
#include "heap/list.h"
#include "heap/policy.h"
#include "heap/process.h"
#include "heap/record.h"
#include "heap/sample.h"
#include "heap/sites.h"
#include "pool/knobs.h"

#define MOST_ADDRESSES (1024 * GM_GIB)
#define TIMES_LIMIT 4 /* addresses / limit: runs need granules side by side */
#define BOOKS_SHARE 8 /* books of addresses beyond the limit: at most 1 / this of the limit */

uint64_t gm_heap_limit(const struct gm_knobs *knobs, uint64_t total)
{
	return gm_pool_knob_bytes(knobs->heap_limit.share, total);
}

/* --- books and addresses --- */

/* Parts of the books behind struct gm_heap, and their end. */
enum books_part { FREE_WORDS, FREE_SUMMARY, RUNS, POLICY, SITES, END, PARTS };

static uint32_t books_summaries(uint32_t capacity)
{
	return (capacity + 4095) / 4096;
}

/* at[part]: bytes from the beginning of the books. */
static void books_lay_out(const struct gm_heap_host *heap, uint32_t capacity, uint64_t at[PARTS])
{
	const uint64_t sizes[] = {
		sizeof(struct gm_heap),
		(capacity + 63) / 64 * sizeof(uint64_t),
		books_summaries(capacity) * sizeof(uint64_t),
		capacity * sizeof(uint32_t),
		gm_heap_policy_bytes(heap->policy, capacity),
		heap->sites ? sizeof(struct gm_sites) : 0,
	};
	uint64_t end = 0;
	for (unsigned part = 0; part < PARTS; part++)
		at[part] = end = gm_round_up(end + sizes[part], GM_LINE);
}

static uint64_t books_bytes(const struct gm_heap_host *heap, uint32_t capacity)
{
	uint64_t at[PARTS];
	books_lay_out(heap, capacity, at);
	return gm_round_up(at[END], GM_GRANULE);
}

static uint32_t capacity_halve(const struct gm_heap_host *heap, uint32_t capacity)
{
	return capacity / 2 > heap->limit ? capacity / 2 : heap->limit;
}

/* Reserve fewer addresses if the driver has not as many, or if their books would be too large. */
static CUresult heap_reserve(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	uint64_t most = MOST_ADDRESSES >> GM_GRANULE_SHIFT,
		 limit = heap->config.limit >> GM_GRANULE_SHIFT;
	heap->limit = (uint32_t)(limit < most ? limit : most);
	uint64_t wish = TIMES_LIMIT * (uint64_t)heap->limit;
	uint32_t capacity = (uint32_t)(wish < most ? wish : most);
	if (heap->limit == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (capacity > heap->limit &&
	       books_bytes(heap, capacity) >
		       ((uint64_t)heap->limit << GM_GRANULE_SHIFT) / BOOKS_SHARE)
		capacity = capacity_halve(heap, capacity);
	for (;; capacity = capacity_halve(heap, capacity)) {
		heap->capacity = capacity;
		heap->own = books_bytes(heap, capacity);
		heap->addresses = heap->own + ((uint64_t)capacity << GM_GRANULE_SHIFT) +
				  gm_heap_sites_addresses(heap);
		CUresult result = driver->cuMemAddressReserve(&heap->reserved, heap->addresses,
							      GM_GRANULE, 0, 0);
		if (result == CUDA_SUCCESS || capacity == heap->limit)
			return result;
	}
}

/* --- the steps of gm_heap_create: the result of a completed step is not NULL --- */

static CUresult heap_map_books(struct gm_heap_host *heap)
{
	CUresult result = gm_pool_lend(heap->config.pool, heap->reserved, heap->own);
	if (result == CUDA_SUCCESS)
		heap->device = heap->reserved;
	return result;
}

static size_t shared_bytes(const struct gm_heap_host *heap)
{
	return gm_round_up(heap->sited ? sizeof(struct gm_heap_shared)
				       : offsetof(struct gm_heap_shared, sites),
			   4096);
}

/* Pages of our own: the driver's would end with the context, while the service thread reads
 * them. */
static CUresult heap_share(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	void *pages = mmap(NULL, shared_bytes(heap), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = driver->cuMemHostRegister_v2(pages, shared_bytes(heap),
						       CU_MEMHOSTREGISTER_PORTABLE |
							       CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result != CUDA_SUCCESS) {
		munmap(pages, shared_bytes(heap));
		return result;
	}
	heap->shared = pages;
	heap->registered = true;
	return driver->cuMemHostGetDevicePointer_v2(&heap->shared_device, pages, 0);
}

static CUresult heap_load(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	char name[64];
	snprintf(name, sizeof name, "gm_heap_run_%s", gm_heap_policy_symbol(heap->policy));
	CUresult result = driver->cuModuleLoadData(&heap->module, heap->config.image);
	if (result == CUDA_SUCCESS)
		result = driver->cuModuleGetFunction(&heap->kernel, heap->module, name);
	return result == CUDA_ERROR_NOT_FOUND ? CUDA_ERROR_INVALID_IMAGE : result;
}

static CUresult heap_make_stream(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	CUresult result = driver->cuStreamCreate(&heap->stream, CU_STREAM_NON_BLOCKING);
	return result == CUDA_SUCCESS ? driver->cuEventCreate(&heap->ran, CU_EVENT_DISABLE_TIMING)
				      : result;
}

static CUresult heap_add_first(struct gm_heap_host *heap)
{
	return gm_heap_add_chunk(heap, heap->limit < GM_HEAP_FIRST ? heap->limit : GM_HEAP_FIRST);
}

static void *books_address(const struct gm_heap_host *heap, uint64_t at)
{
	return (void *)(uintptr_t)(heap->device + at);
}

static CUresult heap_set_up(struct gm_heap_host *heap)
{
	uint64_t at[PARTS];
	books_lay_out(heap, heap->capacity, at);
	heap->shared->job.heap = (struct gm_heap){
		.base = heap->reserved + heap->own,
		.capacity = heap->capacity,
		.summaries = books_summaries(heap->capacity),
		.low = GM_HEAP_LOW,
		.mail = (struct gm_mailbox *)(uintptr_t)(heap->shared_device +
							 offsetof(struct gm_heap_shared, mail)),
		.policy = books_address(heap, at[POLICY]),
		.free = {books_address(heap, at[FREE_WORDS]),
			 books_address(heap, at[FREE_SUMMARY])},
		.run = books_address(heap, at[RUNS]),
	};
	if (heap->sites)
		gm_heap_sites_set_up(heap, heap->device + at[SITES]);
	CUresult result =
		heap->config.driver->cuMemsetD8Async(heap->device, 0, heap->own, heap->stream);
	return result == CUDA_SUCCESS ? gm_heap_run(heap, GM_JOB_SET_UP) : result;
}

/* The load is first: a heap takes no memory on a device that our code does not run on. */
static CUresult heap_build(struct gm_heap_host *heap)
{
	static CUresult (*const steps[])(struct gm_heap_host *) = {
		heap_load,	  heap_reserve,	  heap_map_books, heap_share,
		heap_make_stream, heap_add_first, heap_set_up,
	};
	CUresult result = CUDA_SUCCESS;
	for (size_t i = 0; i < sizeof steps / sizeof *steps && result == CUDA_SUCCESS; i++)
		result = steps[i](heap);
	return result;
}

/* --- with the heap's context current --- */

struct entered {
	const struct gm_driver *driver;
	CUstreamCaptureMode mode;
};

static CUresult heap_enter(struct gm_heap_host *heap, struct entered *entered)
{
	entered->driver = heap->config.driver;
	entered->mode = gm_driver_quiet_begin(entered->driver);
	CUresult result = entered->driver->cuCtxPushCurrent_v2(heap->config.context->handle);
	if (result != CUDA_SUCCESS)
		gm_driver_quiet_end(entered->driver, entered->mode);
	return result;
}

static void heap_leave(const struct entered *entered)
{
	CUcontext popped;
	entered->driver->cuCtxPopCurrent_v2(&popped);
	gm_driver_quiet_end(entered->driver, entered->mode);
}

/* Destroy the objects that end with the context: afterwards their handles may be others'. */
static void heap_drop_handles(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	if (heap->module)
		driver->cuModuleUnload(heap->module);
	if (heap->ran)
		driver->cuEventDestroy_v2(heap->ran);
	if (heap->stream)
		driver->cuStreamDestroy_v2(heap->stream);
	if (heap->registered)
		driver->cuMemHostUnregister(heap->shared);
}

/* Return the memory under the addresses, then the addresses. */
static void heap_drop_memory(struct gm_heap_host *heap)
{
	gm_heap_drop_slack(heap);
	for (size_t i = 0; i < heap->chunks.n; i++)
		if (heap->chunks.at[i].state != GM_CHUNK_SLACK)
			heap->chunks.at[i].state = GM_CHUNK_CLAIMED;
	gm_heap_drop_chunks(heap);
	gm_heap_sites_drop(heap);
	if (heap->device)
		gm_pool_take_back(heap->config.pool, heap->device, heap->own);
	if (heap->reserved)
		heap->config.driver->cuMemAddressFree(heap->reserved, heap->addresses);
	heap->device = heap->reserved = 0;
}

static void heap_free(struct gm_heap_host *heap)
{
	if (heap->shared)
		munmap(heap->shared, shared_bytes(heap));
	gm_array_free(&heap->chunks);
	gm_array_free(&heap->numbered);
	free(heap->sited);
	if (gm_heap_is_ours(heap)) {
		pthread_cond_destroy(&heap->admitted);
		gm_lock_destroy(&heap->lock);
	}
	free(heap);
}

/* --- beginning and end --- */

static bool config_is_supported(const struct gm_heap_config *config)
{
	const struct gm_driver *driver = config->driver;
	return config->image && driver->cuLaunchKernel && driver->cuMemHostGetDevicePointer_v2 &&
	       driver->cuMemHostRegister_v2 && driver->cuMemHostUnregister &&
	       driver->cuModuleGetFunction && driver->cuModuleLoadData && driver->cuModuleUnload &&
	       driver->cuStreamGetId && driver->cuStreamWriteValue32_v2;
}

CUresult gm_heap_create(const struct gm_heap_config *config, struct gm_heap_host **out)
{
	struct entered entered;
	int policy = gm_heap_policy(config->policy ? config->policy : "granule");
	if (policy < 0 || !config_is_supported(config))
		return CUDA_ERROR_NOT_SUPPORTED;
	struct gm_heap_host *heap = calloc(1, sizeof *heap);
	if (!heap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	heap->config = *config;
	heap->policy = (unsigned)policy;
	heap->generation = gm_heap_generation();
	gm_heap_sites_open(heap);
	gm_lock_init(&heap->lock, GM_LOCK_RANK_TABLE);
	pthread_cond_init(&heap->admitted, NULL);
	CUresult result = heap_enter(heap, &entered);
	if (result == CUDA_SUCCESS) {
		result = heap_build(heap);
		if (result != CUDA_SUCCESS)
			heap_drop_handles(heap);
		heap_leave(&entered);
	}
	if (result == CUDA_SUCCESS) {
		heap->born = gm_clock_ns();
		heap->shed_at = gm_heap_now(heap);
		gm_heap_record_made(heap);
		gm_heap_list_add(heap);
		*out = heap;
		return result;
	}
	heap_drop_memory(heap);
	heap_free(heap);
	return result;
}

/* Take the heap off the list, so that no thread reads it; write its last record. */
static void heap_unlist(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap))
		return;
	gm_heap_list_remove(heap);
	gm_heap_record_end(heap);
}

void gm_heap_destroy(struct gm_heap_host *heap)
{
	struct entered entered;
	enum gm_fenced fenced;
	gm_heap_stop(heap);
	if (gm_heap_begin_calls(heap)) {
		gm_fence((void *)heap->config.driver, heap->config.context->key, false, &fenced);
		if (atomic_load(&heap->stale) && !atomic_load(&heap->config.context->gone))
			gm_heap_read(heap, gm_heap_run_alive);
		heap_unlist(heap);
		if (!atomic_load(&heap->config.context->gone) &&
		    heap_enter(heap, &entered) == CUDA_SUCCESS) {
			heap_drop_handles(heap);
			heap_leave(&entered);
		}
		heap_drop_memory(heap);
		gm_heap_end_calls();
	}
	heap_free(heap);
}

void gm_heap_context_ending(struct gm_heap_host *heap)
{
	gm_heap_stop(heap);
}

void gm_heap_context_stays(struct gm_heap_host *heap)
{
	gm_heap_resume(heap);
}

void gm_heap_context_gone(struct gm_heap_host *heap)
{
	gm_heap_stop(heap);
	heap_unlist(heap);
	heap->module = NULL;
	heap->stream = NULL;
	heap->ran = NULL;
	heap->registered = false;
	if (gm_heap_begin_calls(heap)) {
		heap_drop_memory(heap);
		gm_heap_end_calls();
	}
}

CUdeviceptr gm_heap_device(const struct gm_heap_host *heap)
{
	return heap->device;
}

unsigned gm_heap_policy_of(const struct gm_heap_host *heap)
{
	return heap->policy;
}
