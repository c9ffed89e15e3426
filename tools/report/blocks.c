/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/report.h"
#include "tools/stack/frames.h"

/* Limits for each moment and device; sums have no limit. */
enum { STACKS_MOST = 1000, BLOCKS_MOST = 200, SITES_MOST = 2000, LIVES_LEAST = 8192 };

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* --- one moment --- */

static int block_compare(const void *a, const void *b)
{
	const struct gm_alive_block *x = a, *y = b;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void stacks_take(struct gm_report_moment *moment)
{
	for (size_t i = 0; i < moment->all.n && i < STACKS_MOST; i++)
		if (!gm_array_push(&moment->stacks, moment->all.at[i]))
			memory_exhausted();
	moment->all.at = NULL;
}

/* Sort by size: the first blocks of each device are its largest. */
static void blocks_take(struct gm_report_moment moments[GM_COUNTER_DEVICES], struct gm_alive *alive)
{
	if (alive->blocks.n)
		qsort(alive->blocks.at, alive->blocks.n, sizeof *alive->blocks.at, block_compare);
	for (size_t i = 0; i < alive->blocks.n; i++) {
		struct gm_report_moment *moment = &moments[alive->blocks.at[i].device];
		if (moment->blocks.n < BLOCKS_MOST &&
		    !gm_array_push(&moment->blocks, alive->blocks.at[i]))
			memory_exhausted();
	}
}

static void moment_read(struct gm_report_blocks *out, unsigned which, enum gm_moment_kind kind)
{
	const struct gm_moment_wish wish = {.kind = kind, .level = out->level};
	struct gm_report_moment *moments = out->moments[which];
	struct gm_alive_moment found[GM_COUNTER_DEVICES] = {0};
	struct gm_owners owners[GM_COUNTER_DEVICES] = {0};
	struct gm_groups groups;
	struct gm_alive alive;
	gm_alive_moments(out->figures->file, &wish, found);
	gm_alive_find(out->figures->file, found, false, out->level, &alive);
	gm_groups_make(&groups, &alive, GM_GROUP_STACK);
	if (out->level == GM_LEVEL_TENSORS)
		gm_owners_find(owners, out->figures, found);
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		moments[d].known = found[d].known;
		moments[d].time = found[d].at.time;
		moments[d].owners = owners[d];
		moments[d].all = gm_groups_part(&groups, d);
		stacks_take(&moments[d]);
	}
	blocks_take(moments, &alive);
	gm_groups_free(&groups);
	gm_alive_free(&alive);
}

/* --- distinct stacks and frames --- */

static int number_compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static int frame_compare(const void *a, const void *b)
{
	const struct gm_frame *x = a, *y = b;
	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static void stack_want(struct gm_report_blocks *out, uint32_t number)
{
	if (number && !gm_array_push(&out->stacks, number))
		memory_exhausted();
}

size_t gm_report_sites(const struct gm_lives *lives)
{
	return lives->stacks.n < SITES_MOST ? lives->stacks.n : SITES_MOST;
}

static void stacks_collect(struct gm_report_blocks *out)
{
	size_t to = 0;
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++)
		for (size_t i = 0; i < gm_report_sites(&out->lives.devices[d]); i++)
			stack_want(out, out->lives.devices[d].stacks.at[i].stack);
	for (unsigned m = 0; m < GM_REPORT_MOMENTS; m++)
		for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
			const struct gm_report_moment *moment = &out->moments[m][d];
			for (size_t i = 0; i < moment->stacks.n; i++)
				stack_want(out, (uint32_t)moment->stacks.at[i].key);
			for (size_t i = 0; i < moment->blocks.n; i++)
				stack_want(out, moment->blocks.at[i].stack);
		}
	if (out->stacks.n)
		qsort(out->stacks.at, out->stacks.n, sizeof *out->stacks.at, number_compare);
	for (size_t i = 0; i < out->stacks.n; i++)
		if (!to || out->stacks.at[to - 1] != out->stacks.at[i])
			out->stacks.at[to++] = out->stacks.at[i];
	out->stacks.n = to;
}

static void frame_add(void *arg, const struct gm_frame *frame)
{
	struct gm_report_blocks *out = arg;
	if (!gm_array_push(&out->frames, *frame))
		memory_exhausted();
}

