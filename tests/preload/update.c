/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `update [refused]`: update an instantiated graph that fills a block, after a sleep if TOOL is
 * set. `refused`: the driver refuses it, as after a sleep (driver 580); then the program
 * instantiates the graph again.
 */
#include <stdlib.h>
#include <unistd.h>

#include "program.h"
#include "sim/sim.h"
#include "steer.h"

static CUgraph graph_make(CUdeviceptr block, unsigned value)
{
	CUgraph graph;
	CUgraphNode node;
	CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = block, .value = value, .elementSize = 1, .width = 64, .height = 1};
	MUST(cuGraphCreate(&graph, 0));
	MUST(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, NULL));
	return graph;
}

static void graph_run(const char *what, CUgraphExec exec, CUdeviceptr block)
{
	unsigned char first;
	MUST(cuGraphLaunch(exec, NULL));
	MUST(cuMemcpyDtoH_v2(&first, block, 1));
	printf("%s: %u\n", what, first);
}

int main(int argc, char **argv)
{
	bool refused = argc > 1 && strcmp(argv[1], "refused") == 0;
	char command[400];
	CUdeviceptr block;
	CUgraphExec exec, again;
	CUgraphExecUpdateResultInfo info;
	alarm(3600);
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc_v2(&block, 3 * MIB));
	MUST(cuGraphInstantiateWithFlags(&exec, graph_make(block, 1), 0));
	graph_run("instantiated", exec, block);
	if (getenv("TOOL")) {
		snprintf(command, sizeof command, "env -u LD_PRELOAD \"$TOOL\" sleep %d >/dev/null",
			 (int)getpid());
		if (system(command) != 0)
			puts("no sleep");
	}
	if (refused)
		gm_sim_fail("cuGraphExecUpdate_v2", 1, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CUgraph graph = graph_make(block, 2);
	printf("update: %d\n", cuGraphExecUpdate(exec, graph, &info));
	if (refused) {
		graph_run("the first again", exec, block);
		MUST(cuGraphInstantiateWithFlags(&again, graph, 0));
		exec = again;
	}
	graph_run("updated", exec, block);
	return 0;
}
