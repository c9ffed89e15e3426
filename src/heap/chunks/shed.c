/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks that left the device are unmapped after a grace period: lanes of a kernel that ran at that
 * time may hold addresses of theirs. The period begins when no launch is in progress, because the
 * numbers of all launches are known then (flight.c). If threads launch all the time, that may take
 * long, and a growth may get the memory meanwhile.
 */
#include "heap/chunks/chunks.h"

#include "heap/flight.h"
#include "heap/kernel.h"
#include "heap/record.h"
#include "residency/door.h"

#define POLL_SHARE 16 /* of the time between sheds */

static uint64_t shed_period(const struct gm_heap_host *heap)
{
	uint64_t period = heap->config.trim_after;
	return period > GM_SHED_LEAST ? period : GM_SHED_LEAST;
}

uint64_t gm_heap_shed_due(const struct gm_heap_host *heap)
{
	uint64_t due;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (heap->config.trim_after == UINT64_MAX)
		return UINT64_MAX;
	if (heap->shedding || heap->leaving || (heap->shed_wanted && heap->busy))
		return heap->shed_at + shed_period(heap) / POLL_SHARE;
	if (!heap->busy || gm_heap_chunks(heap) <= 1 ||
	    __builtin_add_overflow(heap->shed_at, shed_period(heap), &due))
		return UINT64_MAX;
	return due;
}

/* --- in a launch --- */

/* All chunks but the first, the last ones first: they are the longest, as a rule. */
static bool shed_fill(struct gm_heap_host *heap)
{
	struct gm_shed *shed = &heap->shared->shed;
	shed->chunks = 0;
	shed->mapped = 0;
	for (size_t i = heap->chunks.n; i-- > 0;) {
		const struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->state != GM_CHUNK_MAPPED)
			continue;
		shed->mapped += chunk->count;
		if (chunk->first && shed->chunks < GM_JOB_CHUNKS)
			shed->chunk[shed->chunks++] =
				(struct gm_job_chunk){chunk->first, chunk->count, 0, 0};
	}
	return shed->chunks != 0;
}

bool gm_heap_shed_begin(struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!heap->shed_wanted || heap->shedding || heap->leaving)
		return false;
	heap->shed_wanted = false;
	heap->shedding = shed_fill(heap);
	heap->shared->shed.number += heap->shedding;
	return heap->shedding;
}

void gm_heap_shed_launch(struct gm_heap_host *heap, CUstream stream)
{
	const struct gm_driver *driver = heap->config.driver;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = CUDA_ERROR_NOT_READY;
	if (gm_door_try()) { /* else the heap's memory is not on the device */
		result = gm_heap_run_on(heap, stream, GM_JOB_SHED,
					offsetof(struct gm_heap_shared, shed));
		gm_door_leave();
	}
	gm_driver_quiet_end(driver, mode);
	if (result == CUDA_SUCCESS)
		return;
	gm_lock_take(&heap->lock);
	heap->shedding = false;
	gm_lock_release(&heap->lock);
}

/* --- afterwards --- */

void gm_heap_shed_see_launches(struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!heap->leaving || heap->known || heap->launching)
		return;
	for (unsigned i = 0; i < heap->tracks; i++)
		heap->grace[i] = heap->track[i].last;
	heap->grace_tracks = heap->tracks;
	heap->known = true;
}

/* Have all kernels ended that were in flight when the chunks left the device? */
static bool grace_is_over(const struct gm_heap_host *heap)
{
	if (!heap->known || heap->untracked)
		return false;
	for (unsigned i = 0; i < heap->grace_tracks; i++) {
		uint32_t done = __atomic_load_n(&heap->shared->done[i], __ATOMIC_ACQUIRE);
		/* A launch whose write failed has returned its number. */
		if (done != heap->track[i].last && (int32_t)(done - heap->grace[i]) < 0)
			return false;
	}
	return true;
}

/* The kernel has run: take in its claims. */
static void shed_collect(struct gm_heap_host *heap)
{
	const struct gm_shed *shed = &heap->shared->shed;
	for (uint32_t i = 0; i < shed->chunks; i++) {
		if (!shed->chunk[i].taken)
			continue;
		struct gm_heap_chunk *chunk = gm_heap_chunk_find(heap, shed->chunk[i].first);
		chunk->state = GM_CHUNK_LEAVING;
		heap->claimed += chunk->count;
		heap->leaving = true;
	}
	heap->shedding = heap->known = false;
	gm_heap_shed_see_launches(heap);
}

static void chunks_become_claimed(struct gm_heap_host *heap)
{
	for (size_t i = 0; i < heap->chunks.n; i++) {
		struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->state != GM_CHUNK_LEAVING)
			continue;
		chunk->state = GM_CHUNK_CLAIMED;
		gm_heap_record_shed(heap, gm_heap_chunk_bytes(chunk->count));
	}
	heap->leaving = heap->known = false;
}

void gm_heap_shed_poll(struct gm_heap_host *heap, uint64_t now)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	bool free = !heap->shedding && !heap->leaving;
	if (gm_heap_shed_due(heap) <= now) {
		heap->shed_wanted = free;
		heap->shed_at = now;
	}
	if (heap->shedding && !gm_heap_shed_is_pending(heap))
		shed_collect(heap);
	if (heap->leaving && grace_is_over(heap))
		chunks_become_claimed(heap);
}

struct gm_heap_chunk *gm_heap_shed_return(struct gm_heap_host *heap, uint32_t need)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (size_t i = 0; heap->leaving && i < heap->chunks.n; i++) {
		struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->state != GM_CHUNK_LEAVING || (chunk->count < need && need > GM_HEAP_LOW))
			continue;
		chunk->state = GM_CHUNK_MAPPED;
		return chunk;
	}
	return NULL;
}
