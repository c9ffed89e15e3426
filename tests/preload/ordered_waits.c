/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUMEM_FREE=ordered: what waits, and for which work: `ordered_waits CASE [show]`. Natively each
 * case goes on while the stream `s` still has work. With `show`, also prints how often a thread
 * waited inside the driver, and whether this thread napped in the call under test.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cases.h"
#include "programmatic.h"
#include "sim/sim.h"
#include "steer.h"

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

#define SIZE (3 * MIB)
#define LATE 255

static CUstream s, t;

/* --- a thread that lets `s` go on by one step for each wait of another thread --- */

#define ENOUGH 200000 /* polls; then a thread waits for one more step */

static atomic_uint waits;
static atomic_bool done;

static void *let_go(void *arg)
{
	for (; !atomic_load(&done); usleep(100)) {
		if (!gm_sim_waiters())
			continue;
		atomic_fetch_add(&waits, 1);
		gm_sim_release(s, 1);
		for (unsigned i = 0; i < ENOUGH && gm_sim_waiters(); i++)
			usleep(100);
	}
	return arg;
}

static long sleeps_n(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

static pthread_t begin(void)
{
	pthread_t thread;
	atomic_store(&done, false);
	atomic_store(&waits, 0);
	pthread_create(&thread, NULL, let_go, NULL);
	return thread;
}

static void end(pthread_t thread)
{
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	if (show)
		printf("  waits: %u\n", atomic_load(&waits));
}

/* A thread sleeps now and then without a nap of ours: for a lock of the kernel. */
#define FEW 4

/* The call under test. */
#define CALL(call)                                        \
	do {                                              \
		long slept_ = sleeps_n();                 \
		SAY(call);                                \
		if (show && sleeps_n() - slept_ > FEW)    \
			printf("  slept in %s\n", #call); \
	} while (0)

/* --- steps of programs --- */

static CUstream stream_new(void)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static CUdeviceptr take(size_t size)
{
	CUdeviceptr at = 0;
	CALL(cuMemAlloc(&at, size));
	return at;
}

static void work(CUstream stream, CUdeviceptr at, size_t size)
{
	MUST(cuMemsetD8Async(at, LATE, size, stream));
}

/* `s` has work on a block that is freed; the other blocks were used before. */
static CUdeviceptr small;

static CUdeviceptr freed(size_t size)
{
	s = stream_new();
	t = stream_new();
	small = take(512);
	CUdeviceptr old = take(size);
	gm_sim_hold(s);
	work(s, old, size);
	CALL(cuMemFree(old));
	return old;
}

/* The same, and the block is handed out again. */
static CUdeviceptr reused(void)
{
	CUdeviceptr old = freed(SIZE), fresh = take(SIZE);
	if (show)
		printf("  used again: %d\n", fresh == old);
	return fresh;
}

static void finish(pthread_t thread)
{
	end(thread);
	gm_sim_release(s, -1u);
	MUST(cuCtxSynchronize());
}

/* --- the cases --- */

/* Another stream has work, and the pool needs new memory. */
static void grows(void)
{
	pthread_t thread = begin();
	freed(SIZE);
	work(t, small, 512);
	for (unsigned i = 0; i < 3; i++)
		take((64 + 40 * i) * MIB);
	finish(thread);
}

/* All work on the freed block has ended when another stream gets work. */
static void ended(void)
{
	CUdeviceptr p;
	pthread_t thread = begin();
	s = stream_new();
	small = take(512);
	p = take(96 * MIB);
	MUST(cuMemsetD8(p, 1, 96 * MIB));
	CALL(cuMemFree(p));
	MUST(cuCtxSynchronize());
	gm_sim_hold(s);
	work(s, small, 512);
	take(96 * MIB);
	finish(thread);
}

/* The device has no other memory: the allocation waits for the work on the freed block alone. */
static void last_memory(void)
{
	pthread_t thread = begin();
	freed(96 * MIB);
	work(s, small, 512);
	work(t, small, 512);
	take(96 * MIB + 1);
	SAY(cuStreamQuery(s));
	finish(thread);
}

/* Work of `s` from after the free may wait for `t`. */
static void later_work(void)
{
	pthread_t thread = begin();
	freed(SIZE);
	work(s, small, 512);
	CUdeviceptr fresh = take(SIZE);
	work(t, fresh, SIZE);
	if (show)
		gm_sim_release(s, 1); /* natively the free has waited for it */
	SAY(cuStreamQuery(t));
	SAY(cuStreamQuery(s));
	finish(thread);
}

static void capture_by(CUdeviceptr at)
{
	CUgraph graph;
	CALL(cuStreamBeginCapture(t, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuMemsetD8Async(at, 7, 512, t));
	CALL(cuStreamEndCapture(t, &graph));
	MUST(cuGraphDestroy(graph));
}

static void capture(void)
{
	pthread_t thread = begin();
	freed(SIZE);
	capture_by(small);
	finish(thread);
}

static void capture_reused(void)
{
	pthread_t thread = begin();
	capture_by(reused());
	finish(thread);
}

/* A stream that does not capture gets work while another one captures. */
static void capture_beside(void)
{
	CUgraph graph;
	pthread_t thread = begin();
	CUdeviceptr fresh = reused();
	CUstream other = stream_new();
	MUST(cuStreamBeginCapture(t, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuMemsetD8Async(small, 7, 512, t));
	work(other, fresh, SIZE);
	gm_sim_release(s, 1);
	CALL(cuStreamEndCapture(t, &graph));
	SAY(cuStreamQuery(other));
	finish(thread);
}

/* What takes a block out of the order of streams, of `at`. */
static void memops_of(CUdeviceptr at)
{
	int on = 1;
	CALL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
}

static void ipc_of(CUdeviceptr at)
{
	CUipcMemHandle handle;
	CALL(cuIpcGetMemHandle(&handle, at));
}

static void dmabuf_of(CUdeviceptr at)
{
	int fd = -1;
	CALL(cuMemGetHandleForAddressRange(&fd, at, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					   0));
	close(fd);
}

static void other_block(void (*use)(CUdeviceptr at))
{
	CUdeviceptr other = take(SIZE);
	pthread_t thread = begin();
	reused();
	use(other);
	finish(thread);
}

/* The block itself was reused. Work of `s` from after the free goes on. */
static void own_block(void (*use)(CUdeviceptr at))
{
	pthread_t thread = begin();
	CUdeviceptr fresh = reused();
	work(s, small, 512);
	use(fresh);
	SAY(cuStreamQuery(s));
	finish(thread);
}

#define BOTH(name)                      \
	static void name(void)          \
	{                               \
		other_block(name##_of); \
	}                               \
	static void name##_reused(void) \
	{                               \
		own_block(name##_of);   \
	}
BOTH(memops)
BOTH(ipc)
BOTH(dmabuf)

static void peer_copy(void)
{
	CUdeviceptr other = take(2 * SIZE);
	pthread_t thread = begin();
	freed(SIZE);
	CALL(cuMemcpyPeer(other, primary, other + SIZE, primary, 256));
	finish(thread);
}

/* The handle of the stream of the work ends, and may be given to another stream. */
static void destroyed(void)
{
	pthread_t thread = begin();
	CUdeviceptr fresh = reused();
	work(s, small, 512);
	CALL(cuStreamDestroy(t));
	t = stream_new();
	work(t, fresh, SIZE);
	gm_sim_release(s, 1);
	SAY(cuStreamQuery(t));
	finish(thread);
}

/* Kernels of `s` that may start, or let `t` start, before their stream's earlier work has ended. */
static void kernel_fill(void **args)
{
	memset(*(void **)args[0], 7, SIZE);
}

static CUfunction fill(void)
{
	static const struct gm_sim_kernel kernel = {"fill", kernel_fill, {sizeof(CUdeviceptr)}, 0};
	static const struct gm_sim_image image = {GM_SIM_IMAGE, 1, &kernel, 0, 0, NULL};
	CUmodule module;
	CUfunction function;
	MUST(cuModuleLoadData(&module, &image));
	MUST(cuModuleGetFunction(&function, module, "fill"));
	return function;
}

static void holds(CUdeviceptr at, size_t size)
{
	unsigned char *copy = malloc(size);
	MUST(cuMemcpyDtoH(copy, at, size));
	printf("intact: %d\n", copy[0] == 7 && memcmp(copy, copy + 1, size - 1) == 0);
	free(copy);
}

static void programmatic_event(void)
{
	CUevent event;
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CUdeviceptr some = take(SIZE);
	pthread_t thread = begin();
	CUdeviceptr fresh = reused();
	void *params[] = {&some};
	launch_with(fill(), s, params,
		    (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
					.value.programmaticEvent = {.event = event}});
	MUST(cuStreamWaitEvent(t, event, 0));
	MUST(cuMemsetD8Async(fresh, 7, SIZE, t));
	finish(thread);
	holds(fresh, SIZE);
}

static void programmatic_start(void)
{
	pthread_t thread = begin();
	CUdeviceptr fresh = reused();
	void *params[] = {&fresh};
	launch_ahead(fill(), s, params);
	finish(thread);
	holds(fresh, SIZE);
}

/* A block of one context, the stream of another. */
static void contexts(void)
{
	CUcontext other;
	CUdeviceptr mine = take(SIZE), fresh;
	pthread_t thread = begin();
	MUST(cuCtxCreate_v2(&other, 0, 0));
	s = stream_new();
	gm_sim_hold(s);
	work(s, mine, SIZE);
	MUST(cuCtxSetCurrent(primary));
	CALL(cuMemFree(mine));
	fresh = take(SIZE);
	if (show)
		printf("  used again: %d\n", fresh == mine);
	end(thread);
	gm_sim_release(s, -1u);
	SAY(cuCtxDestroy(other));
}

/* Copies that go through slots: the copy to the device is in the stream of the caller. */
static void staged(void)
{
	size_t size = 64 * MIB;
	unsigned char *host = malloc(size);
	memset(host, 7, size);
	pthread_t thread = begin();
	CUdeviceptr old = freed(size);
	CUdeviceptr fresh = take(size);
	if (show)
		printf("  used again: %d\n", fresh == old);
	gm_sim_release(s, -1u);
	MUST(cuMemcpyHtoDAsync(fresh, host, size, t));
	MUST(cuStreamSynchronize(t));
	memset(host, 0, size);
	MUST(cuMemcpyDtoHAsync(host, fresh, size, t));
	MUST(cuStreamSynchronize(t));
	printf("intact: %d\n", host[0] == 7 && memcmp(host, host + 1, size - 1) == 0);
	free(host);
	finish(thread);
}

/* Streams of a green context are streams as others. */
static void green(void)
{
	CUdevResource resource;
	CUdevResourceDesc desc;
	CUgreenCtx context;
	MUST(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
	MUST(cuDevResourceGenerateDesc(&desc, &resource, 1));
	MUST(cuGreenCtxCreate(&context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	pthread_t thread = begin();
	CUdeviceptr fresh = reused();
	CUcontext as_context;
	MUST(cuCtxFromGreenCtx(&as_context, context));
	MUST(cuCtxSetCurrent(as_context));
	CUstream other = stream_new();
	MUST(cuCtxSetCurrent(primary));
	work(other, fresh, SIZE);
	gm_sim_release(s, 1);
	SAY(cuStreamQuery(other));
	finish(thread);
}

/* The device is idle at each free, though two streams had work before. */
static void idle_device(void)
{
	s = stream_new();
	t = stream_new();
	pthread_t thread = begin();
	CUdeviceptr old = 0;
	unsigned again = 0;
	for (unsigned i = 0; i < 50; i++) {
		CUdeviceptr fresh = take(SIZE);
		again += fresh == old;
		old = fresh;
		work(s, fresh, SIZE);
		work(t, fresh, SIZE);
		MUST(cuCtxSynchronize());
		CALL(cuMemFree(fresh));
	}
	if (show)
		printf("  used again: %d\n", again == 49);
	end(thread);
}

/* A free in the stream that alone has work. */
static void free_async(void)
{
	s = stream_new();
	gm_sim_hold(s);
	CUdeviceptr old = take(SIZE);
	pthread_t thread = begin();
	work(s, old, SIZE);
	CALL(cuMemFreeAsync(old, s));
	CUdeviceptr fresh = take(SIZE);
	if (show)
		printf("  used again: %d\n", fresh == old);
	MUST(cuMemsetD8Async(fresh, 7, SIZE, s));
	end(thread);
	gm_sim_release(s, -1u);
	unsigned char last = 0;
	MUST(cuMemcpyDtoH(&last, fresh + SIZE - 1, 1));
	printf("last byte: %d\n", last);
}

/* A block of reused memory is freed where its first owner's work is not ordered before: in an idle
 * stream. Then a block there gets SYNC_MEMOPS, so that a device may write at any time. */
static void free_async_idle(void)
{
	pthread_t thread = begin();
	CUdeviceptr again = reused();
	CALL(cuMemFreeAsync(again, t));
	CUdeviceptr fresh = take(SIZE);
	int on = 1;
	CALL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, fresh));
	memset((void *)fresh, 7, SIZE);
	end(thread);
	gm_sim_release(s, -1u);
	MUST(cuStreamSynchronize(s));
	printf("last byte: %d\n", ((unsigned char *)fresh)[SIZE - 1]);
}

/* A context does not get the hot memory of another one, for its fences do not cover that work. */
static void other_context(void)
{
	CUcontext other;
	MUST(cuCtxCreate_v2(&other, 0, 0));
	MUST(cuCtxSetCurrent(primary));
	pthread_t thread = begin();
	CUdeviceptr old = freed(SIZE);
	MUST(cuCtxSetCurrent(other));
	CUdeviceptr fresh = take(SIZE);
	if (show)
		printf("  used again: %d\n", fresh == old);
	CALL(cuMemFree(fresh));
	fresh = take(SIZE);
	if (show)
		printf("  used again: %d\n", fresh == old);
	MUST(cuCtxSetCurrent(primary));
	end(thread);
	gm_sim_release(s, -1u);
	MUST(cuCtxSynchronize());
}

/* The event that other streams wait for cannot be recorded. */
static void no_event(void)
{
	pthread_t thread = begin();
	CUdeviceptr fresh = reused();
	gm_sim_fail("cuCtxRecordEvent", 1, CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuMemsetD8Async(fresh, 7, SIZE, t));
	gm_sim_fail("cuCtxRecordEvent", 0, 0);
	end(thread);
	gm_sim_release(s, -1u);
	MUST(cuCtxSynchronize());
	unsigned char last = 0;
	MUST(cuMemcpyDtoH(&last, fresh + SIZE - 1, 1));
	printf("last byte: %d\n", last);
}

int main(int argc, char **argv)
{
	static const struct program_case cases[] = {{"grows", grows},
						    {"ended", ended},
						    {"last_memory", last_memory},
						    {"later_work", later_work},
						    {"capture", capture},
						    {"capture_reused", capture_reused},
						    {"capture_beside", capture_beside},
						    {"memops", memops},
						    {"memops_reused", memops_reused},
						    {"ipc", ipc},
						    {"ipc_reused", ipc_reused},
						    {"dmabuf", dmabuf},
						    {"dmabuf_reused", dmabuf_reused},
						    {"peer_copy", peer_copy},
						    {"destroyed", destroyed},
						    {"programmatic_event", programmatic_event},
						    {"programmatic_start", programmatic_start},
						    {"contexts", contexts},
						    {"staged", staged},
						    {"green", green},
						    {"idle_device", idle_device},
						    {"free_async", free_async},
						    {"free_async_idle", free_async_idle},
						    {"other_context", other_context},
						    {"no_event", no_event}};
	return case_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
