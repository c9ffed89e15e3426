/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc in the body of a conditional node. The image calls the device runtime
 * (cudaGraphSetConditional), and the driver gives such images a second malloc and free, which stay
 * on the stack of the caller. So each lane checks arrays of its own around each call. Blocks of one
 * pass are checked and freed by another lane in the next one; those of the graph's last pass by a
 * kernel outside of it. The native heap is made large enough to refuse nothing.
 */
#include "gpu.h"

#if CUDART_VERSION >= 12030

enum { LANES = 256, BLOCK = 64, PASSES = 8, LAUNCHES = 3, DEPTH = 2, LOCALS = 32 };

static const bool preloaded = getenv("LD_PRELOAD") != NULL;

struct Counts {
	unsigned long long null, damaged, locals, taken;
};

struct Work {
	unsigned lanes;
	size_t words;	 /* of a lane's block */
	unsigned sparse; /* distance of the words that are written and checked */
	uint32_t **kept; /* by lane */
	unsigned *pass;	 /* number of the pass, since the program began */
	Counts *counts;
};

static __device__ bool holds(const uint32_t *at, const Work &work, unsigned tag)
{
	bool same = true;
	for (size_t i = 0; i < work.words - 1; i += work.sparse)
		same = at[i] == pattern(tag, i) && same;
	return same && at[work.words - 1] == ~tag;
}

/* Free another lane's block of the last pass, and keep one of this pass. */
static __device__ __noinline__ void exchange(const Work &work, unsigned lane, unsigned pass)
{
	unsigned other = (lane + pass) % work.lanes;
	uint32_t *old = work.kept[other];
	if (old && !holds(old, work, other * 1000 + pass - 1))
		atomicAdd(&work.counts->damaged, 1);
	work.kept[other] = NULL;
	free(old);
}

static __device__ __noinline__ void keep(const Work &work, unsigned lane, unsigned pass)
{
	unsigned tag = lane * 1000 + pass;
	uint32_t *at = (uint32_t *)malloc(work.words * sizeof *at);
	work.kept[lane] = at;
	atomicAdd(&work.counts->taken, 1);
	if (!at) {
		atomicAdd(&work.counts->null, 1);
		return;
	}
	for (size_t i = 0; i < work.words - 1; i += work.sparse)
		at[i] = pattern(tag, i);
	at[work.words - 1] = ~tag;
}

/* Calls `call` with arrays on the stack of DEPTH callers. */
template <int N, typename Call>
static __device__ __noinline__ void deep(const Work &work, unsigned lane, unsigned pass, Call call)
{
	volatile uint32_t local[LOCALS];
	for (unsigned i = 0; i < LOCALS; i++)
		local[(i + lane) % LOCALS] = pattern(lane * 10 + N, i);
	if constexpr (N > 0)
		deep<N - 1>(work, lane, pass, call);
	else
		call(work, lane, pass);
	for (unsigned i = 0; i < LOCALS; i++)
		if (local[(i + lane) % LOCALS] != pattern(lane * 10 + N, i))
			atomicAdd(&work.counts->locals, 1);
}

struct Exchange {
	__device__ void operator()(const Work &work, unsigned lane, unsigned pass) const
	{
		exchange(work, lane, pass);
	}
};

struct Keep {
	__device__ void operator()(const Work &work, unsigned lane, unsigned pass) const
	{
		keep(work, lane, pass);
	}
};

/* The kernels of a pass: all lanes free before the first one allocates. */
static __global__ void body_free(Work work)
{
	unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
	if (lane < work.lanes)
		deep<DEPTH>(work, lane, *work.pass, Exchange());
}

static __global__ void body_take(Work work)
{
	unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
	if (lane < work.lanes)
		deep<DEPTH>(work, lane, *work.pass, Keep());
}

static __global__ void body_decide(Work work, cudaGraphConditionalHandle handle)
{
	++*work.pass;
	cudaGraphSetConditional(handle, *work.pass % PASSES != 0);
}

/* --- the graph --- */

static cudaGraphNode_t add_kernel(cudaGraph_t graph, const cudaGraphNode_t *after, void *kernel,
				  unsigned lanes, void **arguments)
{
	cudaGraphNode_t node;
	cudaKernelNodeParams params = {};
	params.func = kernel;
	params.gridDim = dim3((lanes + BLOCK - 1) / BLOCK);
	params.blockDim = dim3(lanes == 1 ? 1 : BLOCK);
	params.kernelParams = arguments;
	MUST(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &params));
	return node;
}

