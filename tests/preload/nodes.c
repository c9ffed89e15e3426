/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graph nodes that copy or fill memory, by each call that adds or changes one: `nodes` on one
 * device, `nodes peers` between two. Each case prints the results, and the effect of a launch. With
 * `every` also calls of the newest drivers.
 */
#include "../../shim/entry/hooks.h"

#include <dlfcn.h>

#include "program.h"

#define SIZE ((size_t)1000)

/* The entries: this toolkit's headers may lack some. */
static struct {
#define GM_HOOK(symbol, type, flags, help) type symbol;
#include "driver/hooks.def"
#undef GM_HOOK
} entry;

static CUcontext context;
static CUgraph graph;
static CUdeviceptr dst, src;

static CUDA_MEMCPY3D copy_of(size_t bytes)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .srcDevice = src,
			       .srcPitch = bytes,
			       .srcHeight = 1,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstDevice = dst,
			       .dstPitch = bytes,
			       .dstHeight = 1,
			       .WidthInBytes = bytes,
			       .Height = 1,
			       .Depth = 1};
}

static CUDA_MEMSET_NODE_PARAMS fill_of(size_t bytes)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = dst, .value = 9, .elementSize = 1, .width = bytes, .height = 1};
}

enum act { ADD, SET, SET_EXEC };
struct attempt {
	CUgraphNode node;
	CUgraphExec exec;
	bool fills;
	size_t bytes;
	CUcontext in; /* may be NULL */
};

static CUgraphNodeParams any_of(const struct attempt *a)
{
	CUgraphNodeParams p = {.type = a->fills ? CU_GRAPH_NODE_TYPE_MEMSET
						: CU_GRAPH_NODE_TYPE_MEMCPY};
	CUDA_MEMSET_NODE_PARAMS fill = fill_of(a->bytes);
	if (!a->fills) {
		p.memcpy.copyParams = copy_of(a->bytes);
		p.memcpy.copyCtx = a->in;
		return p;
	}
	p.memset.dst = fill.dst;
	p.memset.value = fill.value;
	p.memset.elementSize = fill.elementSize;
	p.memset.width = fill.width;
	p.memset.height = fill.height;
	p.memset.ctx = a->in;
	return p;
}

/* --- a case for each call --- */

static CUresult by_kind(enum act act, struct attempt *a)
{
	CUDA_MEMCPY3D copy = copy_of(a->bytes);
	CUDA_MEMSET_NODE_PARAMS fill = fill_of(a->bytes);
	switch (act) {
	case ADD:
		return a->fills
			       ? entry.cuGraphAddMemsetNode(&a->node, graph, NULL, 0, &fill, a->in)
			       : entry.cuGraphAddMemcpyNode(&a->node, graph, NULL, 0, &copy, a->in);
	case SET:
		return a->fills ? entry.cuGraphMemsetNodeSetParams(a->node, &fill)
				: entry.cuGraphMemcpyNodeSetParams(a->node, &copy);
	default:
		return a->fills ? entry.cuGraphExecMemsetNodeSetParams(a->exec, a->node, &fill,
								       a->in)
				: entry.cuGraphExecMemcpyNodeSetParams(a->exec, a->node, &copy,
								       a->in);
	}
}

static CUresult by_any(enum act act, struct attempt *a)
{
	CUgraphNodeParams p = any_of(a);
	switch (act) {
	case ADD:
		return entry.cuGraphAddNode(&a->node, graph, NULL, 0, &p);
	case SET:
		return entry.cuGraphNodeSetParams(a->node, &p);
	default:
		return entry.cuGraphExecNodeSetParams(a->exec, a->node, &p);
	}
}

static CUresult by_newest(enum act act, struct attempt *a)
{
	CUgraphNodeParams p = any_of(a);
	switch (act) {
	case ADD:
		return entry.cuGraphAddNode_v3(&a->node, graph, NULL, NULL, 0, &p);
	case SET:
		return entry.cuGraphNodeSetParams_v2(a->node, &p);
	default:
		return entry.cuGraphExecNodeSetParams(a->exec, a->node, &p);
	}
}

/* --- */

static void wipe(void)
{
	MUST(cuMemsetD8_v2(dst, 0, SIZE));
	MUST(cuMemsetD8_v2(src, 9, SIZE));
	MUST(cuCtxSynchronize());
}

static void launch(const char *what, CUgraphExec exec)
{
	static unsigned char bytes[SIZE];
	size_t n = 0;
	wipe();
	MUST(cuGraphLaunch(exec, NULL));
	MUST(cuCtxSynchronize());
	MUST(cuMemcpyDtoH_v2(bytes, dst, SIZE));
	for (size_t i = 0; i < SIZE; i++)
		n += bytes[i] == 9;
	printf("%s: %zu bytes arrived\n", what, n);
}

