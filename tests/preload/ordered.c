/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is used again in the order of a stream: `ordered CASE [show]`. A held stream is yet
 * to write to a block that is freed. The contents of the other blocks are the same whether frees
 * wait or not. With `show`, also prints whether memory was used again at once, and whether a thread
 * waited.
 */
#include "ahead.h"
#include "programmatic.h"
#include "spoil.h"

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

/* The signature of 12.8: cuda.h renames this call to that of 13.0. */
CUresult lines_of_12_8(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
		       CUmemcpyAttributes *attributes, size_t *first, size_t n, size_t *failed,
		       CUstream stream) __asm__("cuMemcpyBatchAsync");

#define SIZE (3 * MIB)

static atomic_bool submitted;

/* Reads the address from memory. */
static void kernel_told(void **args)
{
	memset(**(void ***)args[0], 7, SIZE);
}

static CUfunction function_told(void)
{
	static const struct gm_sim_kernel kernel = {"told", kernel_told, {sizeof(void *)}, 0};
	static const struct gm_sim_image image = {GM_SIM_IMAGE, 1, &kernel, 0, 0, NULL};
	return function_in(&image, "told");
}

/* --- the cases --- */

/* Reuse in the order of one stream. */
static void reuse(void)
{
	for (size_t size = 700; size < 100 * MIB; size *= 23) {
		CUstream s = hold(0);
		CUdeviceptr old = take(size);
		late(old, size, s);
		pthread_t thread = begin();
		SAY(cuMemFree(old));
		SAY(cuMemFree(old));
		CUdeviceptr fresh = take(size);
		early(fresh, old, size);
		MUST(cuMemsetD8Async(fresh, 7, size, s));
		end(thread);
		holds(fresh, size, 7);
		MUST(cuMemFree(fresh));
		MUST(cuStreamDestroy(s));
	}
}

/* Reuse with other sizes: a block is split, and its parts are joined again. */
static void split(void)
{
	CUstream s = hold(0);
	CUdeviceptr old = take(8 * MIB), part[4];
	late(old, 8 * MIB, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	for (unsigned i = 0; i < 4; i++) {
		part[i] = take(2 * MIB);
		early(part[i], old, 8 * MIB);
		late(part[i], 2 * MIB, s);
	}
	for (unsigned i = 0; i < 4; i++)
		MUST(cuMemFree(part[i]));
	CUdeviceptr whole = take(8 * MIB);
	early(whole, old, 8 * MIB);
	MUST(cuMemsetD8Async(whole, 7, 8 * MIB, s));
	end(thread);
	holds(whole, 8 * MIB, 7);
}

/* Three blocks, no two side by side, make room for one: their memory moves. The late writes to them
 * fault if it has left the old addresses. */
static void moved(void)
{
	enum { BLOCKS = 6 };
	CUstream s = hold(0);
	CUdeviceptr at[BLOCKS];
	for (unsigned i = 0; i < BLOCKS; i++) {
		at[i] = take(8 * MIB);
		late(at[i], 8 * MIB, s);
	}
	pthread_t thread = begin();
	for (unsigned i = 0; i < BLOCKS; i += 2)
		MUST(cuMemFree(at[i]));
	CUdeviceptr whole = take(BLOCKS / 2 * 8 * MIB);
	MUST(cuMemsetD8Async(whole, 7, BLOCKS / 2 * 8 * MIB, s));
	end(thread);
	holds(whole, BLOCKS / 2 * 8 * MIB, 7);
	for (unsigned i = 1; i < BLOCKS; i += 2)
		holds(at[i], 8 * MIB, LATE);
}

/* Another stream is the next user (R2), by each kind of call. */
static void fill(CUdeviceptr at, CUstream stream)
{
	MUST(cuMemsetD8Async(at, 7, SIZE, stream));
}

static void copy(CUdeviceptr at, CUstream stream)
{
	static unsigned char from[SIZE];
	memset(from, 7, SIZE);
	MUST(cuMemcpyHtoDAsync(at, from, SIZE, stream));
}

static void launch(CUdeviceptr at, CUstream stream)
{
	fill_by_kernel(at, 7, SIZE, stream);
}

static void launch_graph(CUdeviceptr at, CUstream stream)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	CUcontext context;
	MUST(cuCtxGetCurrent(&context));
	CUDA_MEMSET_NODE_PARAMS params = {
		.dst = at, .value = 7, .elementSize = 1, .width = SIZE, .height = 1};
	MUST(cuGraphCreate(&graph, 0));
	MUST(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, context));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, stream));
}

static void write_word(CUdeviceptr at, CUstream stream)
{
	MUST(cuStreamWriteValue32(stream, at, 7, 0));
}

static void write_batch(CUdeviceptr at, CUstream stream)
{
	CUstreamBatchMemOpParams p = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
						     .address = at,
						     .value = 7}};
	MUST(cuStreamBatchMemOp(stream, 1, &p, 0));
}

