/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernels that may allocate are in flight. Behind each launch the GPU writes the launch's
 * number into a word of host memory: one word a stream, for a stream is in order. So nobody asks
 * the driver whether a kernel has ended, which might wait for that kernel.
 */
#include <stddef.h>

#include "heap/device/heap.h"
#include "heap/host.h"

static bool is_done(const struct gm_heap_host *heap, unsigned track)
{
	return __atomic_load_n(&heap->shared->done[track], __ATOMIC_ACQUIRE) ==
	       heap->track[track].last;
}

bool gm_heap_is_tracked(const struct gm_heap_host *heap)
{
	bool any = heap->launching;
	for (unsigned i = 0; i < heap->tracks && !any; i++)
		any = !is_done(heap, i);
	return any;
}

bool gm_heap_is_in_flight(const struct gm_heap_host *heap)
{
	return heap->untracked || gm_heap_is_tracked(heap);
}

bool gm_heap_in_flight(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap))
		return false;
	gm_lock_take(&heap->lock);
	bool any = gm_heap_is_in_flight(heap);
	gm_lock_release(&heap->lock);
	return any;
}

/* What was refused to earlier kernels this one may have. */
static void ask_anew(struct gm_heap_host *heap, CUstream stream)
{
	struct gm_mailbox *mail = &heap->shared->mail;
	CUdeviceptr word = heap->device + offsetof(struct gm_heap, refused);
	__atomic_store_n(&mail->want.value, 0, __ATOMIC_RELAXED); /* who waits says it again */
	__atomic_store_n(&mail->refused.value, 0, __ATOMIC_RELEASE);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(heap->config.driver);
	heap->config.driver->cuMemsetD8Async(word, 0, sizeof(uint64_t), stream);
	gm_driver_quiet_end(heap->config.driver, mode);
}

/* Let the GPU run what comes next in the stream after the heap's own kernel. The caller does not
 * wait for that: it may have to wait for room, which a kernel takes that waits for the caller. */
static void wait_behind(struct gm_heap_host *heap, CUstream stream)
{
	const struct gm_driver *driver = heap->config.driver;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuStreamWaitEvent(stream, heap->ran, 0);
	gm_driver_quiet_end(driver, mode);
	if (result == CUDA_SUCCESS)
		return;
	gm_lock_take(&heap->lock);
	while (heap->trimming)
		gm_lock_wait(&heap->lock, &heap->trimmed);
	gm_lock_release(&heap->lock);
}

void gm_heap_launch(struct gm_heap_host *heap, CUstream stream)
{
	if (!gm_heap_is_ours(heap))
		return;
	gm_lock_take(&heap->lock);
	while (heap->trimming && !heap->behind)
		gm_lock_wait(&heap->lock, &heap->trimmed);
	bool behind = heap->trimming;
	heap->launching++;
	heap->busy = true;
	/* An earlier kernel may have found nobody here. */
	__atomic_fetch_add(&heap->shared->mail.beat.value, 1, __ATOMIC_RELEASE);
	gm_heap_wake(heap);
	gm_lock_release(&heap->lock);
	if (behind)
		wait_behind(heap, stream);
	if (__atomic_load_n(&heap->shared->mail.refused.value, __ATOMIC_RELAXED))
		ask_anew(heap, stream);
}

/* The stream's track, or one that is free, for this thread alone; or NULL. */
static struct gm_heap_track *find_track(struct gm_heap_host *heap, uint64_t stream)
{
	struct gm_heap_track *found = NULL;
	for (unsigned i = 0; i < heap->tracks; i++) {
		struct gm_heap_track *track = &heap->track[i];
		if (track->writing)
			continue;
		if (track->stream == stream)
			return track;
		if (!found && is_done(heap, i))
			found = track;
	}
	if (!found && heap->tracks < GM_HEAP_TRACKS)
		found = &heap->track[heap->tracks++];
	return found;
}

static bool write_behind(struct gm_heap_host *heap, struct gm_heap_track *track, CUstream stream)
{
	const struct gm_driver *driver = heap->config.driver;
	CUdeviceptr word = heap->shared_device + offsetof(struct gm_heap_shared, done) +
			   (size_t)(track - heap->track) * sizeof(uint32_t);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuStreamWriteValue32_v2(stream, word, track->last, 0);
	gm_driver_quiet_end(driver, mode);
	return result == CUDA_SUCCESS;
}

void gm_heap_launched(struct gm_heap_host *heap, CUstream stream, bool launched)
{
	unsigned long long id = 0;
	struct gm_heap_track *track = NULL;
	if (!gm_heap_is_ours(heap))
		return;
	bool known = launched && heap->config.driver->cuStreamGetId(stream, &id) == CUDA_SUCCESS;
	if (known) {
		gm_lock_take(&heap->lock);
		track = find_track(heap, id);
		if (track) {
			track->stream = id;
			track->last++;
			track->writing = true;
		}
		gm_lock_release(&heap->lock);
	}
	bool written = track && write_behind(heap, track, stream);
	gm_lock_take(&heap->lock);
	if (track)
		track->writing = false;
	if (track && !written)
		track->last--;
	heap->untracked += launched && !written;
	heap->launching--;
	gm_lock_release(&heap->lock);
	if (launched)
		gm_heap_has_news(heap);
}
