/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a heap. Its figures lie in device memory, and a kernel of the heap's own adds them up.
 * Threads of the program launch it while the heap's context is current: the service thread makes
 * no call that needs a context. A reading without a wait is written to host memory, and a word
 * behind it: it can be taken in without a call of the driver, even at exit.
 *
 *   stale --(due; nothing in flight)--> reading --(the word is there)--> figures and a record
 */
#include "heap/sample.h"

#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "heap/chunks/chunks.h"
#include "heap/flight.h"
#include "heap/kernel.h"
#include "heap/list.h"
#include "heap/policy.h"
#include "heap/process.h"
#include "heap/record.h"
#include "heap/sites.h"
#include "knob/knob.h"
#include "residency/door.h"

#define AGE_SHARE 16 /* of a heap's age between readings, up to the time of GPUMEM_LOG */
#define PAUSE 50000u /* ns at least between two samplings */
#define NAPS 1000    /* at most, for a reading that was launched */
#define NAP 10000u   /* ns */

_Atomic uint64_t gm_heap_sample_at = UINT64_MAX;

/* --- a reading --- */

static uint32_t uint32_saturate(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* heap->last = the job's answers. */
static void figures_take(struct gm_heap_host *heap, const struct gm_job *job)
{
	struct gm_heap_figures *last = &heap->last, before = *last;
	uint64_t used = job->used > heap->claimed ? job->used - heap->claimed : 0;
	last->used = used << GM_GRANULE_SHIFT;
	last->live = job->stats.live_bytes;
	last->nulls = job->nulls;
	last->foreign_frees = job->foreign_frees;
	last->wait_ns = job->stalled;
	last->queue_chunks = job->stats.queue_chunks;
	last->recycled[0] = job->stats.queue_recycled;
	last->recycled[1] = job->stats.chunks_recycled;
	_Static_assert(GM_SIZES == GM_HEAP_BINS, "a log has room for the sizes of a heap");
	for (unsigned i = 0; i < GM_SIZES; i++)
		heap->sample.live[i] = uint32_saturate(job->stats.live[i]);
	gm_heap_record_figures(heap, &before);
}

void gm_heap_collect_reading(struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!heap->reading ||
	    __atomic_load_n(&heap->shared->read, __ATOMIC_ACQUIRE) != heap->readings)
		return;
	heap->reading = false;
	figures_take(heap, &heap->shared->reading);
}

/* The first granule behind all chunks. */
static uint32_t chunks_end(const struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	const struct gm_heap_chunk *last = heap->chunks.at + heap->chunks.n;
	return heap->chunks.n ? last[-1].first + last[-1].count : 1;
}

static void job_clear(struct gm_job *job, uint32_t end)
{
	memset(&job->stats, 0, sizeof job->stats);
	job->stats.end = end;
}

/* --- waiting for a reading --- */

static CUresult heap_read(struct gm_heap_host *heap,
			  CUresult (*run)(struct gm_heap_host *, enum gm_job_op))
{
	if (!heap->device || !gm_heap_exclude(heap)) /* the context is gone, or the heap in use */
		return CUDA_ERROR_NOT_READY;
	gm_lock_take(&heap->lock);
	job_clear(&heap->shared->job, chunks_end(heap));
	gm_lock_release(&heap->lock);
	atomic_store(&heap->stale, false);
	CUresult result = run(heap, GM_JOB_STATS);
	gm_lock_take(&heap->lock);
	gm_heap_collect_reading(heap); /* an older one */
	if (result == CUDA_SUCCESS)
		figures_take(heap, &heap->shared->job);
	gm_lock_release(&heap->lock);
	gm_heap_admit(heap);
	return result;
}

CUresult gm_heap_read(struct gm_heap_host *heap,
		      CUresult (*run)(struct gm_heap_host *, enum gm_job_op))
{
	if (!gm_door_try()) /* the heap's memory is not on the device */
		return CUDA_ERROR_NOT_READY;
	CUresult result = heap_read(heap, run);
	gm_door_leave();
	return result;
}

static void figures_add_host(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	out->limit = (uint64_t)heap->limit << GM_GRANULE_SHIFT;
	out->reserved = (uint64_t)heap->capacity << GM_GRANULE_SHIFT;
	out->own = heap->own + atomic_load(&heap->numbered_bytes);
	out->mapped = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	out->slack = atomic_load(&heap->slack);
	out->chunks = gm_heap_chunks(heap);
	out->grown = heap->grown;
	out->shrunk = heap->shrunk;
	out->refused = heap->refusals;
}