static void other_by(void (*use)(CUdeviceptr at, CUstream stream), CUstream stream)
{
	unsigned char first;
	CUstream s = hold(0);
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	use(fresh, stream);
	end(thread);
	if (stream != CU_STREAM_PER_THREAD)
		MUST(cuStreamSynchronize(stream));
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	MUST(cuMemcpyDtoH(&first, fresh, 1));
	printf("first byte: %u\n", first);
	MUST(cuMemFree(fresh));
}

static void other(void)
{
	other_by(fill, stream_new());
	held[0] = NULL;
}

/* A line of a batch, so large that it is staged. */
static void other_lines(void)
{
	static unsigned char from[9 * MIB];
	CUmemcpyAttributes any = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
	size_t size = sizeof from, zero = 0, failed;
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr old = take(size), source = (CUdeviceptr)(uintptr_t)from;
	memset(from, 7, size);
	late(old, size, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(size);
	early(fresh, old, size);
	MUST(lines_of_12_8(&fresh, &source, &size, 1, &any, &zero, 1, &failed, next));
	end(thread);
	MUST(cuStreamSynchronize(next));
	MUST(cuStreamSynchronize(s));
	holds(fresh, size, 7);
}

/* The work of the first stream has ended before the second one's (R3). */
static void other_later(void)
{
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	gm_sim_release(s, -1u);
	while (cuStreamQuery(s) != CUDA_SUCCESS)
		usleep(100);
	fill(fresh, next);
	MUST(cuStreamSynchronize(next));
	end(thread);
	holds(fresh, SIZE, 7);
}

#define OTHER_BY(name, use, stream)    \
	static void name(void)         \
	{                              \
		other_by(use, stream); \
	}
OTHER_BY(other_copy, copy, stream_new())
OTHER_BY(other_kernel, launch, stream_new())
OTHER_BY(other_graph, launch_graph, stream_new())
OTHER_BY(other_word, write_word, stream_new())
OTHER_BY(other_batch, write_batch, stream_new())
OTHER_BY(other_default, fill, NULL)
OTHER_BY(other_own, fill, CU_STREAM_PER_THREAD)

/* The work is in the default stream of another thread (R4). */
static void *own_late(void *arg)
{
	MUST(cuCtxSetCurrent(primary));
	gm_sim_hold(CU_STREAM_PER_THREAD);
	late(*(CUdeviceptr *)arg, SIZE, CU_STREAM_PER_THREAD);
	atomic_store(&submitted, true);
	let_go(NULL);
	gm_sim_release(CU_STREAM_PER_THREAD, -1u);
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return NULL;
}

static void other_thread(void)
{
	pthread_t thread;
	CUdeviceptr old = take(SIZE);
	pthread_create(&thread, NULL, own_late, &old);
	while (!atomic_load(&submitted))
		usleep(100);
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	fill(fresh, CU_STREAM_PER_THREAD);
	end(thread);
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	holds(fresh, SIZE, 7);
}

/* Another stream gets work between the free and the allocation (R1). */
static void between(void)
{
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr old = take(SIZE), some = take(SIZE);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	fill(some, next);
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	fill(fresh, next);
	end(thread);
	holds(fresh, SIZE, 7);
}

/* The same, and the other stream's kernel reads the address from memory (R1). */
static void told(void)
{
	static CUdeviceptr fresh;
	void *at = &fresh, *params[] = {&at};
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr old = take(SIZE);
	gm_sim_hold(next);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	MUST(cuLaunchKernel(function_told(), 1, 1, 1, 1, 1, 1, 0, next, params, NULL));
	fresh = take(SIZE);
	early(fresh, old, SIZE);
	gm_sim_release(next, -1u);
	end(thread);
	holds(fresh, SIZE, 7);
}

/* Another stream has work at the time of the free (R1). */
static void before(void)
{
	CUstream s = stream_new(), next = hold(0);
	CUdeviceptr old = take(SIZE), some = take(SIZE);
	fill(some, s);
	late(old, SIZE, next);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	fill(fresh, s);
	end(thread);
	holds(fresh, SIZE, 7);
}

/* After the other stream's work has ended, only one stream has work again. */
static void again(void)
{
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr some = take(SIZE), old;
	fill(some, next);
	fill(some, s);
	gm_sim_release(s, -1u);
	for (unsigned i = 0; i < 300; i++) {
		old = take(SIZE);
		MUST(cuMemFree(old));
	}
	gm_sim_hold(s);
	old = take(SIZE);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	fill(fresh, s);
	end(thread);
	holds(fresh, SIZE, 7);
}

/* Hot memory of an ended context does not stop reuse in another context. */
static void context_ends(void)
{
	CUcontext other;
	CUdeviceptr mine = take(2 * SIZE);
	MUST(cuCtxCreate_v2(&other, 0, 0));
	CUstream s = hold(0);
	CUdeviceptr old = take(SIZE);
	MUST(cuMemsetD8Async(old, LATE, SIZE, s));
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	end(thread);
	SAY(cuCtxDestroy(other));
	MUST(cuCtxSetCurrent(primary));
	s = hold(0);
	late(mine, 2 * SIZE, s);
	thread = begin();
	MUST(cuMemFree(mine));
	CUdeviceptr fresh = take(2 * SIZE);
	early(fresh, mine, 2 * SIZE);
	fill(fresh, s);
	end(thread);
	holds(fresh, SIZE, 7);
}

/* A capture begins while memory is hot (R6). */
static void capture(void)
{
	CUgraph graph;
	CUgraphExec exec;
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	SAY(cuStreamBeginCapture(next, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuMemsetD8Async(fresh, 7, SIZE, next));
	SAY(cuStreamEndCapture(next, &graph));
	SAY(cuGraphInstantiate(&exec, graph, 0));
	SAY(cuGraphLaunch(exec, next));
	end(thread);
	MUST(cuStreamSynchronize(next));
	holds(fresh, SIZE, 7);
}

/* Memory is returned to the driver, or mapped elsewhere (R7): at once with GPUMEM_TRIM_AFTER=0, for
 * the second block where the device has 160 MiB. */
static void trim(void)
{
	CUstream s = hold(0);
	CUdeviceptr old[2] = {take(48 * MIB), take(48 * MIB)}, wall = take(2 * MIB);
	MUST(cuMemsetD8Async(old[1], 9, 48 * MIB, s));
	gm_sim_release(s, -1u);
	gm_sim_hold(s);
	late(old[0], 48 * MIB, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old[0]));
	MUST(cuMemFree(wall));
	CUdeviceptr fresh = take(100 * MIB);
	MUST(cuMemsetD8Async(fresh, 7, 100 * MIB, s));
	end(thread);
	holds(fresh, 100 * MIB, 7);
	holds(old[1], 48 * MIB, 9);
}

/* The new use is in no stream (R8). */
static void pinned(void)
{
	int on = 1;
	CUstream s = hold(0);
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, fresh));
	SAY(cuStreamQuery(s));
	end(thread);
}

