/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <string.h>

#include "tools/replay/policy.h"
#include "tools/replay/replay.h"

/* --- functions for the readers --- */

bool gm_trace_fail(struct gm_trace *trace, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(trace->why, sizeof trace->why, format, args);
	va_end(args);
	return false;
}

static bool trace_add_event(struct gm_trace *trace, uint64_t time, uint32_t block, bool frees)
{
	uint64_t last = trace->events.n ? trace->events.at[trace->events.n - 1].time : 0;
	struct gm_trace_event event = {time > last ? time : last, block, frees};
	return gm_array_push(&trace->events, event) || gm_trace_fail(trace, "out of memory");
}

struct gm_trace_block *gm_trace_find(struct gm_trace *trace, uint64_t key)
{
	struct gm_trace_block *block;
	HASH_FIND(hh, trace->live, &key, sizeof key, block);
	return block;
}

bool gm_trace_add(struct gm_trace *trace, uint64_t key, uint64_t size, uint64_t time)
{
	if (size > GM_POLICY_LARGEST)
		return gm_trace_fail(trace, "size %llu: more than any device has",
				     (unsigned long long)size);
	if (__builtin_add_overflow(trace->requested, size, &trace->requested))
		return gm_trace_fail(trace, "more than 16 EiB are alive");
	if (trace->blocks.n == UINT32_MAX)
		return gm_trace_fail(trace, "more than 4294967295 allocations");
	struct gm_trace_block *block = gm_policy_make(sizeof *block);
	*block = (struct gm_trace_block){
		.key = key, .size = size, .line = trace->line, .number = (uint32_t)trace->blocks.n};
	if (!gm_array_push(&trace->blocks, block)) {
		free(block);
		return gm_trace_fail(trace, "out of memory");
	}
	HASH_ADD(hh, trace->live, key, sizeof block->key, block);
	if (gm_hash_failed(block))
		return gm_trace_fail(trace, "out of memory");
	if (trace->requested > trace->requested_peak)
		trace->requested_peak = trace->requested;
	return trace_add_event(trace, time, block->number, false);
}

bool gm_trace_end(struct gm_trace *trace, struct gm_trace_block *block, uint64_t time)
{
	HASH_DEL(trace->live, block);
	trace->requested -= block->size;
	return trace_add_event(trace, time, block->number, true);
}

void gm_trace_free(struct gm_trace *trace)
{
	HASH_CLEAR(hh, trace->live);
	for (size_t i = 0; i < trace->blocks.n; i++)
		free(trace->blocks.at[i]);
	gm_array_free(&trace->blocks);
	gm_array_free(&trace->events);
}
