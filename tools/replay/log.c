/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a log of events. Blocks are identified by number; pool and driver use different numbers. */
#include <inttypes.h>
#include <string.h>

#include "log/read.h"
#include "tools/replay/replay.h"

static bool record_is_block(const struct gm_record *r)
{
	return (r->kind == GM_RECORD_ALLOCATE || r->kind == GM_RECORD_LIVE ||
		r->kind == GM_RECORD_FREE) &&
	       !r->status;
}

/* The first device that has a block; -1: none. */
static int log_first_device(struct gm_log_file *file)
{
	struct gm_log_entry entry;
	int first = -1;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry))
		if (record_is_block(&entry.record) && (first < 0 || entry.record.device < first))
			first = entry.record.device;
	return first;
}

static bool record_play(struct gm_trace *trace, const struct gm_record *r, uint64_t time,
			bool complete)
{
	struct gm_trace_block *there = gm_trace_find(trace, r->id);
	if (r->kind == GM_RECORD_LIVE && there)
		return true; /* each segment begins with the live blocks */
	if (r->kind != GM_RECORD_FREE && r->size == 0) {
		trace->empty++;
		return true;
	}
	if (r->kind != GM_RECORD_FREE) {
		if (there && !complete) /* it was in the first walk of a recording, too */
			return true;
		if (there)
			return gm_trace_fail(trace, "block %" PRIu64 " is allocated twice", r->id);
		return gm_trace_add(trace, r->id, r->size, time);
	}
	if (there)
		return gm_trace_end(trace, there, time);
	if (complete && r->size)
		return gm_trace_fail(trace, "free of block %" PRIu64 ", which is not allocated",
				     r->id);
	trace->missing += r->size > 0;
	return true;
}

static bool device_read(struct gm_trace *trace, struct gm_log_file *file)
{
	const struct gm_log_about *about = gm_log_read_about(file);
	struct gm_log_entry entry;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const struct gm_record *r = &entry.record;
		uint64_t time = r->time > about->start ? r->time - about->start : 0;
		if (r->device != trace->device)
			continue;
		trace->refused += r->kind == GM_RECORD_ALLOCATE_FAILED;
		if (record_is_block(r) && !record_play(trace, r, time, about->complete))
			return false;
	}
	return true;
}

static bool log_read(struct gm_trace *trace, struct gm_log_file *file, int wish)
{
	const struct gm_log_about *about = gm_log_read_about(file);
	char why[256];
	if (!gm_log_read_check(file, why, sizeof why))
		return gm_trace_fail(trace, "%s%s",
				     *about->damage ? "" : "contradicts itself: ", why);
	int device = wish >= 0 ? wish : log_first_device(file);
	if (strcmp(about->level, "events") != 0)
		return gm_trace_fail(trace, "a log without events: gpumemstat record makes one "
					    "with them");
	if (wish >= 0 && (unsigned)wish >= about->n_devices)
		return gm_trace_fail(trace, "--device=%d: the log has %u device%s", wish,
				     about->n_devices, about->n_devices == 1 ? "" : "s");
	trace->device = device < 0 ? 0 : (unsigned)device;
	if (trace->device < about->n_devices)
		trace->memory = about->devices[trace->device].total;
	return device_read(trace, file);
}

bool gm_trace_read_log(struct gm_trace *trace, const struct gm_options *options)
{
	struct gm_log_file *file;
	char why[256];
	trace->format = "log";
	if (!gm_log_read_open(trace->path, &file, why, sizeof why))
		return gm_trace_fail(trace, "%s", why);
	bool ok = log_read(trace, file, options->device);
	gm_log_read_close(file);
	return ok;
}