static void one_case(const char *name, CUresult (*make)(enum act, struct attempt *), bool fills)
{
	struct attempt a = {.fills = fills, .bytes = SIZE + 1, .in = context};
	printf("%s, %s\n", name, fills ? "fills" : "copies");
	MUST(cuGraphCreate(&graph, 0));
	SAY(make(ADD, &a));
	a.bytes = 10;
	SAY(make(ADD, &a));
	MUST(cuGraphInstantiateWithFlags(&a.exec, graph, 0));
	launch("as added", a.exec);
	a.bytes = SIZE + 1;
	SAY(make(SET_EXEC, &a));
	a.bytes = 20;
	SAY(make(SET_EXEC, &a));
	launch("changed", a.exec);
	MUST(cuGraphExecDestroy(a.exec));
	a.bytes = SIZE + 1;
	SAY(make(SET, &a));
	a.bytes = SIZE;
	SAY(make(SET, &a));
	MUST(cuGraphInstantiateWithFlags(&a.exec, graph, 0));
	launch("changed before", a.exec);
	MUST(cuGraphExecDestroy(a.exec));
	MUST(cuGraphDestroy(graph));
}

/* Parameters of the node in the graph, not in the executable graph. */
static void node_tell(const struct attempt *a)
{
	CUDA_MEMCPY3D got = {0};
	if (a->fills)
		return;
	MUST(cuGraphMemcpyNodeGetParams(a->node, &got));
	printf("parameters: %s, %s, %zu bytes\n", got.dstDevice == dst ? "as set" : "others",
	       got.srcDevice == src ? "as set" : "others", got.WidthInBytes);
}

/* No call needs a context. An executable node may get a context later, if its memory has one. */
static void contexts(const char *name, CUresult (*make)(enum act, struct attempt *), bool fills)
{
	for (unsigned named = 0; named < 4; named++) {
		struct attempt a = {.fills = fills, .bytes = 10};
		printf("%s, %s, %s context then %s\n", name, fills ? "fills" : "copies",
		       named & 1 ? "a" : "no", named & 2 ? "a" : "no");
		MUST(cuGraphCreate(&graph, 0));
		a.in = named & 1 ? context : NULL;
		SAY(make(ADD, &a));
		MUST(cuGraphInstantiateWithFlags(&a.exec, graph, 0));
		a.in = named & 2 ? context : NULL;
		a.bytes = 20;
		SAY(make(SET_EXEC, &a));
		launch("executable", a.exec);
		node_tell(&a);
		MUST(cuGraphExecDestroy(a.exec));
		a.bytes = 30;
		SAY(make(SET, &a));
		MUST(cuGraphInstantiateWithFlags(&a.exec, graph, 0));
		launch("node", a.exec);
		node_tell(&a);
		MUST(cuGraphExecDestroy(a.exec));
		MUST(cuGraphDestroy(graph));
	}
}

static void freed(void)
{
	struct attempt a = {.bytes = 1, .in = context};
	CUdeviceptr kept = src;
	MUST(cuGraphCreate(&graph, 0));
	MUST(cuMemAlloc_v2(&src, 3 * MIB));
	MUST(cuMemFree_v2(src));
	SAY(by_kind(ADD, &a));
	src = kept;
	SAY(entry.cuGraphAddMemcpyNode(&a.node, graph, NULL, 0, NULL, context));
	SAY(entry.cuGraphAddMemsetNode(&a.node, graph, NULL, 0, NULL, context));
	MUST(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
	CUcontext other = NULL;
	bool peers = false, every = false;
	for (int i = 1; i < argc; i++) {
		peers |= strcmp(argv[i], "peers") == 0;
		every |= strcmp(argv[i], "every") == 0;
	}
#define GM_HOOK(symbol, type, flags, help) entry.symbol = (type)dlsym(RTLD_DEFAULT, #symbol);
#include "driver/hooks.def"
#undef GM_HOOK
	MUST(cuInit(0));
	context = use_device(0);
	MUST(cuMemAlloc_v2(&dst, SIZE));
	if (peers)
		other = use_device(1);
	MUST(cuMemAlloc_v2(&src, SIZE));
	MUST(cuCtxSetCurrent(context));
	for (int fills = 0; fills < 2; fills++) {
		one_case("nodes of one kind", by_kind, fills);
		contexts("nodes of one kind", by_kind, fills);
		if (every) {
			contexts("nodes of any kind", by_any, fills);
			one_case("nodes of any kind", by_any, fills);
			one_case("nodes of any kind, 13.4", by_newest, fills);
		}
	}
	freed();
	printf("%d devices\n", 1 + (other != NULL));
	return 0;
}
