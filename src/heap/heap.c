/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a heap, and its end. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/size.h"
#include "heap/host.h"
#include "pool/fence.h"
#include "pool/knobs.h"

#define MOST_ADDRESSES (1024 * GM_GIB)
#define TIMES_LIMIT 4 /* addresses for a heap's limit: runs need them side by side */
#define BOOKS_SHARE 8 /* of the limit, at most, for the books of addresses beyond it */

uint64_t gm_heap_limit(const struct gm_knobs *knobs, uint64_t total)
{
	return gm_pool_knob_bytes(knobs->heap_limit, total);
}

const char *gm_heap_wanted(const struct gm_knobs *knobs)
{
	static const char *const special[] = {[GM_HEAP_AUTO] = "granule", [GM_HEAP_OFF] = NULL};
	unsigned choice = knobs->heap.choice;
	return choice <= GM_HEAP_OFF ? special[choice]
				     : gm_heap_policy_name(choice - GM_HEAP_OFF - 1);
}

/* --- how large --- */

/* Where the parts of the books are, from their beginning; the last is their end. */
enum part { FREE_WORDS, FREE_SUMMARY, RUNS, POLICY, END, PARTS };

static uint32_t summaries_of(uint32_t capacity)
{
	return (capacity + 4095) / 4096;
}

static void lay_out(unsigned policy, uint32_t capacity, uint64_t at[PARTS])
{
	const uint64_t sizes[] = {
		sizeof(struct gm_heap),
		(capacity + 63) / 64 * sizeof(uint64_t),
		summaries_of(capacity) * sizeof(uint64_t),
		capacity * sizeof(uint32_t),
		gm_heap_policy_bytes(policy, capacity),
	};
	uint64_t end = 0;
	for (unsigned part = 0; part < PARTS; part++)
		at[part] = end = gm_round_up(end + sizes[part], GM_LINE);
}

static uint64_t books_of(unsigned policy, uint32_t capacity)
{
	uint64_t at[PARTS];
	lay_out(policy, capacity, at);
	return gm_round_up(at[END], GM_GRANULE);
}

static uint32_t half(const struct gm_heap_host *heap, uint32_t capacity)
{
	return capacity / 2 > heap->limit ? capacity / 2 : heap->limit;
}

/* Fewer addresses where they are not to be had, or their books are out of proportion. */
static CUresult reserve(struct gm_heap_host *heap)
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
	       books_of(heap->policy, capacity) >
		       ((uint64_t)heap->limit << GM_GRANULE_SHIFT) / BOOKS_SHARE)
		capacity = half(heap, capacity);
	for (;; capacity = half(heap, capacity)) {
		heap->capacity = capacity;
		heap->own = books_of(heap->policy, capacity);
		heap->addresses = heap->own + ((uint64_t)capacity << GM_GRANULE_SHIFT);
		CUresult result = driver->cuMemAddressReserve(&heap->reserved, heap->addresses,
							      GM_GRANULE, 0, 0);
		if (result == CUDA_SUCCESS || capacity == heap->limit)
			return result;
	}
}

/* --- one part after the other; what is there is not NULL --- */

static CUresult map_books(struct gm_heap_host *heap)
{
	CUresult result = gm_pool_lend(heap->config.pool, heap->reserved, heap->own);
	if (result == CUDA_SUCCESS)
		heap->device = heap->reserved;
	return result;
}

static size_t shared_bytes(void)
{
	return gm_round_up(sizeof(struct gm_heap_shared), 4096);
}

