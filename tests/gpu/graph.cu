/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates of instantiated graphs, between blocks of cudaMalloc. A graph with each kind of node is
 * instantiated and launched; then its nodes get the parameters of a second graph, on other blocks,
 * and its launch must do the same as a fresh instance of the second graph.
 *
 *   graph all       by cudaGraphExecUpdate, by the setter of the node, by
 * cudaGraphExecNodeSetParams graph setters   by setters of single nodes only: these succeed after a
 * sleep (gpumem-sleep(7))
 *
 * The driver refuses some updates of copies with several rows: the results are compared.
 */
#include <cstring>
#include <string>
#include <unistd.h>

#include "gpu.h"

static const size_t WORDS = 1 << 18, BYTES = WORDS * sizeof(uint32_t), TABLE = 4096;
enum { PAUSE = 3000 }; /* us */

static __device__ uint32_t table[TABLE];
static cudaStream_t stream;
static cudaEvent_t begun;
static bool good = true;

/* What one node uses. */
struct Set {
	unsigned index;	      /* 0 or 1 */
	uint32_t *a, *b;      /* of the device: from, to */
	uint32_t *up, *down;  /* of the host, pinned */
	uint32_t value, hits; /* hits: calls of the host's function */
	cudaEvent_t event;
};

static __global__ void plus(uint32_t *to, const uint32_t *from, size_t words, uint32_t value)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
	     i += (size_t)gridDim.x * blockDim.x)
		to[i] = from[i] + value;
}

static __global__ void times(uint32_t *to, const uint32_t *from, size_t words, uint32_t value)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
	     i += (size_t)gridDim.x * blockDim.x)
		to[i] = from[i] * (2 * value + 1);
}

static void hit(void *set)
{
	((Set *)set)->hits++;
}

/* --- kinds of nodes --- */

typedef cudaGraphNode_t Node;

struct Place { /* of a new node */
	Node *node;
	cudaGraph_t graph;
	const Node *before;
	size_t n;
};
#define AT(place) (place).node, (place).graph, (place).before, (place).n

struct Kernel { /* the parameters point into it */
	cudaKernelNodeParams params;
	size_t words;
	void *arguments[4];
	explicit Kernel(Set &set) : params(), words(WORDS)
	{
		arguments[0] = &set.b;
		arguments[1] = &set.a;
		arguments[2] = &words;
		arguments[3] = &set.value;
		params.func = set.index ? (void *)times : (void *)plus;
		params.gridDim = dim3(set.index ? 64 : 48);
		params.blockDim = dim3(256);
		params.kernelParams = arguments;
	}
};

static cudaMemcpy3DParms box(const Set &set, size_t width, size_t rows, size_t planes)
{
	cudaMemcpy3DParms params = {};
	params.srcPtr = make_cudaPitchedPtr(set.a, rows > 1 ? 4096 : width, width, 2 * rows);
	params.dstPtr = make_cudaPitchedPtr(set.b, rows > 1 ? 2048 : width, width, rows);
	params.extent = make_cudaExtent(width, rows, planes);
	params.kind = cudaMemcpyDeviceToDevice;
	return params;
}

static cudaMemsetParams filled(const Set &set, unsigned size, size_t width, size_t rows)
{
	cudaMemsetParams params = {};
	params.dst = set.b;
	params.elementSize = size;
	params.value = size == 4 ? set.value * 16777259u : set.value & 0xff;
	params.width = width;
	params.height = rows;
	params.pitch = rows > 1 ? 4096 : 0;
	return params;
}

static cudaHostNodeParams host_params(Set &set)
{
	cudaHostNodeParams params = {};
	params.fn = hit;
	params.userData = &set;
	return params;
}

static void kernel_add(const Place &p, Set &set)
{
	Kernel kernel(set);
	MUST(cudaGraphAddKernelNode(AT(p), &kernel.params));
}
static cudaError_t kernel_set(cudaGraphExec_t exec, Node node, Set &set)
{
	Kernel kernel(set);
	return cudaGraphExecKernelNodeSetParams(exec, node, &kernel.params);
}

#define COPY(name, to, from, way)                                                              \
	static void name##_add(const Place &p, Set &set)                                       \
	{                                                                                      \
		MUST(cudaGraphAddMemcpyNode1D(AT(p), set.to, set.from, BYTES, way));           \
	}                                                                                      \
	static cudaError_t name##_set(cudaGraphExec_t exec, Node node, Set &set)               \
	{                                                                                      \
		return cudaGraphExecMemcpyNodeSetParams1D(exec, node, set.to, set.from, BYTES, \
							  way);                                \
	}
