/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that a stream capture forbids: every row was measured on the real driver, in 12 cases:
 * capture mode x same or other thread x capture mode of that thread exchanged to RELAXED or not.
 */
#include <string.h>

#include "sim_setup.h"

#define PAGE ((size_t)2 << 20)

static struct fixture {
	CUcontext ctx, other;
	CUstream stream, private;
	CUevent old, fence, other_old, other_fence;
	CUdeviceptr block, other_block, va, buffer;
} f;

static CUresult do_alloc(void)
{
	CUdeviceptr p;
	CUresult r = drv(cuMemAlloc_v2)(&p, 1 << 20);
	if (r == CUDA_SUCCESS)
		drv(cuMemFree_v2)(p);
	return r;
}

static CUresult do_free(void)
{
	return drv(cuMemFree_v2)(f.block);
}

static CUresult do_ctx_sync(void)
{
	return drv(cuCtxSynchronize)();
}

static CUresult do_ctx_record(void)
{
	return drv(cuCtxRecordEvent)(f.ctx, f.fence);
}

static CUresult do_query(void)
{
	return drv(cuEventQuery)(f.old);
}

static CUresult do_event_sync(void)
{
	return drv(cuEventSynchronize)(f.old);
}

static CUresult do_stream_sync(void)
{
	return drv(cuStreamSynchronize)(f.private);
}

static CUresult do_copy_and_sync(void)
{
	static char host[64];
	CUresult r = drv(cuMemcpyHtoDAsync_v2)(f.buffer, host, sizeof host, f.private);
	return r ? r : drv(cuStreamSynchronize)(f.private);
}

