/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's own kernels: they run on its own stream while nothing that may allocate is in flight,
 * and gm_heap_launch waits for them.
 */
#include <string.h>

#include "heap/host.h"
#include "pool/fence.h"

CUresult gm_heap_run(struct gm_heap_host *heap, CUfunction kernel, unsigned threads)
{
	const struct gm_driver *driver = heap->config.driver;
	CUdeviceptr job = heap->shared_device + offsetof(struct gm_heap_shared, job);
	void *arguments[] = {&heap->device, &job};
	CUresult result = driver->cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, heap->stream,
						 arguments, NULL);
	return result == CUDA_SUCCESS ? driver->cuStreamSynchronize(heap->stream) : result;
}

/* The device is the caller's: no kernel that may allocate is in flight, and none will be. */
static bool begin(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	bool mine = !heap->trimming && !gm_heap_is_in_flight(heap);
	heap->trimming = heap->trimming || mine;
	gm_lock_release(&heap->lock);
	return mine;
}

static void end(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	heap->trimming = false;
	gm_lock_release(&heap->lock);
	pthread_cond_broadcast(&heap->trimmed);
}

/* In the heap's context: run a kernel. */
static CUresult run_in_context(struct gm_heap_host *heap, CUfunction kernel, unsigned threads)
{
	const struct gm_driver *driver = heap->config.driver;
	CUcontext popped;
	if (!gm_context_enter(heap->config.context))
		return CUDA_ERROR_NOT_READY;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuCtxPushCurrent_v2(heap->config.context->handle);
	if (result == CUDA_SUCCESS) {
		result = gm_heap_run(heap, kernel, threads);
		driver->cuCtxPopCurrent_v2(&popped);
	}
	gm_driver_quiet_end(driver, mode);
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

/* Up to GM_JOB_CHUNKS chunks from granule *from on, which moves on; false: there are none. */
static bool next_job(struct gm_heap_host *heap, uint32_t *from)
{
	struct gm_job *job = &heap->shared->job;
	gm_lock_take(&heap->lock);
	for (size_t i = 0; i < heap->chunks.n && job->chunks < GM_JOB_CHUNKS; i++) {
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
	while (next_job(heap, &from) && run_in_context(heap, heap->trim, 1) == CUDA_SUCCESS)
		note_taken(heap);
	__atomic_store_n(&heap->shared->mail.want.value, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&heap->shared->mail.refused.value, 0, __ATOMIC_RELEASE);
}

uint64_t gm_heap_trim(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap) || !fence(heap) || !begin(heap))
		return 0;
	empty(heap);
	end(heap);
	return gm_heap_drop_chunks(heap);
}

/* --- figures --- */

static void of_device(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	const struct gm_job *job = &heap->shared->job;
	out->used = (job->used - heap->gone) << GM_GRANULE_SHIFT;
	out->live = job->stats.live_bytes;
	out->nulls = job->nulls;
	out->foreign_frees = job->foreign_frees;
	out->queue_chunks = job->stats.queue_chunks;
	out->recycled[0] = job->stats.queue_recycled;
	out->recycled[1] = job->stats.chunks_recycled;
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
	CUresult result = CUDA_ERROR_NOT_READY;
	memset(out, 0, sizeof *out);
	if (!gm_heap_is_ours(heap))
		return result;
	if (begin(heap)) {
		memset(&heap->shared->job.stats, 0, sizeof heap->shared->job.stats);
		result = run_in_context(heap, heap->stats, 1);
		gm_lock_take(&heap->lock);
		if (result == CUDA_SUCCESS)
			of_device(heap, &heap->last);
		gm_lock_release(&heap->lock);
		end(heap);
	}
	gm_heap_figures_of_host(heap, out);
	return result;
}
