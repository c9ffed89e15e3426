/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trimming: a kernel of the heap's own claims chunks whose granules are all free from the device,
 * and the host returns them to the pool. The two trims of heap.h differ in the wait before that.
 */
#include "context/fence.h"
#include "heap/chunks/chunks.h"
#include "heap/flight.h"
#include "heap/kernel.h"
#include "heap/process.h"
#include "heap/sample.h"
#include "residency/door.h"

/* Wait for the context's work, and with it for untracked launches. False: not now. */
static bool trim_fence(struct gm_heap_host *heap)
{
	enum gm_fenced fenced;
	gm_lock_take(&heap->lock);
	unsigned untracked = heap->untracked;
	bool tracked = gm_heap_is_tracked(heap);
	gm_lock_release(&heap->lock);
	if (tracked)
		return false;
	CUresult result =
		gm_fence((void *)heap->config.driver, heap->config.context->key, false, &fenced);
	if (result != CUDA_SUCCESS || fenced != GM_FENCED_PASSED)
		return false;
	gm_lock_take(&heap->lock);
	heap->untracked -= untracked < heap->untracked ? untracked : heap->untracked;
	gm_lock_release(&heap->lock);
	return true;
}

/* Fill the job with up to GM_JOB_CHUNKS chunks from granule *from on, and advance that. False:
 * there are no more, or a kernel was launched behind the last job. */
static bool trim_next_job(struct gm_heap_host *heap, uint32_t *from)
{
	struct gm_job *job = &heap->shared->job;
	gm_lock_take(&heap->lock);
	bool alone = !gm_heap_is_in_flight(heap);
	heap->ran_recorded = heap->ran_recorded && !alone;
	for (size_t i = 0; alone && i < heap->chunks.n && job->chunks < GM_JOB_CHUNKS; i++) {
		const struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->state != GM_CHUNK_MAPPED || chunk->first < *from)
			continue;
		job->chunk[job->chunks++] = (struct gm_job_chunk){chunk->first, chunk->count, 0, 0};
		*from = chunk->first + chunk->count;
	}
	gm_lock_release(&heap->lock);
	return job->chunks != 0;
}

/* Take in the claims of the kernel. */
static void trim_finish_job(struct gm_heap_host *heap)
{
	struct gm_job *job = &heap->shared->job;
	gm_lock_take(&heap->lock);
	gm_heap_collect_reading(heap); /* made before the kernel */
	for (size_t i = 0, j = 0; i < heap->chunks.n && j < job->chunks; i++) {
		struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->first != job->chunk[j].first)
			continue;
		if (!job->chunk[j++].taken)
			continue;
		chunk->state = GM_CHUNK_CLAIMED;
		heap->claimed += chunk->count;
	}
	gm_lock_release(&heap->lock);
	job->chunks = 0;
}

/* The kernels that could use shed chunks may have ended. */
static void shed_poll(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	gm_heap_shed_poll(heap, 0);
	gm_lock_release(&heap->lock);
}

/* Return empty chunks, except the first, which begins at granule 0. Kernels that may allocate are
 * excluded; they are admitted again before chunks are unmapped. Returns bytes. */
static uint64_t trim_chunks(struct gm_heap_host *heap)
{
	uint32_t from = 1;
	trim_finish_job(heap); /* a kernel that the driver failed to wait for may have run */
	while (trim_next_job(heap, &from) && gm_heap_run_alive(heap, GM_JOB_TRIM) == CUDA_SUCCESS)
		trim_finish_job(heap);
	__atomic_store_n(&heap->shared->mail.want.value, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&heap->shared->mail.refused.value, 0, __ATOMIC_RELEASE);
	shed_poll(heap);
	gm_heap_admit(heap);
	return gm_heap_drop_chunks(heap);
}

static uint64_t heap_trim(struct gm_heap_host *heap)
{
	uint64_t slack = gm_heap_drop_slack(heap);
	if (trim_fence(heap) && gm_heap_exclude(heap))
		return slack + trim_chunks(heap);
	shed_poll(heap);
	return slack + gm_heap_drop_chunks(heap);
}

uint64_t gm_heap_trim(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap) || !gm_door_try())
		return 0;
	uint64_t given = heap_trim(heap);
	gm_door_leave();
	return given;
}

/* --- of an idle heap --- */

/* The time at which chunks may have been empty for long enough. */
static uint64_t trim_due(const struct gm_heap_host *heap)
{
	uint64_t due;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (heap->busy || gm_heap_chunks(heap) <= 1 ||
	    __builtin_add_overflow(heap->idle_since, heap->config.trim_after, &due))
		return UINT64_MAX;
	return due;
}

/* The time at which the slack was not used for long enough. */
static uint64_t slack_due(const struct gm_heap_host *heap)
{
	uint64_t due;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!atomic_load(&heap->slack) ||
	    __builtin_add_overflow(heap->slack_since, heap->config.trim_after, &due))
		return UINT64_MAX;
	return due;
}

uint64_t gm_heap_trim_next(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap))
		return UINT64_MAX;
	gm_lock_take(&heap->lock);
	uint64_t due = trim_due(heap), slack = slack_due(heap), shed = gm_heap_shed_due(heap);
	due = slack < due ? slack : due;
	due = shed < due ? shed : due;
	heap->told = due != UINT64_MAX;
	gm_lock_release(&heap->lock);
	return due;
}

static uint64_t heap_trim_idle(struct gm_heap_host *heap, uint64_t now)
{
	gm_lock_take(&heap->lock);
	gm_heap_shed_poll(heap, now);
	bool slack = slack_due(heap) <= now;
	bool mine = trim_due(heap) <= now && gm_heap_exclude_locked(heap);
	if (mine)
		heap->idle_since = UINT64_MAX; /* not due until kernels were in flight again */
	gm_lock_release(&heap->lock);
	uint64_t bytes = slack ? gm_heap_drop_slack(heap) : 0;
	return bytes + (mine ? trim_chunks(heap) : gm_heap_drop_chunks(heap));
}

uint64_t gm_heap_trim_idle(struct gm_heap_host *heap, uint64_t now)
{
	if (!gm_heap_is_ours(heap) || !gm_door_try())
		return 0;
	uint64_t given = heap_trim_idle(heap, now);
	gm_door_leave();
	return given;
}