COPY(copy, b, a, cudaMemcpyDeviceToDevice)
COPY(to_device, b, up, cudaMemcpyHostToDevice)
COPY(to_host, down, a, cudaMemcpyDeviceToHost)

#define BOX(name, width, rows, planes)                                           \
	static void name##_add(const Place &p, Set &set)                         \
	{                                                                        \
		cudaMemcpy3DParms params = box(set, width, rows, planes);        \
		MUST(cudaGraphAddMemcpyNode(AT(p), &params));                    \
	}                                                                        \
	static cudaError_t name##_set(cudaGraphExec_t exec, Node node, Set &set) \
	{                                                                        \
		cudaMemcpy3DParms params = box(set, width, rows, planes);        \
		return cudaGraphExecMemcpyNodeSetParams(exec, node, &params);    \
	}
BOX(line, BYTES / 2, 1, 1)
BOX(rows, 1000, 100, 1)
BOX(planes, 1000, 20, 5)

#define FILL(name, size, width, rows)                                            \
	static void name##_add(const Place &p, Set &set)                         \
	{                                                                        \
		cudaMemsetParams params = filled(set, size, width, rows);        \
		MUST(cudaGraphAddMemsetNode(AT(p), &params));                    \
	}                                                                        \
	static cudaError_t name##_set(cudaGraphExec_t exec, Node node, Set &set) \
	{                                                                        \
		cudaMemsetParams params = filled(set, size, width, rows);        \
		return cudaGraphExecMemsetNodeSetParams(exec, node, &params);    \
	}
FILL(fill_words, 4, WORDS / 2, 1)
FILL(fill_bytes, 1, 100001, 1)
FILL(fill_rows, 4, 250, 64)

static void to_symbol_add(const Place &p, Set &set)
{
	MUST(cudaGraphAddMemcpyNodeToSymbol(AT(p), table, set.a, sizeof table, 0,
					    cudaMemcpyDeviceToDevice));
}
static cudaError_t to_symbol_set(cudaGraphExec_t exec, Node node, Set &set)
{
	return cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, node, table, set.a, sizeof table, 0,
							cudaMemcpyDeviceToDevice);
}

static void from_symbol_add(const Place &p, Set &set)
{
	MUST(cudaGraphAddMemcpyNodeFromSymbol(AT(p), set.b, table, sizeof table, 0,
					      cudaMemcpyDeviceToDevice));
}
static cudaError_t from_symbol_set(cudaGraphExec_t exec, Node node, Set &set)
{
	return cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, node, set.b, table, sizeof table, 0,
							  cudaMemcpyDeviceToDevice);
}

static void host_add(const Place &p, Set &set)
{
	cudaHostNodeParams params = host_params(set);
	MUST(cudaGraphAddHostNode(AT(p), &params));
}
static cudaError_t host_set(cudaGraphExec_t exec, Node node, Set &set)
{
	cudaHostNodeParams params = host_params(set);
	return cudaGraphExecHostNodeSetParams(exec, node, &params);
}

/* A kernel, then a copy back, and a fill if `fills`. */
static cudaGraph_t child_graph(Set &set, bool fills)
{
	cudaGraph_t graph;
	Node first, second, third;
	MUST(cudaGraphCreate(&graph, 0));
	kernel_add({&first, graph, NULL, 0}, set);
	MUST(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, set.a, set.b, BYTES / 4,
				      cudaMemcpyDeviceToDevice));
	if (fills)
		fill_bytes_add({&third, graph, &second, 1}, set);
	return graph;
}
#define CHILD(name, fills)                                                                   \
	static void name##_add(const Place &p, Set &set)                                     \
	{                                                                                    \
		cudaGraph_t graph = child_graph(set, fills);                                 \
		MUST(cudaGraphAddChildGraphNode(AT(p), graph));                              \
		MUST(cudaGraphDestroy(graph));                                               \
	}                                                                                    \
	static cudaError_t name##_set(cudaGraphExec_t exec, Node node, Set &set)             \
	{                                                                                    \
		cudaGraph_t graph = child_graph(set, fills);                                 \
		cudaError_t error = cudaGraphExecChildGraphNodeSetParams(exec, node, graph); \
		MUST(cudaGraphDestroy(graph));                                               \
		return error;                                                                \
	}
CHILD(child, false)
CHILD(child_fill, true)

