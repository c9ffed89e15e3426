/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a heap. Its figures lie in device memory, and a kernel of the heap's own adds them up. It
 * is launched by threads of the program, which is in the heap's context just then: the service
 * thread makes no call that needs one. What is read without waiting is written to host memory, and
 * a word behind it, so that at exit, too, it is there without a call of the driver.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "heap/host.h"
#include "knob/knob.h"

#define AGE_SHARE 16 /* a heap of an hour is read no more often than GPUMEM_SAMPLE says */
#define PAUSE 50000u /* ns between two looks that found nothing to do */
#define EXIT_NAPS 1000
#define EXIT_NAP 10000u /* ns */

_Atomic uint64_t gm_heap_look_at = UINT64_MAX;

/* --- what a kernel has written, with the lock held --- */

static uint32_t saturated(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void take(struct gm_heap_host *heap, const struct gm_job *job)
{
	struct gm_heap_figures *last = &heap->last, before = *last;
	uint64_t used = job->used > heap->gone ? job->used - heap->gone : 0;
	last->used = used << GM_GRANULE_SHIFT;
	last->live = job->stats.live_bytes;
	last->nulls = job->nulls;
	last->foreign_frees = job->foreign_frees;
	last->queue_chunks = job->stats.queue_chunks;
	last->recycled[0] = job->stats.queue_recycled;
	last->recycled[1] = job->stats.chunks_recycled;
	_Static_assert(GM_SIZES == GM_HEAP_BINS, "what heaps tell is what logs have room for");
	for (unsigned i = 0; i < GM_SIZES; i++)
		heap->said.live[i] = saturated(job->stats.live[i]);
	gm_heap_note_figures(heap, &before);
}

/* A reading that was asked for is there. */
void gm_heap_take_reading(struct gm_heap_host *heap)
{
	if (!heap->reading || __atomic_load_n(&heap->shared->read, __ATOMIC_ACQUIRE) != heap->asked)
		return;
	heap->reading = false;
	take(heap, &heap->shared->reading);
}

/* The chunks end before that granule. */
static uint32_t end_of(const struct gm_heap_host *heap)
{
	const struct gm_heap_chunk *last = heap->chunks.at + heap->chunks.n;
	return heap->chunks.n ? last[-1].first + last[-1].count : 1;
}

static void clear(struct gm_job *job, uint32_t end)
{
	memset(&job->stats, 0, sizeof job->stats);
	job->stats.end = end;
}

/* --- waiting for it --- */

CUresult gm_heap_read(struct gm_heap_host *heap,
		      CUresult (*run)(struct gm_heap_host *, CUfunction, unsigned))
{
	if (!heap->device || !gm_heap_keep_out(heap)) /* it is gone, or in use */
		return CUDA_ERROR_NOT_READY;
	gm_lock_take(&heap->lock);
	clear(&heap->shared->job, end_of(heap));
	gm_lock_release(&heap->lock);
	atomic_store(&heap->stale, false);
	CUresult result = run(heap, heap->stats, 1);
	gm_lock_take(&heap->lock);
	gm_heap_take_reading(heap); /* it is older */
	if (result == CUDA_SUCCESS)
		take(heap, &heap->shared->job);
	gm_lock_release(&heap->lock);
	gm_heap_let_in(heap);
	return result;
}

static void of_host(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	out->limit = (uint64_t)heap->limit << GM_GRANULE_SHIFT;
	out->reserved = (uint64_t)heap->capacity << GM_GRANULE_SHIFT;
	out->own = heap->own;
	out->mapped = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	out->chunks = 0;
	for (size_t i = 0; i < heap->chunks.n; i++)
		out->chunks += heap->chunks.at[i].state != GM_CHUNK_COMING;
	out->grown = heap->grown;
	out->shrunk = heap->shrunk;
	out->refused = heap->refusals;
}

void gm_heap_figures_of_host(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	gm_lock_take(&heap->lock);
	*out = heap->last;
	of_host(heap, out);
	gm_lock_release(&heap->lock);
}

CUresult gm_heap_figures(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	memset(out, 0, sizeof *out);
	if (!gm_heap_is_ours(heap))
		return CUDA_ERROR_NOT_READY;
	CUresult result = gm_heap_read(heap, gm_heap_run_alive);
	gm_heap_figures_of_host(heap, out);
	return result;
}

/* --- not waiting for it --- */

static void look_no_later(uint64_t when)
{
	uint64_t at = atomic_load(&gm_heap_look_at);
	while (when < at && !atomic_compare_exchange_weak(&gm_heap_look_at, &at, when))
		;
}

void gm_heap_has_news(struct gm_heap_host *heap)
{
	if (!atomic_load_explicit(&heap->stale, memory_order_relaxed) &&
	    !atomic_exchange(&heap->stale, true))
		look_no_later(atomic_load(&heap->due));
}

/* There will be something to do for a look, or for exit. */
static bool is_reading(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	gm_heap_take_reading(heap);
	bool reading = heap->reading;
	gm_lock_release(&heap->lock);
	return reading;
}

/* It is read while it is in use, and somebody hears of it. */
static bool can_ask(const struct gm_heap_host *heap)
{
	return gm_heap_policy_is_steady(heap->policy) && !atomic_load(&heap->deaf);
}

/* The reading is the caller's to ask for. */
static bool may_ask(struct gm_heap_host *heap, uint64_t now)
{
	gm_lock_take(&heap->lock);
	gm_heap_take_reading(heap);
	bool may = atomic_load(&heap->stale) && now >= atomic_load(&heap->due) && !heap->reading &&
		   !heap->ended && !gm_heap_is_in_flight(heap);
	if (may) {
		atomic_store(&heap->stale, false);
		heap->reading = true;
		heap->asked++;
		clear(&heap->shared->reading, end_of(heap));
	}
	gm_lock_release(&heap->lock);
	return may;
}

static void ask(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	CUdeviceptr job = heap->shared_device + offsetof(struct gm_heap_shared, reading),
		    word = heap->shared_device + offsetof(struct gm_heap_shared, read);
	void *arguments[] = {&heap->device, &job};
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuLaunchKernel(heap->stats, 1, 1, 1, 1, 1, 1, 0, heap->stream,
						 arguments, NULL),
		 written = result;
	if (result == CUDA_SUCCESS)
		written = driver->cuStreamWriteValue32_v2(heap->stream, word, heap->asked, 0);
	gm_driver_quiet_end(driver, mode);
	if (written == CUDA_SUCCESS)
		return;
	gm_lock_take(&heap->lock);
	heap->reading = false;
	atomic_store(&heap->deaf, result == CUDA_SUCCESS); /* it may still write */
	gm_lock_release(&heap->lock);
}

static void look_at(struct gm_heap_host *heap)
{
	uint64_t now = gm_clock_ns(), pause = gm_knob_get()->sample.ns;
	uint64_t share = (now - heap->born) / AGE_SHARE;
	if (!can_ask(heap) || !may_ask(heap, now))
		return;
	atomic_store(&heap->due, now + (share < pause ? share : pause));
	if (gm_context_enter(heap->config.context)) {
		ask(heap);
		gm_context_leave(heap->config.context);
	} else {
		gm_lock_take(&heap->lock);
		heap->reading = false;
		gm_lock_release(&heap->lock);
	}
}

/* When the next look is due, now that one is over. */
static void look_again(void)
{
	uint64_t next = UINT64_MAX, now = gm_clock_ns();
	atomic_store(&gm_heap_look_at, UINT64_MAX);
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, 0));) {
		uint64_t due = atomic_load(&h->due);
		if (is_reading(h))
			due = now;
		else if (!atomic_load(&h->stale) || !can_ask(h))
			continue;
		due = due > now + PAUSE ? due : now + PAUSE;
		next = due < next ? due : next;
	}
	look_no_later(next);
}

void gm_heap_look(const struct gm_context *context)
{
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, context->key));)
		look_at(h);
	look_again();
}

static bool is_unread(struct gm_heap_host *heap)
{
	return is_reading(heap) || atomic_load(&heap->stale);
}

bool gm_heap_any_unread(const struct gm_context *context)
{
	bool any = false;
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, context->key));)
		any = any || is_unread(h);
	return any;
}

void gm_heap_look_last(const struct gm_context *context)
{
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, context->key));)
		if (is_unread(h))
			gm_heap_read(h, gm_heap_run_there);
}

void gm_heap_look_forget(void)
{
	atomic_store(&gm_heap_look_at, UINT64_MAX);
	gm_heap_note_forget();
}

void gm_heap_log_all(void)
{
	const struct timespec nap = {.tv_nsec = EXIT_NAP};
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, 0));) {
		for (unsigned i = 0; i < EXIT_NAPS && is_reading(h); i++)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		gm_heap_note_last(h);
	}
}
