/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's own kernels: they run on its own stream while nothing that may allocate is in flight,
 * and what gm_heap_launch stands before runs after them.
 */
#include <string.h>

#include "heap/host.h"
#include "pool/fence.h"

/* Launches need not wait here any more: their streams wait for the event. */
static void let_in_behind(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	heap->behind = true;
	gm_lock_release(&heap->lock);
	pthread_cond_broadcast(&heap->trimmed);
}

CUresult gm_heap_run(struct gm_heap_host *heap, CUfunction kernel, unsigned threads)
{
	const struct gm_driver *driver = heap->config.driver;
	CUdeviceptr job = heap->shared_device + offsetof(struct gm_heap_shared, job);
	void *arguments[] = {&heap->device, &job};
	CUresult result = driver->cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, heap->stream,
						 arguments, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	if (driver->cuEventRecord(heap->ran, heap->stream) == CUDA_SUCCESS)
		let_in_behind(heap);
	return driver->cuStreamSynchronize(heap->stream);
}

/* With the lock held. */
static bool keep_out(struct gm_heap_host *heap)
{
	if (heap->trimming || gm_heap_is_in_flight(heap))
		return false;
	heap->trimming = true;
	heap->behind = false;
	return true;
}

bool gm_heap_keep_out(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	bool mine = keep_out(heap);
	gm_lock_release(&heap->lock);
	return mine;
}

void gm_heap_let_in(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	heap->trimming = false;
	gm_lock_release(&heap->lock);
	pthread_cond_broadcast(&heap->trimmed);
}

CUresult gm_heap_run_there(struct gm_heap_host *heap, CUfunction kernel, unsigned threads)
{
	const struct gm_driver *driver = heap->config.driver;
	CUcontext popped;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuCtxPushCurrent_v2(heap->config.context->handle);
	if (result == CUDA_SUCCESS) {
		result = gm_heap_run(heap, kernel, threads);
		driver->cuCtxPopCurrent_v2(&popped);
	}
	gm_driver_quiet_end(driver, mode);
	return result;
}

CUresult gm_heap_run_alive(struct gm_heap_host *heap, CUfunction kernel, unsigned threads)
{
	if (!gm_context_enter(heap->config.context))
		return CUDA_ERROR_NOT_READY;
	CUresult result = gm_heap_run_there(heap, kernel, threads);
	gm_context_leave(heap->config.context);
	return result;
}

/* --- trim --- */

/* Wait for the context's work, and with it for the launches that nothing tracks. False: not now. */
static bool fence(struct gm_heap_host *heap)
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

/* Up to GM_JOB_CHUNKS chunks from granule *from on, which moves on; false: there are none, or a
 * kernel was launched behind the last job. */
static bool next_job(struct gm_heap_host *heap, uint32_t *from)
{
	struct gm_job *job = &heap->shared->job;
	gm_lock_take(&heap->lock);
	bool alone = !gm_heap_is_in_flight(heap);
	heap->behind = heap->behind && !alone;
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

static void note_taken(struct gm_heap_host *heap)
{
	struct gm_job *job = &heap->shared->job;
	gm_lock_take(&heap->lock);
	gm_heap_take_reading(heap); /* it is of before */
	for (size_t i = 0, j = 0; i < heap->chunks.n && j < job->chunks; i++) {
		struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->first != job->chunk[j].first)
			continue;
		if (!job->chunk[j++].taken)
			continue;
		chunk->state = GM_CHUNK_LEAVING;
		heap->gone += chunk->count;
	}
	gm_lock_release(&heap->lock);
	job->chunks = 0;
}

/* Take all chunks but the first, which begins at 0, out of the device's hands if they are free. */
static void empty(struct gm_heap_host *heap)
{
	uint32_t from = 1;
	note_taken(heap); /* a kernel that the driver failed to wait for may have run */
	while (next_job(heap, &from) && gm_heap_run_alive(heap, heap->trim, 1) == CUDA_SUCCESS)
		note_taken(heap);
	__atomic_store_n(&heap->shared->mail.want.value, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&heap->shared->mail.refused.value, 0, __ATOMIC_RELEASE);
}

uint64_t gm_heap_trim(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap) || !fence(heap) || !gm_heap_keep_out(heap))
		return 0;
	empty(heap);
	gm_heap_let_in(heap);
	return gm_heap_drop_chunks(heap);
}

/* --- by itself --- */

static uint64_t next_due(const struct gm_heap_host *heap)
{
	uint64_t due;
	if (heap->busy || heap->chunks.n <= 1 ||
	    __builtin_add_overflow(heap->idle_since, heap->config.trim_after, &due))
		return UINT64_MAX;
	return due;
}

uint64_t gm_heap_trim_next(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap))
		return UINT64_MAX;
	gm_lock_take(&heap->lock);
	uint64_t due = next_due(heap);
	gm_lock_release(&heap->lock);
	return due;
}

/* It will not be due again until kernels were in flight. */
static bool begin_idle(struct gm_heap_host *heap, uint64_t now)
{
	gm_lock_take(&heap->lock);
	bool mine = next_due(heap) <= now && keep_out(heap);
	if (mine)
		heap->idle_since = UINT64_MAX;
	gm_lock_release(&heap->lock);
	return mine;
}

uint64_t gm_heap_trim_idle(struct gm_heap_host *heap, uint64_t now)
{
	if (!gm_heap_is_ours(heap) || !begin_idle(heap, now))
		return 0;
	empty(heap);
	gm_heap_let_in(heap);
	return gm_heap_drop_chunks(heap);
}
