/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/modules.h"

#include <stddef.h>

#include "base/thread.h"
#include "base/tick.h"
#include "context/context.h"
#include "context/fence.h"
#include "heap/heap.h"
#include "log/counters.h"
#include "log/log.h"
#include "log/recording.h"
#include "rpc/rpc.h"
#include "shim/block/fill.h"
#include "shim/block/free.h"
#include "shim/block/memops.h"
#include "shim/block/network.h"
#include "shim/call.h"
#include "shim/context/capture.h"
#include "shim/context/peer.h"
#include "shim/context/submit.h"
#include "shim/copy/stage.h"
#include "shim/export_table/tables.h"
#include "shim/foreign/async.h"
#include "shim/foreign/foreign.h"
#include "shim/foreign/graph.h"
#include "shim/foreign/managed.h"
#include "shim/foreign/physical.h"
#include "shim/foreign/prefetch.h"
#include "shim/idle/demand.h"
#include "shim/idle/give.h"
#include "shim/idle/neighbour.h"
#include "shim/idle/trim.h"
#include "shim/ipc/ipc.h"
#include "shim/kernel/handle.h"
#include "shim/kernel/inkernel.h"
#include "shim/kernel/inkernel_log.h"
#include "shim/kernel/launch.h"
#include "shim/library/library.h"
#include "shim/log/recorder.h"
#include "shim/log/samples.h"
#include "shim/memory/device.h"
#include "shim/memory/lack.h"
#include "shim/memory/limit.h"
#include "shim/memory/overhead.h"
#include "shim/sleep/rest.h"
#include "shim/sleep/sleep.h"
#include "shim/torch/cache.h"
#include "shim/torch/lend.h"
#include "shim/torch/sequence.h"
#include "shim/torch/tensors.h"
#include "stack/stack.h"

/* The rows, so that a member of a known row is a constant. */
enum {
#define GM_MODULE(name, ...) ROW_##name,
#include "shim/modules.def"
#undef GM_MODULE
	ROWS
};

static const struct gm_module modules[ROWS] = {
#define GM_MODULE(name, ...) [ROW_##name] = {__VA_ARGS__},
#include "shim/modules.def"
#undef GM_MODULE
};

/* The rows with a `leave`, from the first to the last: with a log of events each call of the
 * program gets there. */
static void (*leaves[ROWS + 1])(uint64_t now);

/* Each handler gets here: the compiler knows the rows, so this is a few loads. */
static inline bool modules_are_due(void)
{
#define GM_MODULE(name, ...) (modules[ROW_##name].due && modules[ROW_##name].due()) ||
	return
#include "shim/modules.def"
		false;
#undef GM_MODULE
}

static void modules_leave(uint64_t now)
{
	for (size_t i = 0; leaves[i]; i++)
		leaves[i](now);
}

void gm_shim_leave(void)
{
	const uint64_t now = gm_call_sample_time();
	if (GM_UNLIKELY(now || modules_are_due()))
		modules_leave(now);
	gm_log_poll();
	gm_shim_inside = 0;
}

void gm_modules_start(void)
{
	size_t n = 0;
	for (size_t i = 0; i < ROWS; i++)
		if (modules[i].leave)
			leaves[n++] = modules[i].leave;
	for (size_t i = 0; i < ROWS; i++)
		if (modules[i].start)
			modules[i].start();
}

void gm_modules_pool_config(unsigned ordinal, struct gm_pool_config *config)
{
	for (size_t i = 0; i < ROWS; i++)
		if (modules[i].pool_config)
			modules[i].pool_config(ordinal, config);
}

void gm_modules_pool_made(unsigned ordinal)
{
	for (size_t i = 0; i < ROWS; i++)
		if (modules[i].pool_made)
			modules[i].pool_made(ordinal);
}

void gm_modules_pool_ready(unsigned ordinal)
{
	for (size_t i = 0; i < ROWS; i++)
		if (modules[i].pool_ready)
			modules[i].pool_ready(ordinal);
}

uint64_t gm_modules_trim_next(void)
{
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < ROWS; i++) {
		uint64_t due = modules[i].trim_next ? modules[i].trim_next() : UINT64_MAX;
		next = due < next ? due : next;
	}
	return next;
}

uint64_t gm_modules_trim(uint64_t now)
{
	uint64_t given = 0;
	for (size_t i = 0; i < ROWS && !given; i++)
		if (modules[i].trim)
			given = modules[i].trim(now);
	return given;
}

uint64_t gm_modules_reclaim_next(unsigned ordinal, uint64_t bytes, unsigned *row)
{
	uint64_t given = 0;
	for (; *row < ROWS && !given; ++*row)
		if (modules[*row].reclaim)
			given = modules[*row].reclaim(ordinal, bytes);
	return given;
}

void gm_modules_reclaim(unsigned ordinal, uint64_t bytes)
{
	for (unsigned row = 0; gm_modules_reclaim_next(ordinal, bytes, &row);)
		;
}

void gm_modules_reserved(unsigned ordinal, struct gm_sample *sample)
{
	for (size_t i = 0; i < ROWS; i++)
		if (modules[i].reserved)
			modules[i].reserved(ordinal, sample);
}

void gm_modules_context_gone(uint64_t key)
{
	struct gm_context *context = gm_context_find(key);
	for (size_t i = ROWS; context && i-- > 0;)
		if (modules[i].context_gone)
			modules[i].context_gone(context);
}

void gm_modules_forget(void)
{
	for (size_t i = ROWS; i-- > 0;)
		if (modules[i].forget)
			modules[i].forget();
}

void gm_modules_exit(void)
{
	for (size_t i = ROWS; i-- > 0;)
		if (modules[i].exits)
			modules[i].exits();
}

void gm_modules_report(void)
{
	for (size_t i = 0; i < ROWS; i++)
		if (modules[i].report)
			modules[i].report();
}