/* Pages of our own rather than the driver's, which go with the context while the service reads. */
static CUresult share(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	void *pages = mmap(NULL, shared_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	if (pages == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = driver->cuMemHostRegister_v2(
		pages, shared_bytes(), CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result != CUDA_SUCCESS) {
		munmap(pages, shared_bytes());
		return result;
	}
	heap->shared = pages;
	heap->registered = true;
	return driver->cuMemHostGetDevicePointer_v2(&heap->shared_device, pages, 0);
}

static CUresult function(struct gm_heap_host *heap, CUfunction *out, const char *job,
			 const char *symbol)
{
	char name[64];
	snprintf(name, sizeof name, "gm_heap_%s%s", job, symbol);
	return heap->config.driver->cuModuleGetFunction(out, heap->module, name);
}

static CUresult load(struct gm_heap_host *heap)
{
	const char *symbol = gm_heap_policy_symbol(heap->policy);
	CUresult result = heap->config.driver->cuModuleLoadData(&heap->module, heap->config.image);
	if (result == CUDA_SUCCESS)
		result = function(heap, &heap->set_up, "set_up", "");
	if (result == CUDA_SUCCESS)
		result = function(heap, &heap->init, "init_", symbol);
	if (result == CUDA_SUCCESS)
		result = function(heap, &heap->trim, "trim_", symbol);
	if (result == CUDA_SUCCESS)
		result = function(heap, &heap->stats, "stats_", symbol);
	return result == CUDA_ERROR_NOT_FOUND ? CUDA_ERROR_INVALID_IMAGE : result;
}

static CUresult make_stream(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	CUresult result = driver->cuStreamCreate(&heap->stream, CU_STREAM_NON_BLOCKING);
	return result == CUDA_SUCCESS ? driver->cuEventCreate(&heap->ran, CU_EVENT_DISABLE_TIMING)
				      : result;
}

static CUresult add_first(struct gm_heap_host *heap)
{
	return gm_heap_add_chunk(heap, heap->limit < GM_HEAP_FIRST ? heap->limit : GM_HEAP_FIRST);
}

static void *on_device(const struct gm_heap_host *heap, uint64_t at)
{
	return (void *)(uintptr_t)(heap->device + at);
}

static CUresult set_up(struct gm_heap_host *heap)
{
	uint64_t at[PARTS];
	lay_out(heap->policy, heap->capacity, at);
	heap->shared->job.heap = (struct gm_heap){
		.base = heap->reserved + heap->own,
		.capacity = heap->capacity,
		.summaries = summaries_of(heap->capacity),
		.low = GM_HEAP_LOW,
		.mail = (struct gm_mailbox *)(uintptr_t)(heap->shared_device +
							 offsetof(struct gm_heap_shared, mail)),
		.policy = on_device(heap, at[POLICY]),
		.free = {on_device(heap, at[FREE_WORDS]), on_device(heap, at[FREE_SUMMARY])},
		.run = on_device(heap, at[RUNS]),
	};
	CUresult result =
		heap->config.driver->cuMemsetD8Async(heap->device, 0, heap->own, heap->stream);
	if (result == CUDA_SUCCESS)
		result = gm_heap_run(heap, heap->set_up, 1);
	return result == CUDA_SUCCESS ? gm_heap_run(heap, heap->init, GM_INIT_THREADS) : result;
}

static CUresult build(struct gm_heap_host *heap)
{
	static CUresult (*const steps[])(struct gm_heap_host *) = {
		reserve, map_books, share, load, make_stream, add_first, set_up,
	};
	CUresult result = CUDA_SUCCESS;
	for (size_t i = 0; i < sizeof steps / sizeof *steps && result == CUDA_SUCCESS; i++)
		result = steps[i](heap);
	return result;
}

/* --- in the context --- */

struct within {
	const struct gm_driver *driver;
	CUstreamCaptureMode mode;
};

static CUresult enter(struct gm_heap_host *heap, struct within *within)
{
	within->driver = heap->config.driver;
	within->mode = gm_driver_quiet_begin(within->driver);
	CUresult result = within->driver->cuCtxPushCurrent_v2(heap->config.context->handle);
	if (result != CUDA_SUCCESS)
		gm_driver_quiet_end(within->driver, within->mode);
	return result;
}

static void leave(const struct within *within)
{
	CUcontext popped;
	within->driver->cuCtxPopCurrent_v2(&popped);
	gm_driver_quiet_end(within->driver, within->mode);
}

/* What ends with the context by itself: the handles may be others' then. */
static void drop_from_context(struct gm_heap_host *heap)
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

/* Give back what lies under the addresses, and these. */
static void drop_memory(struct gm_heap_host *heap)
{
	for (size_t i = 0; i < heap->chunks.n; i++)
		heap->chunks.at[i].state = GM_CHUNK_LEAVING;
	gm_heap_drop_chunks(heap);
	if (heap->device)
		gm_pool_take_back(heap->config.pool, heap->device, heap->own);
	if (heap->reserved)
		heap->config.driver->cuMemAddressFree(heap->reserved, heap->addresses);
	heap->device = heap->reserved = 0;
}

static void free_host(struct gm_heap_host *heap)
{
	if (heap->shared)
		munmap(heap->shared, shared_bytes());
	gm_array_free(&heap->chunks);
	if (gm_heap_is_ours(heap)) {
		pthread_cond_destroy(&heap->trimmed);
		gm_lock_destroy(&heap->lock);
	}
	free(heap);
}

/* --- the two calls --- */

static bool can_make(const struct gm_heap_config *config)
{
	const struct gm_driver *driver = config->driver;
	return config->image && driver->cuLaunchKernel && driver->cuMemHostGetDevicePointer_v2 &&
	       driver->cuMemHostRegister_v2 && driver->cuMemHostUnregister &&
	       driver->cuModuleGetFunction && driver->cuModuleLoadData && driver->cuModuleUnload &&
	       driver->cuStreamGetId && driver->cuStreamWriteValue32_v2;
}

CUresult gm_heap_create(const struct gm_heap_config *config, struct gm_heap_host **out)
{
	struct within within;
	int policy = gm_heap_policy(config->policy ? config->policy : "granule");
	if (policy < 0 || !can_make(config))
		return CUDA_ERROR_NOT_SUPPORTED;
	struct gm_heap_host *heap = calloc(1, sizeof *heap);
	if (!heap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	heap->config = *config;
	heap->policy = (unsigned)policy;
	heap->generation = gm_heap_generation();
	gm_lock_init(&heap->lock, GM_RANK_TABLE);
	pthread_cond_init(&heap->trimmed, NULL);
	CUresult result = enter(heap, &within);
	if (result == CUDA_SUCCESS) {
		result = build(heap);
		if (result != CUDA_SUCCESS)
			drop_from_context(heap);
		leave(&within);
	}
	if (result == CUDA_SUCCESS) {
		gm_heap_note_made(heap);
		*out = heap;
		return result;
	}
	drop_memory(heap);
	free_host(heap);
	return result;
}

void gm_heap_destroy(struct gm_heap_host *heap)
{
	struct within within;
	enum gm_fenced fenced;
	gm_heap_stop(heap);
	if (gm_heap_begin_calls(heap)) {
		gm_fence((void *)heap->config.driver, heap->config.context->key, false, &fenced);
		if (atomic_load(&heap->stale) && !atomic_load(&heap->config.context->gone))
			gm_heap_read(heap, gm_heap_run_alive);
		gm_heap_note_end(heap);
		if (!atomic_load(&heap->config.context->gone) &&
		    enter(heap, &within) == CUDA_SUCCESS) {
			drop_from_context(heap);
			leave(&within);
		}
		drop_memory(heap);
		gm_heap_end_calls();
	}
	free_host(heap);
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
	gm_heap_note_end(heap);
	heap->module = NULL;
	heap->stream = NULL;
	heap->ran = NULL;
	heap->registered = false;
	if (gm_heap_begin_calls(heap)) {
		drop_memory(heap);
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