static void frames_collect(struct gm_report_blocks *out)
{
	size_t to = 0;
	for (size_t i = 0; i < out->stacks.n; i++) {
		gm_frames_walk(&out->symbols, out->stacks.at[i], frame_add, out);
		gm_frames_want(&out->symbols, out->stacks.at[i]);
	}
	if (out->frames.n)
		qsort(out->frames.at, out->frames.n, sizeof *out->frames.at, frame_compare);
	for (size_t i = 0; i < out->frames.n; i++)
		if (!to || frame_compare(&out->frames.at[to - 1], &out->frames.at[i]))
			out->frames.at[to++] = out->frames.at[i];
	out->frames.n = to;
}

void gm_report_blocks_read(struct gm_report_blocks *out, const struct gm_figures *figures,
			   size_t most)
{
	*out = (struct gm_report_blocks){.figures = figures, .symbols = {.file = figures->file}};
	if (gm_alive_missing(figures->about))
		return;
	out->level = gm_level_of(figures->file);
	moment_read(out, GM_REPORT_PEAK, GM_MOMENT_PEAK);
	if (figures->refusals.n || figures->giveups.n)
		moment_read(out, GM_REPORT_OOM, GM_MOMENT_OOM);
	moment_read(out, GM_REPORT_EXIT, GM_MOMENT_EXIT);
	gm_lives_read(&out->lives, figures, out->level, most < LIVES_LEAST ? LIVES_LEAST : most);
	stacks_collect(out);
	frames_collect(out);
	gm_symbols_resolve(&out->symbols);
}

void gm_report_blocks_free(struct gm_report_blocks *blocks)
{
	for (unsigned m = 0; m < GM_REPORT_MOMENTS; m++)
		for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
			gm_array_free(&blocks->moments[m][d].stacks);
			gm_array_free(&blocks->moments[m][d].blocks);
		}
	gm_lives_free(&blocks->lives);
	gm_symbols_free(&blocks->symbols);
	gm_array_free(&blocks->stacks);
	gm_array_free(&blocks->frames);
}

/* --- JSON --- */

struct gm_value gm_report_stack_value(const struct gm_report_blocks *blocks, uint32_t number)
{
	return gm_log_read_stack(blocks->figures->file, number) ? GM_COUNT(number) : GM_NONE;
}

static void block_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
		       const struct gm_alive_block *b)
{
	char address[32];
	snprintf(address, sizeof address, "0x%" PRIx64, b->address);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "bytes", GM_BYTES(b->size));
	gm_emit_value(emit, "address", GM_TEXT(address));
	gm_emit_value(emit, "ns",
		      b->time ? GM_NS(gm_figures_at(blocks->figures, b->time)) : GM_NONE);
	gm_emit_value(emit, "context", GM_COUNT(b->context));
	gm_emit_value(emit, "driver", GM_BOOL(b->driver));
	gm_emit_value(emit, "stack", gm_report_stack_value(blocks, b->stack));
	gm_emit_end(emit);
}

static void moment_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
			const struct gm_report_moment *moment, const char *name)
{
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "at", GM_TEXT(name));
	gm_emit_value(emit, "ns", GM_NS(gm_figures_at(blocks->figures, moment->time)));
	gm_emit_value(emit, "bytes", GM_BYTES(moment->all.bytes));
	gm_emit_value(emit, "blocks", GM_COUNT(moment->all.blocks));
	gm_emit_value(emit, "level", GM_TEXT(gm_level_name(blocks->level)));
	if (blocks->level == GM_LEVEL_TENSORS)
		gm_owners_show(emit, &moment->owners, blocks->figures);
	gm_emit_value(emit, "stacks", GM_COUNT(moment->all.n));
	gm_emit_list(emit, "by_stack");
	for (size_t i = 0; i < moment->stacks.n; i++) {
		const struct gm_groups_one *one = &moment->stacks.at[i];
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "bytes", GM_BYTES(one->bytes));
		gm_emit_value(emit, "blocks", GM_COUNT(one->blocks));
		gm_emit_value(emit, "largest", GM_BYTES(one->largest));
		gm_emit_value(emit, "stack", gm_report_stack_value(blocks, (uint32_t)one->key));
		gm_emit_end(emit);
	}
	gm_emit_end(emit);
	gm_emit_list(emit, "largest");
	for (size_t i = 0; i < moment->blocks.n; i++)
		block_show(emit, blocks, &moment->blocks.at[i]);
	gm_emit_end(emit);
	gm_emit_end(emit);
}

