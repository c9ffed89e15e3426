/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/frames.h"

#include <inttypes.h>
#include <string.h>

/* Limits of a part of a stack in text: innermost calls allocate, outermost calls show why. */
struct extent {
	size_t inner, outer;
	const char *of;
};
static const struct extent of_c = {4, 8, "C"}, of_c_beside_python = {4, 0, "C"},
			   of_python = {4, 8, "Python"};

void gm_frames_want(struct gm_symbols *symbols, uint32_t number)
{
	const struct gm_log_stack *stack = gm_log_read_stack(symbols->file, number);
	for (uint32_t i = 0; stack && i < stack->n; i++)
		gm_symbols_want(symbols, &stack->frames[i]);
}

static const char *object_path(const struct gm_symbols *symbols, uint32_t number)
{
	const struct gm_log_object *object = gm_log_read_object(symbols->file, number);
	const char *path = object ? gm_log_read_string(symbols->file, object->path) : NULL;
	return path ? path : "";
}

static const char *string_of(const struct gm_symbols *symbols, uint64_t number)
{
	return gm_log_read_string(symbols->file, (uint32_t)number);
}

static bool frame_is_python(const struct gm_frame *frame)
{
	return frame->object == GM_FRAME_PYTHON;
}

size_t gm_frames_calls(const struct gm_symbols *symbols, const struct gm_frame *frame)
{
	size_t n = 1;
	if (!frame_is_python(frame))
		gm_symbols_at(symbols, frame, &n);
	return n ? n : 1;
}

struct gm_frames_call gm_frames_call(const struct gm_symbols *symbols, const struct gm_frame *frame,
				     size_t i)
{
	size_t n;
	if (frame_is_python(frame))
		return (struct gm_frames_call){
			.function = string_of(symbols, frame->place >> 32),
			.file = string_of(symbols, frame->place & UINT32_MAX),
			.object = "",
			.place = frame->place,
			.line = frame->line,
			.python = true};
	const struct gm_symbol *symbol = gm_symbols_at(symbols, frame, &n);
	struct gm_frames_call call = {.object = object_path(symbols, frame->object),
				      .place = frame->place};
	if (symbol) {
		call.function = symbol[i].function;
		call.file = symbol[i].file;
		call.line = symbol[i].line;
		call.inlined = i + 1 < n;
	}
	return call;
}

/* The last two components of a path, enough to recognise a file. */
static const char *path_end(const char *path)
{
	const char *last = strrchr(path, '/'), *at = last;
	while (at && at > path && at[-1] != '/')
		at--;
	return at && at > path + 1 ? at : path;
}

static void call_text(struct gm_emit *emit, const struct gm_symbols *symbols,
		      const struct gm_frame *frame, const struct gm_frames_call *call)
{
	const char *path = object_path(symbols, frame->object);
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *function = call->function;
	char buf[256];
	if (function && !call->python)
		function = gm_frames_short_name(function, buf, sizeof buf);
	if (function && call->file)
		gm_emit_line(emit, "", "%s (%s:%u)%s", function, path_end(call->file), call->line,
			     call->inlined ? ", inlined" : "");
	else if (function)
		gm_emit_line(emit, "", "%s in %s", function, name);
	else if (call->python && call->file)
		gm_emit_line(emit, "", "a function of Python (%s:%u)", path_end(call->file),
			     call->line);
	else if (call->python)
		gm_emit_line(emit, "", "a function of Python");
	else if (frame->object)
		gm_emit_line(emit, "", "%s+0x%" PRIx64, *name ? name : "?", frame->place);
	else
		gm_emit_line(emit, "", "0x%" PRIx64, frame->place);
}

/* Number of calls of frames [from, to) up to main; callers of main belong to the C library. */
static size_t calls_count(const struct gm_symbols *symbols, const struct gm_frame *from,
			  const struct gm_frame *to)
{
	size_t count = 0;
	for (; from < to; from++) {
		const size_t n = gm_frames_calls(symbols, from);
		for (size_t i = 0; i < n; i++, count++) {
			const struct gm_frames_call call = gm_frames_call(symbols, from, i);
			if (!call.python && call.function && !strcmp(call.function, "main"))
				return count + 1;
		}
	}
	return count;
}

/* Show the calls of frames [from, to) within the extent; a single hidden call is shown, too. */
static void frames_text(struct gm_emit *emit, const struct gm_symbols *symbols,
			const struct gm_frame *from, const struct gm_frame *to,
			const struct extent *extent)
{
	const size_t count = calls_count(symbols, from, to), shown = extent->inner + extent->outer;
	const size_t hidden = count > shown + 1 ? count - shown : 0;
	for (size_t at = 0; at < count; from++) {
		const size_t n = gm_frames_calls(symbols, from);
		for (size_t i = 0; i < n && at < count; i++, at++) {
			const struct gm_frames_call call = gm_frames_call(symbols, from, i);
			if (hidden && at == extent->inner)
				gm_emit_line(emit, "", "... %zu more of %s", hidden, extent->of);
			if (at < extent->inner || at >= extent->inner + hidden)
				call_text(emit, symbols, from, &call);
		}
	}
}