/* One node whose body runs until body_decide says no. */
static cudaGraph_t make_graph(Work work)
{
	cudaGraph_t graph;
	cudaGraphNode_t node;
	cudaGraphConditionalHandle handle;
	cudaGraphNodeParams params = {};
	MUST(cudaGraphCreate(&graph, 0));
	MUST(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
	params.type = cudaGraphNodeTypeConditional;
	params.conditional.handle = handle;
	params.conditional.type = cudaGraphCondTypeWhile;
	params.conditional.size = 1;
#if CUDART_VERSION >= 13000
	MUST(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
#else
	MUST(cudaGraphAddNode(&node, graph, NULL, 0, &params));
#endif
	cudaGraph_t body = params.conditional.phGraph_out[0];
	void *arguments[] = {&work, &handle};
	node = add_kernel(body, NULL, (void *)body_free, work.lanes, arguments);
	node = add_kernel(body, &node, (void *)body_take, work.lanes, arguments);
	add_kernel(body, &node, (void *)body_decide, 1, arguments);
	return graph;
}

static bool told(const Work &work, const char *what)
{
	Counts seen;
	MUST(cudaMemcpy(&seen, work.counts, sizeof seen, cudaMemcpyDeviceToHost));
	MUST(cudaMemset(work.counts, 0, sizeof seen));
	printf("%u lanes, %zu bytes, %s: %llu calls, %llu blocks damaged, %llu words of arrays\n",
	       work.lanes, work.words * sizeof(uint32_t), what, seen.taken, seen.damaged,
	       seen.locals);
	fprintf(stderr, "%u lanes, %zu bytes, %s: %llu NULL\n", work.lanes,
		work.words * sizeof(uint32_t), what, seen.null);
	if (preloaded && seen.null)
		printf("%llu NULL\n", seen.null);
	fflush(stdout);
	return !seen.damaged && !seen.locals && !(preloaded && seen.null);
}

static bool run(unsigned lanes, size_t bytes, unsigned sparse)
{
	Work work = {lanes, bytes / sizeof(uint32_t), sparse, NULL, NULL, NULL};
	unsigned passes;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	bool good = true;
	MUST(cudaMalloc(&work.kept, lanes * sizeof *work.kept));
	MUST(cudaMemset(work.kept, 0, lanes * sizeof *work.kept));
	MUST(cudaMalloc(&work.pass, sizeof *work.pass));
	MUST(cudaMemset(work.pass, 0, sizeof *work.pass));
	MUST(cudaMalloc(&work.counts, sizeof *work.counts));
	MUST(cudaMemset(work.counts, 0, sizeof *work.counts));
	MUST(cudaStreamCreate(&stream));
	cudaGraph_t graph = make_graph(work);
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < LAUNCHES; i++) {
		MUST(cudaGraphLaunch(exec, stream));
		MUST(cudaStreamSynchronize(stream));
		good = told(work, "in a conditional node") && good;
	}
	MUST(cudaMemcpy(&passes, work.pass, sizeof passes, cudaMemcpyDeviceToHost));
	printf("%u passes\n", passes);
	good = passes == PASSES * LAUNCHES && good;
	for (int i = 0; i < 2; i++) { /* the same functions outside of a graph */
		body_free<<<(lanes + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(work);
		if (i == 0)
			body_take<<<(lanes + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(work);
		MUST(cudaGetLastError());
		MUST(cudaStreamSynchronize(stream));
		passes++;
		MUST(cudaMemcpy(work.pass, &passes, sizeof passes, cudaMemcpyHostToDevice));
		good = told(work, i ? "the end" : "in a kernel") && good;
	}
	MUST(cudaGraphExecDestroy(exec));
	MUST(cudaGraphDestroy(graph));
	MUST(cudaStreamDestroy(stream));
	MUST(cudaFree(work.kept));
	MUST(cudaFree(work.pass));
	MUST(cudaFree(work.counts));
	return good;
}

int main()
{
	int driver = 0;
	bool good = true;
	MUST(cudaDriverGetVersion(&driver));
	if (driver < 12040) {
		puts("needs a driver with conditional nodes");
		return 77;
	}
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, (size_t)1 << 30));
	good = run(LANES, 64 << 10, 1) && good;
	good = run(1, 100 << 20, 4096) && good;
	good = run(4, 100 << 20, 4096) && good;
	good = run(LANES, 100, 1) && good;
	printf("conditional: %s\n", good ? "ok" : "not ok");
	return !good;
}

#else

int main()
{
	puts("needs CUDA 12.3");
	return 77;
}

#endif