static void record_add(const Place &p, Set &set)
{
	MUST(cudaGraphAddEventRecordNode(AT(p), set.event));
}
static cudaError_t record_set(cudaGraphExec_t exec, Node node, Set &set)
{
	return cudaGraphExecEventRecordNodeSetEvent(exec, node, set.event);
}

static void wait_add(const Place &p, Set &set)
{
	MUST(cudaEventRecord(set.event, stream));
	MUST(cudaGraphAddEventWaitNode(AT(p), set.event));
}
static cudaError_t wait_set(cudaGraphExec_t exec, Node node, Set &set)
{
	return cudaGraphExecEventWaitNodeSetEvent(exec, node, set.event);
}

static void empty_add(const Place &p, Set &)
{
	MUST(cudaGraphAddEmptyNode(AT(p)));
}

struct Kind {
	const char *name;
	bool must; /* each update must succeed */
	void (*add)(const Place &place, Set &set);
	cudaError_t (*set)(cudaGraphExec_t exec, Node node, Set &set);
};
static const Kind kinds[] = {
#define KIND(name, must)                            \
	{                                           \
#name, must, name##_add, name##_set \
	}
	KIND(kernel, true),	KIND(copy, true),	KIND(to_device, true),
	KIND(to_host, true),	KIND(line, true),	KIND(rows, false),
	KIND(planes, false),	KIND(to_symbol, true),	KIND(from_symbol, true),
	KIND(fill_words, true), KIND(fill_bytes, true), KIND(fill_rows, false),
	KIND(host, true),	KIND(child, true),	KIND(child_fill, true),
	KIND(record, true),	KIND(wait, true),	{"empty", true, empty_add, NULL},
};

/* By cudaGraphExecNodeSetParams. cudaErrorNotSupported: not with this toolkit, or of this kind. */
static cudaError_t any_set(const Kind *kind, cudaGraphExec_t exec, Node node, Set &set)
{
#if CUDART_VERSION >= 12020
	cudaGraphNodeParams params = {};
	Kernel kernel(set);
	std::string name = kind->name;
	if (name == "kernel") {
		params.type = cudaGraphNodeTypeKernel;
		params.kernel.func = kernel.params.func;
		params.kernel.gridDim = kernel.params.gridDim;
		params.kernel.blockDim = kernel.params.blockDim;
		params.kernel.kernelParams = kernel.params.kernelParams;
	} else if (name == "line") {
		params.type = cudaGraphNodeTypeMemcpy;
		params.memcpy.copyParams = box(set, BYTES / 2, 1, 1);
	} else if (name == "fill_words") {
		cudaMemsetParams fill = filled(set, 4, WORDS / 2, 1);
		params.type = cudaGraphNodeTypeMemset;
		params.memset.dst = fill.dst;
		params.memset.value = fill.value;
		params.memset.elementSize = fill.elementSize;
		params.memset.width = fill.width;
		params.memset.height = fill.height;
	} else if (name == "host") {
		params.type = cudaGraphNodeTypeHost;
		params.host.fn = hit;
		params.host.userData = &set;
	} else if (name == "record") {
		params.type = cudaGraphNodeTypeEventRecord;
		params.eventRecord.event = set.event;
	} else
		return cudaErrorNotSupported;
	return cudaGraphExecNodeSetParams(exec, node, &params);
#else
	(void)kind, (void)exec, (void)node, (void)set;
	return cudaErrorNotSupported;
#endif
}

/* --- sets --- */

static void set_make(Set &set, unsigned index, unsigned kind)
{
	set.index = index;
	set.value = 3 + 2 * kind + 100 * index;
	MUST(cudaMalloc(&set.a, BYTES));
	MUST(cudaMalloc(&set.b, BYTES));
	MUST(cudaMallocHost(&set.up, BYTES));
	MUST(cudaMallocHost(&set.down, BYTES));
	MUST(cudaEventCreate(&set.event));
}

static void set_prepare(Set &set)
{
	fill<<<64, 256, 0, stream>>>(set.a, WORDS, set.value);
	fill<<<64, 256, 0, stream>>>(set.b, WORDS, set.value + 1);
	for (size_t i = 0; i < WORDS; i++)
		set.up[i] = pattern(set.value + 2, i);
	memset(set.down, 0, BYTES);
	set.hits = 0;
	MUST(cudaStreamSynchronize(stream));
}

static void set_drop(Set &set)
{
	MUST(cudaFree(set.a));
	MUST(cudaFree(set.b));
	MUST(cudaFreeHost(set.up));
	MUST(cudaFreeHost(set.down));
	MUST(cudaEventDestroy(set.event));
}

