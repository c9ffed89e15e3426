/* SPDX-License-Identifier: BSD-3-Clause */
#include "library/heaps.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/msg.h"
#include "heap/process.h"

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static GM_ARRAY(struct gm_heap_host *) heaps;

/* In a forked child: another thread of the parent may have held the lock. */
static void heaps_forget(void)
{
	gm_heap_forget_all();
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	heaps.n = 0;
}

static void heaps_watch_process(void)
{
	pthread_atfork(NULL, NULL, heaps_forget);
	atexit(gm_heap_exit);
}

static CUresult heap_create(const struct gm_heap_config *wanted, uint64_t total, uint64_t limit,
			    struct gm_heap_host **out)
{
	const struct gm_knobs *knobs = gm_knob_get();
	uint64_t most = gm_heap_limit(knobs, total);
	struct gm_heap_config config = *wanted;
	config.own = true;
	config.policy = "granule";
	config.limit = limit && limit < most ? limit : most;
	config.trim_after = knobs->trim_after.trim.after;
	config.image = config.image ? config.image : gm_heap_image(config.policy);
	if (!gm_heap_wanted(knobs))
		return CUDA_ERROR_NOT_SUPPORTED;
	return gm_heap_create(&config, out);
}

static const char *heap_failure(const struct gm_heap_config *config, CUresult result)
{
	if (!gm_heap_wanted(gm_knob_get()))
		return "GPUMEM_HEAP=off";
	if (!config->image && !gm_heap_image(NULL))
		return "this build has no device code: nvcc was missing";
	return gm_driver_error(config->driver, result);
}

CUresult gm_heap_own_create(const struct gm_heap_config *config, uint64_t total, uint64_t limit,
			    struct gm_heap_host **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	CUresult result = heap_create(config, total, limit, out);
	if (result == CUDA_SUCCESS) {
		pthread_once(&once, heaps_watch_process);
		gm_lock_take(&lock);
		bool listed = gm_array_push(&heaps, *out);
		gm_lock_release(&lock);
		if (listed)
			return result;
		gm_heap_destroy(*out);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	gm_msg(GM_MSG_WARN, "no device heap on device %u: %s", config->context->ordinal,
	       heap_failure(config, result));
	return result;
}

/* False: the heap is not in the list. */
static bool heap_unlist(const struct gm_heap_host *heap)
{
	bool found = false;
	gm_lock_take(&lock);
	for (size_t i = 0; i < heaps.n && !found; i++) {
		found = heaps.at[i] == heap;
		if (found)
			heaps.at[i] = heaps.at[--heaps.n];
	}
	gm_lock_release(&lock);
	return found;
}

void gm_heap_own_destroy(struct gm_heap_host *heap)
{
	if (heap_unlist(heap) || !gm_heap_is_ours(heap))
		gm_heap_destroy(heap);
}

/* A heap of the context that still has memory. */
static struct gm_heap_host *heap_of_context(uint64_t key)
{
	struct gm_heap_host *found = NULL;
	gm_lock_take(&lock);
	for (size_t i = 0; i < heaps.n && !found; i++)
		if (heaps.at[i]->config.context->key == key && heaps.at[i]->reserved)
			found = heaps.at[i];
	gm_lock_release(&lock);
	return found;
}

void gm_heap_own_context_gone(uint64_t key)
{
	struct gm_heap_host *heap;
	while ((heap = heap_of_context(key)))
		gm_heap_context_gone(heap);
}