void gm_heap_figures_of_host(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	gm_lock_take(&heap->lock);
	*out = heap->last;
	figures_add_host(heap, out);
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

/* --- readings without waiting --- */

/* gm_heap_sample_at = `when`, unless it is earlier. */
static void sample_schedule(uint64_t when)
{
	uint64_t at = atomic_load(&gm_heap_sample_at);
	while (when < at && !atomic_compare_exchange_weak(&gm_heap_sample_at, &at, when))
		;
}

void gm_heap_mark_stale(struct gm_heap_host *heap)
{
	if (!atomic_load_explicit(&heap->stale, memory_order_relaxed) &&
	    !atomic_exchange(&heap->stale, true))
		sample_schedule(atomic_load(&heap->due));
}

/* A reading was launched and has not arrived yet. */
static bool reading_is_pending(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	gm_heap_collect_reading(heap);
	bool reading = heap->reading;
	gm_lock_release(&heap->lock);
	return reading;
}

/* Readings may run beside kernels, which may start at any time, and the end of a reading can be
 * seen. */
static bool reading_is_possible(const struct gm_heap_host *heap)
{
	return gm_heap_policy_is_steady(heap->policy) && !atomic_load(&heap->unreadable);
}

/* True: the caller launches a reading. */
static bool reading_begin(struct gm_heap_host *heap, uint64_t now)
{
	gm_lock_take(&heap->lock);
	gm_heap_collect_reading(heap);
	bool may = atomic_load(&heap->stale) && now >= atomic_load(&heap->due) && !heap->reading &&
		   !heap->ended && !gm_heap_is_in_flight(heap);
	if (may) {
		atomic_store(&heap->stale, false);
		heap->reading = true;
		heap->readings++;
		job_clear(&heap->shared->reading, chunks_end(heap));
	}
	gm_lock_release(&heap->lock);
	return may;
}

static void reading_launch(struct gm_heap_host *heap)
{
	const struct gm_driver *driver = heap->config.driver;
	CUdeviceptr word = heap->shared_device + offsetof(struct gm_heap_shared, read);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = gm_heap_run_on(heap, heap->stream, GM_JOB_STATS,
					 offsetof(struct gm_heap_shared, reading)),
		 written = result;
	if (result == CUDA_SUCCESS)
		written = driver->cuStreamWriteValue32_v2(heap->stream, word, heap->readings, 0);
	gm_driver_quiet_end(driver, mode);
	if (written == CUDA_SUCCESS)
		return;
	gm_lock_take(&heap->lock);
	heap->reading = false;
	/* A kernel that was launched may still write. */
	atomic_store(&heap->unreadable, result == CUDA_SUCCESS);
	gm_lock_release(&heap->lock);
}

static void sample_heap(struct gm_heap_host *heap)
{
	uint64_t now = gm_clock_ns(), pause = gm_knob_get()->log.level.sample;
	uint64_t share = (now - heap->born) / AGE_SHARE;
	if (!reading_is_possible(heap) || !reading_begin(heap, now))
		return;
	atomic_store(&heap->due, now + (share < pause ? share : pause));
	if (gm_context_enter(heap->config.context)) {
		reading_launch(heap);
		gm_context_leave(heap->config.context);
	} else {
		gm_lock_take(&heap->lock);
		heap->reading = false;
		gm_lock_release(&heap->lock);
	}
}

/* After a sampling: set the time of the next. */
static void sample_reschedule(void)
{
	uint64_t next = UINT64_MAX, now = gm_clock_ns();
	atomic_store(&gm_heap_sample_at, UINT64_MAX);
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, 0));) {
		uint64_t due = atomic_load(&h->due);
		if (reading_is_pending(h))
			due = now;
		else if (!atomic_load(&h->stale) || !reading_is_possible(h))
			continue;
		due = due > now + PAUSE ? due : now + PAUSE;
		next = due < next ? due : next;
	}
	sample_schedule(next);
}

void gm_heap_sample_context(const struct gm_context *context)
{
	bool entered = gm_door_try();
	for (struct gm_heap_host *h = NULL; entered && (h = gm_heap_pin_next(h, context->key));)
		sample_heap(h);
	if (entered)
		gm_door_leave();
	sample_reschedule();
}

static bool heap_is_unread(struct gm_heap_host *heap)
{
	return reading_is_pending(heap) || atomic_load(&heap->stale);
}

bool gm_heap_any_unread(const struct gm_context *context)
{
	bool any = false;
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, context->key));)
		any = any || heap_is_unread(h);
	return any;
}

static void reading_await(struct gm_heap_host *heap)
{
	for (unsigned i = 0; i < NAPS && reading_is_pending(heap); i++)
		gm_sys_nap(NAP);
}

void gm_heap_code_ends(void)
{
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, 0));) {
		const bool reading = reading_is_pending(h), stale = atomic_load(&h->stale);
		if (reading || stale)
			gm_heap_sites_blind(h, reading + stale);
	}
}

void gm_heap_sample_last(const struct gm_context *context)
{
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, context->key));)
		if (heap_is_unread(h))
			gm_heap_read(h, gm_heap_run_there);
}

void gm_heap_log_all(void)
{
	for (struct gm_heap_host *h = NULL; (h = gm_heap_pin_next(h, 0));) {
		reading_await(h);
		gm_heap_record_last(h);
	}
}
