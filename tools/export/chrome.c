/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace in the JSON of chrome://tracing and Perfetto: gpumemstat(1), FORMATS. */
#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "tools/export/export.h"
#include "tools/export/stacks.h"
#include "tools/log/bins.h"
#include "tools/log/blocks.h"
#include "tools/log/level.h"
#include "tools/log/usage.h"
#include "tools/output/emit.h"
#include "tools/stack/frames.h"

/* Limits: intervals of a curve, with at most three values each; blocks; frames of a block. */
enum { INTERVALS = 20000, BLOCKS_MOST = 20000, FRAMES_MOST = 8, PLACE_MOST = 256 };

enum curve { IN_USE, MAPPED, REQUESTED, LENT, DRIVER, TENSORS, CURVES };
static const char *const curve_names[CURVES] = {
	[IN_USE] = "in use",
	[MAPPED] = "mapped",
	[REQUESTED] = "requested",
	[LENT] = "lent to device heaps",
	[DRIVER] = "served by the driver",
	[TENSORS] = "tensors of PyTorch",
};

struct point {
	uint64_t ns, value;
};

/* A thinned curve: each interval keeps its lowest, its highest and its last value. */
struct thin {
	struct point least, most, last;
	uint64_t interval;
	bool pending, any;
};

/* Which blocks are written: all of `least` bytes and more, and of those between `some` and `least`
 * the first ones, up to number last[device]. */
struct written {
	uint64_t least, some, last[GM_COUNTER_DEVICES];
};

struct trace {
	FILE *out;
	struct gm_figures *figures;
	struct gm_symbols symbols;
	struct gm_usage usages[GM_COUNTER_DEVICES];
	enum gm_level level; /* the highest one of the log */
	struct gm_blocks blocks[GM_LEVEL_TENSORS + 1][GM_COUNTER_DEVICES];
	uint64_t tensors[GM_COUNTER_DEVICES]; /* bytes */
	struct thin curves[GM_COUNTER_DEVICES][CURVES];
	uint64_t length; /* of an interval, ns */
	struct written written[GM_LEVEL_TENSORS + 1];
	bool begun; /* an event was written */
};

/* --- events --- */

/* Write an event up to its arguments; event_end must follow. Thread 0 stands for the whole process:
 * it becomes the main thread, as Perfetto takes 0 for an idle CPU. */
static void event_begin(struct trace *trace, const char *phase, const char *name, uint64_t ns,
			uint32_t thread)
{
	fprintf(trace->out,
		"%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32 ",\"ts\":%" PRIu64
		".%03u,\"name\":",
		trace->begun ? "," : "", phase, trace->figures->about->pid,
		thread ? thread : (uint32_t)trace->figures->about->pid, ns / 1000,
		(unsigned)(ns % 1000));
	gm_emit_json_string(trace->out, name);
	trace->begun = true;
}

static void event_end(struct trace *trace)
{
	fputs("}}", trace->out);
}

static void process_write(struct trace *trace)
{
	const struct gm_log_about *about = trace->figures->about;
	char name[512];
	snprintf(name, sizeof name, "%s on %s", about->program, about->host);
	event_begin(trace, "M", "process_name", 0, 0);
	fputs(",\"args\":{\"name\":", trace->out);
	gm_emit_json_string(trace->out, name);
	event_end(trace);
}

/* --- curves --- */

static void point_write(struct trace *trace, unsigned device, enum curve curve,
			const struct point *point)
{
	char name[64];
	snprintf(name, sizeof name, "device %u: %s", device, curve_names[curve]);
	event_begin(trace, "C", name, point->ns, 0);
	fprintf(trace->out, ",\"args\":{\"bytes\":%" PRIu64, point->value);
	event_end(trace);
}

static void thin_flush(struct trace *trace, unsigned device, enum curve curve)
{
	struct thin *thin = &trace->curves[device][curve];
	const bool rises = thin->least.ns <= thin->most.ns;
	const struct point *first = rises ? &thin->least : &thin->most;
	const struct point *second = rises ? &thin->most : &thin->least;
	if (!thin->pending)
		return;
	point_write(trace, device, curve, first);
	if (second->value != first->value)
		point_write(trace, device, curve, second);
	if (thin->last.value != (second->value != first->value ? second : first)->value)
		point_write(trace, device, curve, &thin->last);
	thin->pending = false;
}

