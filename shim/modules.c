/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/modules.h"

#include <stddef.h>

#include "base/thread.h"
#include "context/context.h"
#include "context/fence.h"
#include "log/counters.h"
#include "log/log.h"
#include "log/recording.h"
#include "rpc/rpc.h"
#include "shim/block/fill.h"
#include "shim/block/free.h"
#include "shim/block/memops.h"
#include "shim/call.h"
#include "shim/context/capture.h"
#include "shim/context/peer.h"
#include "shim/context/submit.h"
#include "shim/copy/stage.h"
#include "shim/export_table/tables.h"
#include "shim/foreign/async.h"
#include "shim/foreign/foreign.h"
#include "shim/foreign/graph.h"
#include "shim/foreign/physical.h"
#include "shim/foreign/prefetch.h"
#include "shim/idle/demand.h"
#include "shim/idle/give.h"
#include "shim/idle/neighbour.h"
#include "shim/ipc/ipc.h"
#include "shim/kernel/handle.h"
#include "shim/kernel/inkernel.h"
#include "shim/library/library.h"
#include "shim/log/recorder.h"
#include "shim/memory/device.h"
#include "shim/memory/lack.h"
#include "shim/memory/limit.h"
#include "shim/memory/overhead.h"
#include "shim/sleep/rest.h"
#include "shim/sleep/sleep.h"
#include "shim/torch/lend.h"
#include "shim/torch/sequence.h"
#include "shim/torch/tensors.h"
#include "stack/stack.h"

struct module {
	void (*forget)(void);
	uint64_t (*reclaim)(unsigned ordinal, uint64_t bytes);
	void (*context_gone)(struct gm_context *context);
};

static const struct module modules[] = {
#define GM_MODULE(name, forget, leave, reclaim, context_gone) {forget, reclaim, context_gone},
#include "shim/modules.def"
#undef GM_MODULE
};
#define MODULES (sizeof modules / sizeof *modules)

void gm_modules_forget(void)
{
	for (size_t i = MODULES; i-- > 0;)
		if (modules[i].forget)
			modules[i].forget();
}

static inline void module_leave(void (*leave)(uint64_t now), uint64_t now)
{
	if (leave)
		leave(now);
}

/* A sequence of calls rather than a loop: with a log of events each call of the program gets
 * here. */
void gm_modules_leave(uint64_t now)
{
#define GM_MODULE(name, forget, leave, reclaim, context_gone) module_leave(leave, now);
#include "shim/modules.def"
#undef GM_MODULE
}

uint64_t gm_modules_reclaim_next(unsigned ordinal, uint64_t bytes, unsigned *row)
{
	uint64_t given = 0;
	for (; *row < MODULES && !given; ++*row)
		if (modules[*row].reclaim)
			given = modules[*row].reclaim(ordinal, bytes);
	return given;
}

void gm_modules_reclaim(unsigned ordinal, uint64_t bytes)
{
	for (unsigned row = 0; gm_modules_reclaim_next(ordinal, bytes, &row);)
		;
}

void gm_modules_context_gone(uint64_t key)
{
	struct gm_context *context = gm_context_find(key);
	for (size_t i = MODULES; context && i-- > 0;)
		if (modules[i].context_gone)
			modules[i].context_gone(context);
}
