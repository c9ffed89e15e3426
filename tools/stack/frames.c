/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stack/frames.h"

#include <string.h>

enum { STACKS_MOST = 8 };

static bool frame_is_python(const struct gm_frame *frame)
{
	return frame->object == GM_FRAME_PYTHON;
}

static bool frame_is_forward(const struct gm_frame *frame)
{
	return frame->object == GM_FRAME_FORWARD;
}

void gm_frames_walk(const struct gm_symbols *symbols, uint32_t number,
		    void (*each)(void *arg, const struct gm_frame *frame), void *arg)
{
	const struct gm_log_stack *stack = gm_log_read_stack(symbols->file, number);
	for (unsigned depth = 0; stack && depth < STACKS_MOST; depth++) {
		const struct gm_frame *last = stack->n ? &stack->frames[stack->n - 1] : NULL;
		for (uint32_t i = 0; i < stack->n; i++)
			each(arg, &stack->frames[i]);
		stack = last && frame_is_forward(last)
				? gm_log_read_stack(symbols->file, (uint32_t)last->place)
				: NULL;
	}
}

static void frame_want(void *arg, const struct gm_frame *frame)
{
	gm_symbols_want(arg, frame);
}

void gm_frames_want(struct gm_symbols *symbols, uint32_t number)
{
	gm_frames_walk(symbols, number, frame_want, symbols);
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

size_t gm_frames_calls(const struct gm_symbols *symbols, const struct gm_frame *frame)
{
	size_t n = 1;
	if (!frame_is_python(frame))
		gm_symbols_at(symbols, frame, &n);
	return n ? n : 1;
}

static struct gm_frames_call python_call(const struct gm_symbols *symbols,
					 const struct gm_frame *frame)
{
	struct gm_frames_call call = {.function = string_of(symbols, frame->place >> 32),
				      .file = string_of(symbols, frame->place & UINT32_MAX),
				      .object = "",
				      .place = frame->place,
				      .line = frame->line,
				      .python = true};
	call.fold = gm_fold_of(true, call.function, call.file);
	return call;
}

/* A call with a name is not folded, except for PyTorch's allocator, whose operators are empty(). */
struct gm_frames_call gm_frames_call(const struct gm_symbols *symbols, const struct gm_frame *frame,
				     size_t i)
{
	size_t n;
	if (frame_is_python(frame))
		return python_call(symbols, frame);
	if (frame->object == GM_FRAME_BEFORE)
		return (struct gm_frames_call){
			.function = "before recording", .object = "", .before = true};
	if (frame_is_forward(frame))
		return (struct gm_frames_call){
			.object = "", .place = frame->place, .forward = true};
	const struct gm_symbol *symbol = gm_symbols_at(symbols, frame, &n);
	struct gm_frames_call call = {.object = object_path(symbols, frame->object),
				      .place = frame->place,
				      .in_object = frame->object};
	if (symbol) {
		call.function = symbol[i].function;
		call.file = symbol[i].file;
		call.line = symbol[i].line;
		call.inlined = i + 1 < n;
	}
	call.fold = gm_fold_of(false, call.function, call.object);
	if (call.fold != GM_FOLD_cache &&
	    *gm_fold_name(call.function, call.object, call.name, sizeof call.name))
		call.fold = GM_FOLD_none;
	return call;
}

/* Calls `each`; the words between two stacks name the operator of the inner one. */
struct caller {
	const struct gm_symbols *symbols;
	void (*each)(void *arg, const struct gm_frames_call *call);
	void *arg;
	char backward[GM_FOLD_NAME];
};

static void frame_calls(void *arg, const struct gm_frame *frame)
{
	struct caller *caller = arg;
	const size_t n = gm_frames_calls(caller->symbols, frame);
	for (size_t i = 0; i < n; i++) {
		struct gm_frames_call call = gm_frames_call(caller->symbols, frame, i);
		if (gm_fold_is_backward(call.name))
			memcpy(caller->backward, call.name, sizeof call.name);
		if (call.forward) {
			memcpy(call.name, caller->backward, sizeof call.name);
			*caller->backward = '\0';
		}
		caller->each(caller->arg, &call);
	}
}

void gm_frames_each(const struct gm_symbols *symbols, uint32_t number,
		    void (*each)(void *arg, const struct gm_frames_call *call), void *arg)
{
	struct caller caller = {.symbols = symbols, .each = each, .arg = arg};
	gm_frames_walk(symbols, number, frame_calls, &caller);
}

const char *gm_frames_language(const struct gm_frames_call *call)
{
	return call->forward ? "forward" : call->before ? "before" : call->python ? "python" : "c";
}

static void call_json(void *arg, const struct gm_frames_call *call)
{
	struct gm_emit *emit = arg;
	const char *fold = gm_fold_word(call->fold);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "language", GM_TEXT(gm_frames_language(call)));
	if (call->forward) {
		gm_emit_value(emit, "operator", *call->name ? GM_TEXT(call->name) : GM_NONE);
		gm_emit_value(emit, "stack", GM_COUNT(call->place));
		gm_emit_end(emit);
		return;
	}
	gm_emit_value(emit, "function", call->function ? GM_TEXT(call->function) : GM_NONE);
	gm_emit_value(emit, "file", call->file ? GM_TEXT(call->file) : GM_NONE);
	gm_emit_value(emit, "line", call->line ? GM_COUNT(call->line) : GM_NONE);
	gm_emit_value(emit, "fold", fold ? GM_TEXT(fold) : GM_NONE);
	if (!call->python && !call->before) {
		gm_emit_value(emit, "operator", *call->name ? GM_TEXT(call->name) : GM_NONE);
		gm_emit_value(emit, "inlined", GM_BOOL(call->inlined));
		gm_emit_value(emit, "object", *call->object ? GM_TEXT(call->object) : GM_NONE);
		gm_emit_value(emit, "offset", GM_COUNT(call->place));
	}
	gm_emit_end(emit);
}

static void stack_json(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number,
		       const struct gm_log_stack *stack)
{
	gm_emit_value(emit, "stack", stack ? GM_COUNT(number) : GM_NONE);
	gm_emit_value(emit, "cut", GM_BOOL(stack && stack->flags & GM_STACK_CUT));
	gm_emit_value(emit, "c_only", GM_BOOL(stack && stack->flags & GM_STACK_C_ONLY));
	gm_emit_list(emit, "frames");
	gm_frames_each(symbols, number, call_json, emit);
	gm_emit_end(emit);
}

void gm_frames_show(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number)
{
	const struct gm_log_stack *stack = gm_log_read_stack(symbols->file, number);
	if (emit->options->json)
		stack_json(emit, symbols, number, stack);
	else if (stack)
		gm_frames_text(emit, symbols, number, stack);
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