static void thin_set(struct trace *trace, unsigned device, enum curve curve, uint64_t ns,
		     uint64_t value)
{
	struct thin *thin = &trace->curves[device][curve];
	const struct point point = {ns, value};
	if (thin->any ? thin->last.value == value : value == 0)
		return;
	if (thin->pending && ns / trace->length != thin->interval)
		thin_flush(trace, device, curve);
	if (!thin->pending || value < thin->least.value)
		thin->least = point;
	if (!thin->pending || value > thin->most.value)
		thin->most = point;
	thin->last = point;
	thin->interval = ns / trace->length;
	thin->pending = thin->any = true;
}

static void usage_write(struct trace *trace, unsigned device, uint64_t ns)
{
	const struct gm_usage_now *now = &trace->usages[device].now;
	const uint64_t values[CURVES] = {
		[IN_USE] = now->in_use, [MAPPED] = now->mapped, [REQUESTED] = now->requested,
		[LENT] = now->lent,	[DRIVER] = now->driver,
	};
	for (unsigned i = 0; i < TENSORS; i++)
		thin_set(trace, device, (enum curve)i, ns, values[i]);
}

/* --- blocks --- */

struct stack_writer {
	FILE *out;
	bool python; /* the stack has frames of Python: frames of C are left out */
	bool acts;   /* it has a call that is not folded: folded ones are left out */
	unsigned n;
};

static void kinds_find(void *arg, const struct gm_frames_call *call)
{
	struct stack_writer *writer = arg;
	writer->python = writer->python || call->python;
	writer->acts = writer->acts || !call->fold;
}

static void call_write(void *arg, const struct gm_frames_call *call)
{
	struct stack_writer *writer = arg;
	char text[1024];
	if (writer->n == FRAMES_MOST || (writer->python && !call->python && !call->forward) ||
	    (writer->acts && call->fold))
		return;
	if (call->function && call->file && !*call->name)
		snprintf(text, sizeof text, "%s (%s:%u)", call->function, call->file, call->line);
	else if (call->function && !*call->name)
		snprintf(text, sizeof text, "%s", call->function);
	else
		gm_frames_call_text(call, text, sizeof text);
	fputs(writer->n++ ? "," : "", writer->out);
	gm_emit_json_string(writer->out, text);
}

static void stack_write(struct trace *trace, uint32_t stack)
{
	struct stack_writer writer = {.out = trace->out};
	fputs(",\"stack\":[", trace->out);
	gm_frames_each(&trace->symbols, stack, kinds_find, &writer);
	gm_frames_each(&trace->symbols, stack, call_write, &writer);
	putc(']', trace->out);
}

/* "10.0 MiB, train (project/train.py:7)": Perfetto has a track for each name. */
static const char *block_name(const struct trace *trace, const struct gm_blocks_one *block,
			      char *buf, size_t n)
{
	char size[32], place[PLACE_MOST];
	gm_frames_place(&trace->symbols, block->stack, place, sizeof place);
	snprintf(buf, n, "%s%s%s", gm_size_format(block->size, size, sizeof size),
		 *place ? ", " : "", place);
	return buf;
}

/* The id of a block, or of a tensor, is its number on its device. Begin and end have the same name.
 */
static void block_begin(struct trace *trace, enum gm_level level, const struct gm_blocks_one *block,
			bool born, uint64_t ns, uint32_t thread)
{
	char name[PLACE_MOST + 64];
	event_begin(trace, born ? "b" : "e", block_name(trace, block, name, sizeof name), ns,
		    thread);
	fprintf(trace->out, ",\"cat\":\"%s\",\"id\":\"%u-%s%" PRIu64 "\",\"args\":{",
		gm_level_name(level), block->device, level == GM_LEVEL_TENSORS ? "t" : "",
		block->id);
}

static bool block_is_written(const struct written *written, const struct gm_blocks_one *block)
{
	return block->size >= written->least ||
	       (block->size >= written->some && block->id <= written->last[block->device]);
}

