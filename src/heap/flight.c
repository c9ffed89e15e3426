/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Behind each launch the GPU writes the launch's number into a word of host memory: one word a
 * stream, because a stream is in order. So no thread asks the driver whether a kernel has ended:
 * that call might wait for the very kernel.
 */
#include "heap/flight.h"

#include <stddef.h>
#include <string.h>

#include "heap/device/heap.h"
#include "heap/process.h"

static bool track_is_done(const struct gm_heap_host *heap, unsigned track)
{
	return __atomic_load_n(&heap->shared->done[track], __ATOMIC_ACQUIRE) ==
	       heap->track[track].last;
}

bool gm_heap_shed_is_pending(const struct gm_heap_host *heap)
{
	const struct gm_shed *shed = &heap->shared->shed;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	return heap->shedding && __atomic_load_n(&shed->done, __ATOMIC_ACQUIRE) != shed->number;
}

bool gm_heap_is_tracked(const struct gm_heap_host *heap)
{
	bool any = heap->launching || gm_heap_shed_is_pending(heap);
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (unsigned i = 0; i < heap->tracks && !any; i++)
		any = !track_is_done(heap, i);
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

/* --- names --- */

/* The launch with the newest number is of this kernel. */
static void track_name(struct gm_heap_track *track, const char *kernel)
{
	if (track->names[0].kernel == kernel)
		return;
	memmove(track->names + 1, track->names, (GM_HEAP_NAMES - 1) * sizeof *track->names);
	track->names[0].kernel = kernel;
	track->names[0].from = track->last;
}

/* The kernel of a launch; NULL: unknown, or too many have followed. */
static const char *track_kernel(const struct gm_heap_track *track, uint32_t number)
{
	for (unsigned i = 0; i < GM_HEAP_NAMES; i++)
		if ((int32_t)(number - track->names[i].from) >= 0)
			return track->names[i].kernel;
	return NULL;
}

/* A stream's kernels run one after another: the running one follows the last that is done. */
const char *gm_heap_kernel(const struct gm_heap_host *heap)
{
	const char *kernel = NULL;
	bool any = false;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (heap->untracked)
		return NULL;
	for (unsigned i = 0; i < heap->tracks; i++) {
		if (track_is_done(heap, i))
			continue;
		const uint32_t done = __atomic_load_n(&heap->shared->done[i], __ATOMIC_RELAXED);
		const char *its = track_kernel(&heap->track[i], done + 1);
		if (any && its != kernel)
			return NULL;
		kernel = its;
		any = true;
	}
	return any || !heap->launching ? kernel : heap->starting;
}

/* --- launches --- */

/* The stream's track, or a free one without another thread that is writing; or NULL. */
static struct gm_heap_track *track_find(struct gm_heap_host *heap, uint64_t stream)
{
	struct gm_heap_track *found = NULL;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (unsigned i = 0; i < heap->tracks; i++) {
		struct gm_heap_track *track = &heap->track[i];
		if (track->writing)
			continue;
		if (track->stream == stream)
			return track;
		if (!found && track_is_done(heap, i))
			found = track;
	}
	if (!found && heap->tracks < GM_HEAP_TRACKS)
		found = &heap->track[heap->tracks++];
	return found;
}

struct gm_heap_track *gm_heap_track_begin(struct gm_heap_host *heap, uint64_t stream,
					  const char *kernel)
{
	struct gm_heap_track *track = track_find(heap, stream);
	if (!track)
		return NULL;
	track->stream = stream;
	track->last++;
	track->writing = true;
	track_name(track, kernel);
	return track;
}

bool gm_heap_track_write(struct gm_heap_host *heap, struct gm_heap_track *track, CUstream stream)
{
	const struct gm_driver *driver = heap->config.driver;
	CUdeviceptr word = heap->shared_device + offsetof(struct gm_heap_shared, done) +
			   (size_t)(track - heap->track) * sizeof(uint32_t);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuStreamWriteValue32_v2(stream, word, track->last, 0);
	gm_driver_quiet_end(driver, mode);
	return result == CUDA_SUCCESS;
}