static void stack_text(struct gm_emit *emit, const struct gm_symbols *symbols,
		       const struct gm_log_stack *stack)
{
	const struct gm_frame *at = stack->frames, *end = at + stack->n, *python = at;
	while (python < end && !frame_is_python(python))
		python++;
	frames_text(emit, symbols, at, python, python < end ? &of_c_beside_python : &of_c);
	frames_text(emit, symbols, python, end, &of_python);
	if (stack->flags & GM_STACK_CUT)
		gm_emit_line(emit, "", "... and further ones that the log lacks");
	if (stack->flags & GM_STACK_C_ONLY)
		gm_emit_line(emit, "", "C frames only: the thread's frames of Python are unknown");
}

static void frame_json(struct gm_emit *emit, const struct gm_symbols *symbols,
		       const struct gm_frame *frame, const struct gm_frames_call *call)
{
	bool python = frame_is_python(frame);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "language", GM_TEXT(python ? "python" : "c"));
	gm_emit_value(emit, "function", call->function ? GM_TEXT(call->function) : GM_NONE);
	gm_emit_value(emit, "file", call->file ? GM_TEXT(call->file) : GM_NONE);
	gm_emit_value(emit, "line", call->line ? GM_COUNT(call->line) : GM_NONE);
	if (!python) {
		const char *path = object_path(symbols, frame->object);
		gm_emit_value(emit, "inlined", GM_BOOL(call->inlined));
		gm_emit_value(emit, "object", *path ? GM_TEXT(path) : GM_NONE);
		gm_emit_value(emit, "offset", GM_COUNT(frame->place));
	}
	gm_emit_end(emit);
}

void gm_frames_each(const struct gm_symbols *symbols, uint32_t number,
		    void (*each)(void *arg, const struct gm_frames_call *call), void *arg)
{
	const struct gm_log_stack *stack = gm_log_read_stack(symbols->file, number);
	for (uint32_t i = 0; stack && i < stack->n; i++)
		for (size_t j = 0; j < gm_frames_calls(symbols, &stack->frames[i]); j++) {
			const struct gm_frames_call call =
				gm_frames_call(symbols, &stack->frames[i], j);
			each(arg, &call);
		}
}

static void stack_json(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number,
		       const struct gm_log_stack *stack)
{
	gm_emit_value(emit, "stack", stack ? GM_COUNT(number) : GM_NONE);
	gm_emit_value(emit, "cut", GM_BOOL(stack && stack->flags & GM_STACK_CUT));
	gm_emit_value(emit, "c_only", GM_BOOL(stack && stack->flags & GM_STACK_C_ONLY));
	gm_emit_list(emit, "frames");
	for (uint32_t i = 0; stack && i < stack->n; i++)
		for (size_t j = 0; j < gm_frames_calls(symbols, &stack->frames[i]); j++) {
			struct gm_frames_call call = gm_frames_call(symbols, &stack->frames[i], j);
			frame_json(emit, symbols, &stack->frames[i], &call);
		}
	gm_emit_end(emit);
}

void gm_frames_show(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number)
{
	const struct gm_log_stack *stack = gm_log_read_stack(symbols->file, number);
	if (emit->options->json)
		stack_json(emit, symbols, number, stack);
	else if (stack)
		stack_text(emit, symbols, stack);
	else
		gm_emit_line(emit, "",
			     number ? "the log lacks this stack"
				    : "without a stack: see record --stacks");
}

void gm_frames_show_objects(struct gm_emit *emit, const struct gm_symbols *symbols)
{
	static const struct gm_column columns[] = {{"path", NULL, 0}, {"missing", NULL, 0}};
	bool first = true;
	if (emit->options->json)
		gm_emit_table(emit, "objects", false, columns, 2);
	for (size_t i = 0; i < symbols->objects.n; i++) {
		const struct gm_symbols_object *object = &symbols->objects.at[i];
		const char *path = object_path(symbols, object->number);
		if (emit->options->json) {
			gm_emit_row(
				emit, NULL,
				(struct gm_value[]){GM_TEXT(path),
						    object->why ? GM_TEXT(object->why) : GM_NONE});
		} else if (object->why) {
			if (first)
				gm_emit_break(emit);
			gm_emit_line(emit, first ? "symbols" : "", "%s %s", *path ? path : "?",
				     object->why);
			first = false;
		}
	}
	if (emit->options->json)
		gm_emit_table_end(emit);
}