static void block_write(struct trace *trace, enum gm_level level, const struct gm_record *record,
			uint64_t ns)
{
	const struct gm_record r = gm_level_view(level, record);
	struct gm_blocks_one one, *block = &one;
	const enum gm_blocks_change change =
		gm_blocks_follow(&trace->blocks[level][r.device], &r, r.device, block);
	const bool born = change == GM_BLOCKS_BORN;
	if (!born && change != GM_BLOCKS_GONE)
		return;
	if (level == GM_LEVEL_TENSORS)
		trace->tensors[r.device] += born ? block->size : -block->size;
	if (!block_is_written(&trace->written[level], block))
		return;
	block_begin(trace, level, block, born, ns, r.thread);
	if (born) {
		fprintf(trace->out, "\"device\":%u,\"bytes\":%" PRIu64, r.device, block->size);
		if (level == GM_LEVEL_BLOCKS)
			fprintf(trace->out, ",\"handed_out\":%" PRIu64, block->held);
		fprintf(trace->out, ",\"address\":\"0x%" PRIx64 "\"", block->address);
		if (level == GM_LEVEL_BLOCKS)
			fprintf(trace->out, ",\"driver\":%s", block->driver ? "true" : "false");
		if (block->stack)
			stack_write(trace, block->stack);
	}
	event_end(trace);
}

static void blocks_write(struct trace *trace, const struct gm_record *r, uint64_t ns)
{
	block_write(trace, GM_LEVEL_BLOCKS, r, ns);
	if (trace->level != GM_LEVEL_TENSORS)
		return;
	block_write(trace, GM_LEVEL_TENSORS, r, ns);
	thin_set(trace, r->device, TENSORS, ns, trace->tensors[r->device]);
}

/* Blocks alive at the end of the log end there: an open event would have no length. */
static void blocks_end(struct trace *trace, enum gm_level level, unsigned device)
{
	const struct gm_blocks *blocks = &trace->blocks[level][device];
	for (size_t i = 0; i < blocks->room; i++) {
		const struct gm_blocks_one *block = &blocks->at[i];
		if (!block->id || !block_is_written(&trace->written[level], block))
			continue;
		block_begin(trace, level, block, false, gm_figures_length(trace->figures), 0);
		fputs("\"alive_at_end\":true", trace->out);
		event_end(trace);
	}
}

/* The numbers of the first `n` blocks of the sizes between `some` and `least`. */
static void written_extend(struct written *written, struct gm_figures *figures, enum gm_level level,
			   uint64_t n)
{
	struct gm_log_entry entry;
	gm_log_read_rewind(figures->file);
	while (n > 0 && gm_log_read_next(figures->file, &entry)) {
		const struct gm_record r = gm_level_view(level, &entry.record);
		if (r.kind != GM_RECORD_ALLOCATE || r.status || r.device >= GM_COUNTER_DEVICES ||
		    r.size < written->some || r.size >= written->least)
			continue;
		written->last[r.device] = r.id;
		n--;
	}
}

/* At most BLOCKS_MOST blocks: `least` is a power of two, or no size. */
static struct written written_find(struct gm_figures *figures, enum gm_level level)
{
	struct written written = {UINT64_MAX, UINT64_MAX, {0}};
	struct gm_bins bins = {0};
	uint64_t blocks = 0;
	unsigned bin = GM_BINS;
	gm_bins_read(&bins, figures->file, -1, level);
	while (bin > 0 && blocks + bins.sizes[bin - 1].blocks <= BLOCKS_MOST)
		blocks += bins.sizes[--bin].blocks;
	if (bin < GM_BINS)
		written.least = gm_bins_least(bin);
	if (bin == 0)
		return written;
	written.some = gm_bins_least(bin - 1);
	written_extend(&written, figures, level, BLOCKS_MOST - blocks);
	return written;
}

/* --- moments --- */