static unsigned long long joined(unsigned long long sum, unsigned long long more)
{
	return (sum ^ more) * 1099511628211ull;
}

/* Everything that a node may have changed; `event`: was it recorded? */
static unsigned long long set_digest(const Set &set, bool event)
{
	float ms;
	unsigned long long sum = joined(digest(set.a, BYTES), digest(set.b, BYTES));
	for (size_t i = 0; i < WORDS; i++)
		sum = joined(sum, set.up[i] + ((unsigned long long)set.down[i] << 32));
	if (event) {
		sum = joined(sum, (unsigned)cudaEventElapsedTime(&ms, begun, set.event));
		cudaGetLastError();
	}
	return joined(sum, set.hits);
}

/* --- two graphs --- */

struct Outcome {
	unsigned long long
		digest[2]; /* of the sets of each graph; the second one's with the table */
	std::string errors;
	bool all_well;
};

struct Pair {
	std::vector<const Kind *> list; /* empty: both graphs are captured */
	std::vector<Set> sets[2];
	std::vector<Node> nodes[2];
	cudaGraph_t graph[2];
};

static void capture(cudaGraph_t *graph, Set &set)
{
	Kernel kernel(set);
	MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	MUST(cudaLaunchKernel(kernel.params.func, kernel.params.gridDim, kernel.params.blockDim,
			      kernel.arguments, 0, stream));
	MUST(cudaMemcpyAsync(set.a, set.b, BYTES / 2, cudaMemcpyDeviceToDevice, stream));
	MUST(cudaMemcpyAsync(set.down, set.a, BYTES, cudaMemcpyDeviceToHost, stream));
	MUST(cudaMemsetAsync(set.b, (int)set.value, BYTES / 4, stream));
	MUST(cudaLaunchHostFunc(stream, hit, &set));
	MUST(cudaStreamEndCapture(stream, graph));
}

static void pair_make(Pair &pair)
{
	size_t n = pair.list.empty() ? 1 : pair.list.size();
	for (unsigned g = 0; g < 2; g++) {
		pair.sets[g].resize(n);
		pair.nodes[g].resize(n);
		for (unsigned i = 0; i < n; i++)
			set_make(pair.sets[g][i], g, i);
		if (pair.list.empty()) {
			capture(&pair.graph[g], pair.sets[g][0]);
			continue;
		}
		MUST(cudaGraphCreate(&pair.graph[g], 0));
		for (size_t i = 0; i < n; i++) {
			Node *node = &pair.nodes[g][i];
			pair.list[i]->add({node, pair.graph[g], i ? node - 1 : NULL, i != 0},
					  pair.sets[g][i]);
		}
	}
}

static void pair_drop(Pair &pair)
{
	for (unsigned g = 0; g < 2; g++) {
		for (Set &set : pair.sets[g])
			set_drop(set);
		MUST(cudaGraphDestroy(pair.graph[g]));
	}
}

static void pair_launch(Pair &pair, cudaGraphExec_t exec)
{
	void *at;
	MUST(cudaGetSymbolAddress(&at, table));
	fill<<<1, 256, 0, stream>>>((uint32_t *)at, TABLE, 9);
	for (auto &sets : pair.sets)
		for (Set &set : sets)
			set_prepare(set);
	MUST(cudaEventRecord(begun, stream));
	MUST(cudaGraphLaunch(exec, stream));
	MUST(cudaStreamSynchronize(stream));
}

static void error_add(Outcome &out, cudaError_t error)
{
	cudaGetLastError();
	out.errors += std::string(out.errors.empty() ? "" : " ") + cudaGetErrorName(error);
	out.all_well = out.all_well && error == cudaSuccess;
}

