/* SPDX-License-Identifier: BSD-3-Clause */
/* Around a launch of a kernel that may allocate: heap.h. */
#include <stddef.h>

#include "heap/chunks/chunks.h"
#include "heap/device/heap.h"
#include "heap/flight.h"
#include "heap/process.h"
#include "heap/sample.h"

/* Memory that was refused to earlier kernels may be available now: the next kernel asks again. */
static void refusal_withdraw(struct gm_heap_host *heap, CUstream stream)
{
	struct gm_mailbox *mail = &heap->shared->mail;
	CUdeviceptr word = heap->device + offsetof(struct gm_heap, refused);
	/* Lanes that wait write their want again. */
	__atomic_store_n(&mail->want.value, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&mail->refused.value, 0, __ATOMIC_RELEASE);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(heap->config.driver);
	heap->config.driver->cuMemsetD8Async(word, 0, sizeof(uint64_t), stream);
	gm_driver_quiet_end(heap->config.driver, mode);
}

/* Let the stream wait for the heap's own kernel. The caller must not: that kernel may wait for room
 * on the GPU, taken by a kernel of the program that waits for the caller. */
static void stream_wait_ran(struct gm_heap_host *heap, CUstream stream)
{
	const struct gm_driver *driver = heap->config.driver;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuStreamWaitEvent(stream, heap->ran, 0);
	gm_driver_quiet_end(driver, mode);
	if (result == CUDA_SUCCESS)
		return;
	gm_lock_take(&heap->lock);
	while (heap->excluded)
		gm_lock_wait(&heap->lock, &heap->admitted);
	gm_lock_release(&heap->lock);
}

void gm_heap_launch(struct gm_heap_host *heap, CUstream stream, const char *kernel)
{
	if (!gm_heap_is_ours(heap))
		return;
	gm_lock_take(&heap->lock);
	while (heap->excluded && !heap->ran_recorded)
		gm_lock_wait(&heap->lock, &heap->admitted);
	bool wait = heap->excluded;
	heap->starting = heap->launching && heap->starting != kernel ? NULL : kernel;
	heap->launching++;
	heap->busy = true;
	/* Earlier kernels may have seen no beat for so long that they gave the host up. */
	__atomic_fetch_add(&heap->shared->mail.beat.value, 1, __ATOMIC_RELEASE);
	gm_heap_service_start(heap);
	bool shed = gm_heap_shed_begin(heap);
	gm_lock_release(&heap->lock);
	if (wait)
		stream_wait_ran(heap, stream);
	if (shed)
		gm_heap_shed_launch(heap, stream);
	if (__atomic_load_n(&heap->shared->mail.refused.value, __ATOMIC_RELAXED))
		refusal_withdraw(heap, stream);
}

void gm_heap_launched(struct gm_heap_host *heap, CUstream stream, bool launched, const char *kernel)
{
	unsigned long long id = 0;
	struct gm_heap_track *track = NULL;
	if (!gm_heap_is_ours(heap))
		return;
	bool known = launched && heap->config.driver->cuStreamGetId(stream, &id) == CUDA_SUCCESS;
	gm_lock_take(&heap->lock);
	bool parked = heap->parked;
	heap->parked = false;
	if (known)
		track = gm_heap_track_begin(heap, id, kernel);
	gm_lock_release(&heap->lock);
	if (parked)
		gm_worker_wake(&heap->service);
	bool written = track && gm_heap_track_write(heap, track, stream);
	gm_lock_take(&heap->lock);
	if (track)
		track->writing = false;
	if (track && !written)
		track->last--;
	heap->untracked += launched && !written;
	heap->launching--;
	gm_heap_shed_see_launches(heap);
	gm_lock_release(&heap->lock);
	if (launched)
		gm_heap_mark_stale(heap);
}