static const char *moment_name(const struct gm_log_entry *entry)
{
	switch (entry->record.kind) {
	case GM_RECORD_OUT_OF_MEMORY:
		return "out of memory";
	case GM_RECORD_TENSOR_REFUSED:
		return "out of memory in PyTorch";
	case GM_RECORD_MAP:
		return "memory mapped";
	case GM_RECORD_UNMAP:
		return "memory returned";
	case GM_RECORD_REMAP:
		return "memory moved";
	case GM_RECORD_GROW:
		return entry->record.status ? "device heap: growth refused" : "device heap grew";
	case GM_RECORD_MARK:
		return "mark";
	default:
		return NULL;
	}
}

static void moment_write(struct trace *trace, const struct gm_log_entry *entry, uint64_t ns)
{
	const struct gm_record *r = &entry->record;
	const char *name = moment_name(entry), *text = NULL;
	if (!name)
		return;
	if (r->kind == GM_RECORD_MARK)
		text = gm_log_read_string(trace->figures->file, r->string);
	event_begin(trace, "i", text ? text : name, ns, r->thread);
	fprintf(trace->out, ",\"s\":\"%c\",\"args\":{\"bytes\":%" PRIu64,
		r->kind == GM_RECORD_OUT_OF_MEMORY || r->kind == GM_RECORD_TENSOR_REFUSED ? 'p'
											  : 't',
		r->size);
	if (r->device != 255)
		fprintf(trace->out, ",\"device\":%u", r->device);
	event_end(trace);
}

/* --- the trace --- */

static void events_write(struct trace *trace)
{
	const bool blocks = gm_usage_has_blocks(trace->figures->about);
	struct gm_log_entry entry;
	gm_usages_begin(trace->usages, trace->figures);
	while (gm_log_read_next(trace->figures->file, &entry)) {
		const struct gm_record *r = &entry.record;
		const uint64_t ns = gm_figures_at(trace->figures, r->time);
		moment_write(trace, &entry, ns);
		if (r->device >= GM_COUNTER_DEVICES)
			continue;
		if (gm_usage_follow(&trace->usages[r->device], &entry))
			usage_write(trace, r->device, ns);
		if (blocks)
			blocks_write(trace, r, ns);
	}
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		for (unsigned i = 0; i < CURVES; i++)
			thin_flush(trace, d, (enum curve)i);
		for (unsigned i = 0; i <= trace->level; i++)
			blocks_end(trace, (enum gm_level)i, d);
	}
}

/* The end of the file. Older versions of Perfetto stop reading at a key that they do not know, and
 * read times as ns where a displayTimeUnit says so, so this is behind the events and without one.
 */
static void other_write(const struct trace *trace)
{
	fputs("\n],\"otherData\":{\"log\":", trace->out);
	gm_emit_json_string(trace->out, trace->figures->about->path);
	fprintf(trace->out, ",\"blocks_from_bytes\":%" PRIu64,
		trace->written[GM_LEVEL_BLOCKS].least);
	if (trace->level == GM_LEVEL_TENSORS)
		fprintf(trace->out, ",\"tensors_from_bytes\":%" PRIu64,
			trace->written[GM_LEVEL_TENSORS].least);
	fputs("}}\n", trace->out);
}

void gm_export_chrome(FILE *out, const struct gm_options *options, struct gm_figures *figures)
{
	static struct trace trace; /* large */
	uint64_t least = UINT64_MAX;
	(void)options;
	trace = (struct trace){.out = out, .figures = figures};
	trace.length = gm_figures_length(figures) / INTERVALS + 1;
	trace.level = gm_level_of(figures->file);
	for (unsigned i = 0; i <= trace.level; i++) {
		trace.written[i] = written_find(figures, (enum gm_level)i);
		if (trace.written[i].least < least)
			least = trace.written[i].least;
		if (trace.written[i].some < least)
			least = trace.written[i].some;
	}
	gm_export_symbols(&trace.symbols, figures->file, least);
	fputs("{\"traceEvents\":[", out);
	process_write(&trace);
	events_write(&trace);
	other_write(&trace);
	for (unsigned i = 0; i <= GM_LEVEL_TENSORS; i++)
		for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
			gm_blocks_free(&trace.blocks[i][d]);
	gm_symbols_free(&trace.symbols);
}
