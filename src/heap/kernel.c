/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/kernel.h"

#include <string.h>

#include "heap/flight.h"

#ifdef GM_HELPERS
#define IMAGE __attribute__((visibility("hidden"))) extern const char
IMAGE gm_heap_kernels[];
IMAGE gm_heap_kernels_granule[];

const void *gm_heap_image(const char *policy)
{
	return policy && strcmp(policy, "granule") != 0 ? gm_heap_kernels : gm_heap_kernels_granule;
}
#else
const void *gm_heap_image(const char *policy)
{
	(void)policy;
	return NULL;
}
#endif

bool gm_heap_exclude_locked(struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (heap->excluded || gm_heap_is_in_flight(heap))
		return false;
	heap->excluded = true;
	heap->ran_recorded = false;
	return true;
}

bool gm_heap_exclude(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	bool mine = gm_heap_exclude_locked(heap);
	gm_lock_release(&heap->lock);
	return mine;
}

void gm_heap_admit(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	heap->excluded = false;
	gm_lock_release(&heap->lock);
	pthread_cond_broadcast(&heap->admitted);
}

CUresult gm_heap_run_on(struct gm_heap_host *heap, CUstream stream, enum gm_job_op op, size_t job)
{
	static const unsigned threads[] = {
		[GM_JOB_SET_UP] = GM_INIT_THREADS,
		[GM_JOB_TRIM] = 1,
		[GM_JOB_STATS] = 1,
		[GM_JOB_SHED] = GM_WARP,
	};
	CUdeviceptr at = heap->shared_device + job;
	unsigned number = op, n = op == GM_JOB_STATS && heap->sites ? GM_INIT_THREADS : threads[op];
	return heap->config.driver->cuLaunchKernel(heap->kernel, 1, 1, 1, n, 1, 1, 0, stream,
						   (void *[]){&heap->device, &at, &number}, NULL);
}

CUresult gm_heap_run(struct gm_heap_host *heap, enum gm_job_op op)
{
	const struct gm_driver *driver = heap->config.driver;
	CUresult result =
		gm_heap_run_on(heap, heap->stream, op, offsetof(struct gm_heap_shared, job));
	if (result != CUDA_SUCCESS)
		return result;
	if (driver->cuEventRecord(heap->ran, heap->stream) == CUDA_SUCCESS) {
		gm_lock_take(&heap->lock);
		heap->ran_recorded = true;
		gm_lock_release(&heap->lock);
		pthread_cond_broadcast(&heap->admitted);
	}
	return driver->cuStreamSynchronize(heap->stream);
}

CUresult gm_heap_run_there(struct gm_heap_host *heap, enum gm_job_op op)
{
	const struct gm_driver *driver = heap->config.driver;
	CUcontext popped;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuCtxPushCurrent_v2(heap->config.context->handle);
	if (result == CUDA_SUCCESS) {
		result = gm_heap_run(heap, op);
		driver->cuCtxPopCurrent_v2(&popped);
	}
	gm_driver_quiet_end(driver, mode);
	return result;
}

CUresult gm_heap_run_alive(struct gm_heap_host *heap, enum gm_job_op op)
{
	if (!gm_context_enter(heap->config.context))
		return CUDA_ERROR_NOT_READY;
	CUresult result = gm_heap_run_there(heap, op);
	gm_context_leave(heap->config.context);
	return result;
}
