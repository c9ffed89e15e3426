/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates of instantiated graphs. Once a pool has slept and woken, its memory is mapped anew, and
 * driver 580 refuses cuGraphExecUpdate of a graph that was instantiated before and has a node that
 * fills such memory; the graph itself runs. It takes cuGraphExecMemsetNodeSetParams. The program
 * instantiates the graph again, as after any refused update.
 */
#include "base/msg.h"
#include "log/count.h"
#include "shim/call.h"
#include "shim/memory/device.h"

static CUresult update_report(CUresult result)
{
	if (result != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE || !gm_counter_get(0, GM_C_sleeps))
		return result;
	gm_counter_add(0, GM_C_graph_updates_refused, 1);
	GM_MSG_ONCE(GM_MSG_WARN, "the driver refused to update a graph; it refuses each that fills "
				 "memory and was instantiated before a sleep");
	return result;
}

GM_HANDLER(cuGraphExecUpdate,
	   (CUgraphExec exec, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *why),
	   (exec, graph, node, why),
	   update_report(GM_PASS(real.cuGraphExecUpdate(exec, graph, node, why))))
GM_HANDLER(cuGraphExecUpdate_v2,
	   (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info),
	   (exec, graph, info),
	   update_report(GM_PASS(real.cuGraphExecUpdate_v2(exec, graph, info))))