/* Other users may know the address of the freed block (R8). */
static void known(void)
{
	int on = 1;
	CUstream s = hold(0);
	CUdeviceptr old = take(SIZE);
	SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, old));
	late(old, SIZE, s);
	pthread_t thread = begin();
	SAY(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	fill(fresh, s);
	end(thread);
	holds(fresh, SIZE, 7);
}

/* Work may be launched past the hooks (R9). */
static void table_get(CUuuid id)
{
	const void *table;
	CUresult (*get)(const void **, const CUuuid *) =
		(CUresult(*)(const void **, const CUuuid *))dlsym(RTLD_DEFAULT, "cuGetExportTable");
	SAY(get(&table, &id));
}

static void tables(void)
{
	table_get((CUuuid){{0}});
	reuse();
}

/* Tables of libcudart and cuBLAS: both launch by the driver's exports. */
static void tables_known(void)
{
	table_get((CUuuid){"\xf8\xcf\xf9\x51\x21\x46\x8b\x4e\xb9\xe2\xfb\x46\x9e\x7c\x0d\xd9"});
	table_get((CUuuid){"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2"});
	reuse();
}

/* A kernel that may start ahead of earlier work of its stream (R5). */
static void programmatic(void)
{
	int value = 7;
	size_t size = SIZE;
	CUstream s = hold(0);
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	pthread_t thread = begin();
	MUST(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	void *params[] = {&fresh, &value, &size};
	launch_ahead(function_fill(), s, params);
	end(thread);
	holds(fresh, SIZE, 7);
}

/* The program lets its own work wait: `next` waits for `s` (R3), which is released when standard
 * input ends. The line on standard error must come before. */
static void hang(void)
{
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	MUST(cuMemFree(old));
	fill(take(SIZE), next);
	clock_set_ahead(10);
	while (getchar() != EOF)
		;
	gm_sim_release(s, -1u);
	MUST(cuStreamSynchronize(next));
	puts("ended");
}

int main(int argc, char **argv)
{
	static const struct program_case cases[] = {{"reuse", reuse},
						    {"split", split},
						    {"moved", moved},
						    {"other", other},
						    {"other_later", other_later},
						    {"other_copy", other_copy},
						    {"other_kernel", other_kernel},
						    {"other_graph", other_graph},
						    {"other_word", other_word},
						    {"other_batch", other_batch},
						    {"other_lines", other_lines},
						    {"other_default", other_default},
						    {"other_own", other_own},
						    {"other_thread", other_thread},
						    {"between", between},
						    {"told", told},
						    {"before", before},
						    {"again", again},
						    {"context_ends", context_ends},
						    {"capture", capture},
						    {"trim", trim},
						    {"pinned", pinned},
						    {"known", known},
						    {"tables", tables},
						    {"tables_known", tables_known},
						    {"programmatic", programmatic},
						    {"hang", hang}};
	return case_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