static CUresult do_vmm(void)
{
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc desc = {.location = prop.location,
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult r = drv(cuMemCreate)(&h, PAGE, &prop, 0);
	r = r ? r : drv(cuMemMap)(f.va, PAGE, 0, h, 0);
	r = r ? r : drv(cuMemSetAccess)(f.va, PAGE, &desc, 1);
	r = r ? r : drv(cuMemUnmap)(f.va, PAGE);
	return r ? r : drv(cuMemRelease)(h);
}

static CUresult do_read(void)
{
	char host[64];
	return drv(cuMemcpyDtoH_v2)(host, f.buffer, sizeof host);
}

static CUresult do_event_create(void)
{
	CUevent e;
	CUresult r = drv(cuEventCreate)(&e, CU_EVENT_DISABLE_TIMING);
	return r ? r : drv(cuEventDestroy_v2)(e);
}

static CUresult do_module(void)
{
	static const struct gm_sim_image image = {.magic = GM_SIM_IMAGE};
	CUmodule module;
	return drv(cuModuleLoadData)(&module, &image);
}

/* In another context of the process. */
static CUresult in_other(CUresult (*call)(void))
{
	drv(cuCtxPushCurrent_v2)(f.other);
	CUresult r = call();
	drv(cuCtxPopCurrent_v2)(NULL);
	return r;
}

static CUresult other_alloc(void)
{
	return in_other(do_alloc);
}

static CUresult free_other_block(void)
{
	return drv(cuMemFree_v2)(f.other_block);
}

static CUresult other_free(void)
{
	return in_other(free_other_block);
}

static CUresult query_other(void)
{
	return drv(cuEventQuery)(f.other_old);
}

static CUresult other_query(void)
{
	return in_other(query_other);
}

static CUresult other_ctx_sync(void)
{
	return in_other(do_ctx_sync);
}

static CUresult record_other(void)
{
	return drv(cuCtxRecordEvent)(f.other, f.other_fence);
}

static CUresult other_ctx_record(void)
{
	return in_other(record_other);
}

enum class { HARMLESS, UNSAFE, WHOLE_CONTEXT };

static const struct row {
	const char *name;
	CUresult (*call)(void);
	enum class class;
} rows[] = {
	{"cuMemAlloc", do_alloc, UNSAFE},
	{"cuMemFree", do_free, UNSAFE},
	{"cuCtxSynchronize", do_ctx_sync, WHOLE_CONTEXT},
	{"cuCtxRecordEvent", do_ctx_record, WHOLE_CONTEXT},
	{"cuEventQuery of an old event", do_query, UNSAFE},
	{"cuEventSynchronize of an old event", do_event_sync, UNSAFE},
	{"cuStreamSynchronize of a private stream", do_stream_sync, UNSAFE},
	{"a copy and a wait on a private stream", do_copy_and_sync, UNSAFE},
	{"cuMemCreate ... cuMemRelease", do_vmm, HARMLESS},
	{"cuMemcpyDtoH", do_read, HARMLESS},
	{"cuEventCreate", do_event_create, HARMLESS},
	{"cuModuleLoadData", do_module, HARMLESS},
	{"cuMemAlloc in another context", other_alloc, UNSAFE},
	{"cuMemFree in another context", other_free, UNSAFE},
	{"cuEventQuery in another context", other_query, UNSAFE},
	{"cuCtxSynchronize of another context", other_ctx_sync, HARMLESS},
	{"cuCtxRecordEvent of another context", other_ctx_record, HARMLESS},
};

static void set_up(void)
{
	f.ctx = sim_start(NULL, NULL, NULL);
	drv(cuCtxCreate_v2)(&f.other, 0, 0);
	drv(cuMemAlloc_v2)(&f.other_block, 4096);
	drv(cuEventCreate)(&f.other_old, CU_EVENT_DISABLE_TIMING);
	drv(cuEventCreate)(&f.other_fence, CU_EVENT_DISABLE_TIMING);
	drv(cuEventRecord)(f.other_old, NULL);
	drv(cuCtxPopCurrent_v2)(NULL);
	drv(cuStreamCreate)(&f.stream, CU_STREAM_NON_BLOCKING);
	drv(cuStreamCreate)(&f.private, CU_STREAM_NON_BLOCKING);
	drv(cuEventCreate)(&f.old, CU_EVENT_DISABLE_TIMING);
	drv(cuEventCreate)(&f.fence, CU_EVENT_DISABLE_TIMING);
	drv(cuEventRecord)(f.old, f.private);
	drv(cuMemAlloc_v2)(&f.buffer, 4096);
	drv(cuMemAlloc_v2)(&f.block, 4096);
	drv(cuMemAddressReserve)(&f.va, PAGE, 0, 0, 0);
}

struct job {
	const struct row *row;
	bool relaxed;
	CUresult result;
};

static void *run_job(void *arg)
{
	struct job *job = arg;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	drv(cuCtxSetCurrent)(f.ctx);
	if (job->relaxed)
		drv(cuThreadExchangeStreamCaptureMode)(&mode);
	job->result = job->row->call();
	if (job->relaxed)
		drv(cuThreadExchangeStreamCaptureMode)(&mode);
	return NULL;
}

static bool should_fail(enum class class, int mode, bool other, bool relaxed)
{
	if (class != UNSAFE)
		return class == WHOLE_CONTEXT;
	return !relaxed && (mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
			    (mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !other));
}

static void test_case(const struct row *row, int mode, bool other, bool relaxed)
{
	static const char *const modes[] = {"global", "thread-local", "relaxed"};
	struct job job = {row, relaxed, CUDA_SUCCESS};
	CUgraph graph = NULL;
	bool fails = should_fail(row->class, mode, other, relaxed);
	set_up();
	drv(cuStreamBeginCapture_v2)(f.stream, (CUstreamCaptureMode)mode);
	if (other)
		sim_on_thread(run_job, &job);
	else
		run_job(&job);
	CUresult end = drv(cuStreamEndCapture)(f.stream, &graph);
	TAP_OK(job.result == (fails ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS) &&
		       end == (fails ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS) &&
		       !graph == fails,
	       "%s, %s capture, %s thread%s: %d, then %d", row->name, modes[mode],
	       other ? "other" : "same", relaxed ? " exchanged" : "", job.result, end);
}

static void test_rules(void)
{
	CUstream a, b, blocking;
	CUevent e;
	CUgraph graph;
	CUstreamCaptureStatus status;
	set_up();
	drv(cuStreamCreate)(&a, CU_STREAM_NON_BLOCKING);
	drv(cuStreamCreate)(&b, CU_STREAM_NON_BLOCKING);
	drv(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT);
	drv(cuEventCreate)(&e, 0);
	TAP_IS(drv(cuStreamEndCapture)(a, &graph), CUDA_ERROR_ILLEGAL_STATE,
	       "a stream without a capture has none to end");
	TAP_IS(drv(cuStreamBeginCapture_v2)(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       "the legacy stream cannot capture");
	drv(cuStreamBeginCapture_v2)(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	TAP_IS(drv(cuStreamBeginCapture_v2)(a, 0), CUDA_ERROR_ILLEGAL_STATE,
	       "a stream cannot capture twice");
	drv(cuEventRecord)(e, a);
	TAP_IS(drv(cuStreamWaitEvent)(b, e, 0), CUDA_SUCCESS, "another stream joins the capture");
	drv(cuStreamIsCapturing)(b, &status);
	TAP_IS(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "a joined stream captures");
	TAP_IS(drv(cuMemsetD8Async)(f.buffer, 1, 1, b), CUDA_SUCCESS,
	       "work of a joined stream is captured");
	TAP_IS(drv(cuStreamEndCapture)(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
	       "a joined stream cannot end the capture");
	drv(cuStreamEndCapture)(a, &graph);
	drv(cuStreamBeginCapture_v2)(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	drv(cuEventRecord)(e, a);
	drv(cuStreamWaitEvent)(b, e, 0);
	drv(cuMemsetD8Async)(f.buffer, 1, 1, b);
	TAP_IS(drv(cuStreamEndCapture)(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
	       "work of the other stream without a wait is unjoined");
	drv(cuStreamBeginCapture_v2)(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	drv(cuEventRecord)(e, a);
	drv(cuStreamWaitEvent)(b, e, 0);
	drv(cuMemsetD8Async)(f.buffer, 1, 1, b);
	drv(cuEventRecord)(e, b);
	drv(cuStreamWaitEvent)(a, e, 0);
	TAP_IS(drv(cuEventQuery)(e), CUDA_ERROR_CAPTURED_EVENT,
	       "an event of the capture cannot be asked");
	TAP_IS(drv(cuMemFreeAsync)(f.block, a), CUDA_ERROR_INVALID_VALUE,
	       "memory of cuMemAlloc cannot be freed in a capture");
	TAP_IS(drv(cuStreamEndCapture)(a, &graph), CUDA_SUCCESS,
	       "a refused free does not affect the capture");
	drv(cuStreamBeginCapture_v2)(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	TAP_IS(drv(cuMemsetD8Async)(f.buffer, 1, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
	       "the legacy stream would depend on a capture");
	TAP_IS(drv(cuMemsetD8Async)(f.buffer, 1, 1, blocking),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	       "a call of the legacy stream invalidates the capture");
	drv(cuStreamDestroy_v2)(blocking);
	TAP_IS(drv(cuCtxSynchronize)(), CUDA_SUCCESS, "destroying its stream ends a capture");
}

static CUresult ended;

static void *end_elsewhere(void *arg)
{
	CUgraph graph;
	(void)arg;
	drv(cuCtxSetCurrent)(f.ctx);
	ended = drv(cuStreamEndCapture)(f.stream, &graph);
	return NULL;
}

static void test_threads(void)
{
	CUgraph graph;
	set_up();
	drv(cuStreamBeginCapture_v2)(f.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	sim_on_thread(end_elsewhere, NULL);
	TAP_IS(ended, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
	       "another thread cannot end a capture");
	TAP_IS(drv(cuStreamEndCapture)(f.stream, &graph), CUDA_SUCCESS,
	       "the capturing thread can end its capture");
	drv(cuStreamBeginCapture_v2)(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	sim_on_thread(end_elsewhere, NULL);
	TAP_IS(ended, CUDA_SUCCESS, "any thread can end a relaxed capture");
}

int main(void)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (int mode = 0; mode < 3; mode++)
			for (int other = 0; other < 2; other++)
				for (int relaxed = 0; relaxed < 2; relaxed++)
					test_case(&rows[i], mode, other, relaxed);
	test_rules();
	test_threads();
	return tap_done();
}