/* `how`: fresh, update, setter or any. */
static Outcome pair_run(const std::vector<const Kind *> &list, const std::string &how)
{
	Pair pair = {list, {}, {}, {}};
	Outcome out = {{}, "", true};
	cudaGraphExec_t exec;
	void *at;
	pair_make(pair);
	MUST(cudaGraphInstantiate(&exec, pair.graph[how == "fresh"], 0));
	if (how != "fresh")
		pair_launch(pair, exec);
	usleep(PAUSE); /* a process that may sleep does it now */
	if (how == "update") {
		cudaGraphExecUpdateResultInfo info = {};
		error_add(out, cudaGraphExecUpdate(exec, pair.graph[1], &info));
		out.errors += " " + std::to_string((int)info.result);
	}
	for (size_t i = 0; i < list.size(); i++) {
		Set &set = pair.sets[1][i];
		if (how == "setter" && list[i]->set)
			error_add(out, list[i]->set(exec, pair.nodes[0][i], set));
		if (how == "any")
			error_add(out, any_set(list[i], exec, pair.nodes[0][i], set));
	}
	pair_launch(pair, exec);
	for (unsigned g = 0; g < 2; g++)
		for (size_t i = 0; i < pair.sets[g].size(); i++)
			out.digest[g] = joined(out.digest[g], set_digest(pair.sets[g][i], g == 1));
	MUST(cudaGetSymbolAddress(&at, table));
	out.digest[1] = joined(out.digest[1], digest(at, sizeof table));
	MUST(cudaGraphExecDestroy(exec));
	pair_drop(pair);
	return out;
}

static void compare(const char *name, bool must, const std::vector<const Kind *> &list,
		    const Outcome &fresh, const char *how)
{
	Outcome out = pair_run(list, how);
	bool other = out.digest[0] == fresh.digest[0], same = out.digest[1] == fresh.digest[1];
	printf("%s, %s: %s; the first blocks %s, the second ones %s; %016llx %016llx\n", name, how,
	       out.errors.c_str(), other ? "unchanged" : "CHANGED",
	       same ? "as by a fresh instance" : "NOT as by a fresh instance", out.digest[0],
	       out.digest[1]);
	fflush(stdout);
	if (must && !(out.all_well && other && same)) {
		printf("%s, %s: not ok\n", name, how);
		good = false;
	}
}

/* --- nodes that are switched off and on --- */

static void enabled(const Kind &kind)
{
	Pair pair = {{&kind}, {}, {}, {}};
	cudaGraphExec_t exec;
	unsigned long long prepared, off, on, once;
	pair_make(pair);
	Set &set = pair.sets[0][0];
	set_prepare(set);
	prepared = set_digest(set, false);
	MUST(cudaGraphInstantiate(&exec, pair.graph[0], 0));
	pair_launch(pair, exec);
	once = set_digest(set, false);
	usleep(PAUSE);
	cudaError_t first = cudaGraphNodeSetEnabled(exec, pair.nodes[0][0], 0);
	pair_launch(pair, exec);
	off = set_digest(set, false);
	usleep(PAUSE);
	cudaError_t second = cudaGraphNodeSetEnabled(exec, pair.nodes[0][0], 1);
	pair_launch(pair, exec);
	on = set_digest(set, false);
	bool well = !first && !second && off == prepared && on == once && once != prepared;
	printf("%s, off and on again: %s %s, %s\n", kind.name, cudaGetErrorName(first),
	       cudaGetErrorName(second), well ? "ok" : "not ok");
	good = well && good;
	MUST(cudaGraphExecDestroy(exec));
	pair_drop(pair);
}

int main(int argc, char **argv)
{
	bool all = argc == 2 && strcmp(argv[1], "all") == 0;
	std::vector<const Kind *> chain;
	if (!all && !(argc == 2 && strcmp(argv[1], "setters") == 0))
		return fprintf(stderr, "usage: graph all|setters\n"), 2;
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaEventCreate(&begun));
	for (const Kind &kind : kinds) {
		if (kind.must && kind.set && (all || kind.add != child_fill_add))
			chain.push_back(&kind);
		Outcome fresh = pair_run({&kind}, "fresh");
		if (all)
			compare(kind.name, kind.must, {&kind}, fresh, "update");
		if (kind.set && (all || kind.add != child_fill_add))
			compare(kind.name, kind.must, {&kind}, fresh, "setter");
		for (const char *name : {"kernel", "line", "fill_words", "host", "record"})
			if (strcmp(kind.name, name) == 0)
				compare(kind.name, CUDART_VERSION >= 12020, {&kind}, fresh, "any");
	}
	Outcome fresh = pair_run(chain, "fresh");
	if (all)
		compare("a chain of all", true, chain, fresh, "update");
	compare("a chain of all", true, chain, fresh, "setter");
	if (all) {
		fresh = pair_run({}, "fresh");
		compare("captured", true, {}, fresh, "update");
	}
	for (const Kind &kind : kinds)
		if (kind.add == kernel_add || kind.add == copy_add || kind.add == fill_words_add)
			enabled(kind);
	printf("graph: %s\n", good ? "ok" : "not ok");
	return !good;
}