void gm_report_moments_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
			    unsigned device)
{
	static const char *const names[] = {"peak", "oom", "exit"};
	gm_emit_list(emit, "moments");
	for (unsigned m = 0; m < GM_REPORT_MOMENTS; m++)
		if (blocks->moments[m][device].known)
			moment_show(emit, blocks, &blocks->moments[m][device], names[m]);
	gm_emit_end(emit);
}

static void call_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
		      const struct gm_frame *frame, size_t i)
{
	const struct gm_frames_call call = gm_frames_call(&blocks->symbols, frame, i);
	const char *fold = gm_fold_word(call.fold);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "language", GM_TEXT(gm_frames_language(&call)));
	if (fold)
		gm_emit_value(emit, "fold", GM_TEXT(fold));
	if (*call.name)
		gm_emit_value(emit, "operator", GM_TEXT(call.name));
	if (call.function)
		gm_emit_value(emit, "function", GM_TEXT(call.function));
	if (call.file)
		gm_emit_value(emit, "file", GM_TEXT(call.file));
	if (call.line)
		gm_emit_value(emit, "line", GM_COUNT(call.line));
	if (call.inlined)
		gm_emit_value(emit, "inlined", GM_BOOL(true));
	if (*call.object)
		gm_emit_value(emit, "object", GM_TEXT(call.object));
	if (!call.python && !call.function && !call.forward) {
		char offset[32];
		snprintf(offset, sizeof offset, "0x%" PRIx64, frame->place);
		gm_emit_value(emit, "offset", GM_TEXT(offset));
	}
	gm_emit_end(emit);
}

static void frames_show(struct gm_emit *emit, const struct gm_report_blocks *blocks)
{
	gm_emit_list(emit, "frames");
	for (size_t i = 0; i < blocks->frames.n; i++) {
		const struct gm_frame *frame = &blocks->frames.at[i];
		gm_emit_list(emit, NULL);
		for (size_t j = 0; j < gm_frames_calls(&blocks->symbols, frame); j++)
			call_show(emit, blocks, frame, j);
		gm_emit_end(emit);
	}
	gm_emit_end(emit);
}

/* Write a frame's place in "frames". */
struct places {
	struct gm_emit *emit;
	const struct gm_report_blocks *blocks;
};

static void place_show(void *arg, const struct gm_frame *frame)
{
	const struct places *places = arg;
	const struct gm_report_blocks *blocks = places->blocks;
	const struct gm_frame *found =
		bsearch(frame, blocks->frames.at, blocks->frames.n, sizeof *found, frame_compare);
	gm_emit_value(places->emit, NULL, GM_COUNT((uint64_t)(found - blocks->frames.at)));
}

static void stack_show(struct gm_emit *emit, const struct gm_report_blocks *blocks, uint32_t number,
		       const struct gm_log_stack *stack)
{
	struct places places = {emit, blocks};
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "stack", GM_COUNT(number));
	gm_emit_value(emit, "cut", GM_BOOL(stack->flags & GM_STACK_CUT));
	gm_emit_value(emit, "c_only", GM_BOOL(stack->flags & GM_STACK_C_ONLY));
	gm_emit_list(emit, "frames");
	gm_frames_walk(&blocks->symbols, number, place_show, &places);
	gm_emit_end(emit);
	gm_emit_end(emit);
}

void gm_report_stacks_show(struct gm_emit *emit, const struct gm_report_blocks *blocks)
{
	frames_show(emit, blocks);
	gm_emit_list(emit, "stacks");
	for (size_t i = 0; i < blocks->stacks.n; i++) {
		const struct gm_log_stack *stack =
			gm_log_read_stack(blocks->figures->file, blocks->stacks.at[i]);
		if (stack)
			stack_show(emit, blocks, blocks->stacks.at[i], stack);
	}
	gm_emit_end(emit);
	gm_frames_show_objects(emit, &blocks->symbols);
}
