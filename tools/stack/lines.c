/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack as lines of text: of C and of Python, the calls on which a user can act. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/stack/frames.h"
#include "tools/tool.h"

/* Limits of a part of a stack: innermost calls allocate, outermost calls show why. */
struct extent {
	size_t inner, outer;
	const char *of;
};
static const struct extent of_c = {4, 8, "C"}, of_c_beside_python = {4, 0, "C"},
			   of_python = {4, 8, "Python"};

struct lines {
	GM_ARRAY(struct gm_frames_call) calls;
};

/* --- the calls to show --- */

static void call_add(void *arg, const struct gm_frames_call *call)
{
	struct lines *lines = arg;
	if (gm_array_push(&lines->calls, *call))
		return;
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

static bool call_is_main(const struct gm_frames_call *call)
{
	return !call->python && call->function && !strcmp(call->function, "main");
}

/* Callers of main belong to the C library. */
static void callers_of_main_drop(struct lines *lines)
{
	bool behind = false;
	size_t to = 0;
	for (size_t i = 0; i < lines->calls.n; i++) {
		const struct gm_frames_call *call = &lines->calls.at[i];
		behind = behind && !call->python && !call->forward;
		if (!behind)
			lines->calls.at[to++] = *call;
		behind = behind || call_is_main(call);
	}
	lines->calls.n = to;
}

/* The end of the calls from `from` on that belong to one stack. */
static size_t stack_end(const struct lines *lines, size_t from)
{
	while (from < lines->calls.n && !lines->calls.at[from].forward)
		from++;
	return from;
}

static bool python_between(const struct lines *lines, size_t from, size_t to)
{
	for (; from < to; from++)
		if (lines->calls.at[from].python)
			return true;
	return false;
}

/* Within the calls of one stack. The line of a forward call has the name of the node of autograd
 * that is above it. */
static bool call_is_shown(const struct lines *lines, size_t i, size_t end, const char *before)
{
	const struct gm_frames_call *call = &lines->calls.at[i];
	if (call->fold)
		return false;
	if (!*call->name)
		return true;
	return strcmp(call->name, before) != 0 &&
	       (end == lines->calls.n || strcmp(call->name, lines->calls.at[end].name) != 0);
}

/* Of a forward call with frames of Python, those of C say nothing more. */
static void folded_drop(struct lines *lines)
{
	size_t to = 0;
	for (size_t from = 0, end; from < lines->calls.n; from = end + 1) {
		const char *before = "";
		end = stack_end(lines, from);
		const bool python_only = from > 0 && python_between(lines, from, end);
		for (size_t i = from; i < end; i++) {
			const struct gm_frames_call *call = &lines->calls.at[i];
			if (!call_is_shown(lines, i, end, before) || (python_only && !call->python))
				continue;
			lines->calls.at[to++] = *call;
			before = lines->calls.at[to - 1].name;
		}
		if (end < lines->calls.n)
			lines->calls.at[to++] = lines->calls.at[end];
	}
	lines->calls.n = to;
}

static bool call_is_of_user(const struct gm_frames_call *call)
{
	return !call->fold;
}

/* Inside of a framework, above its allocator. */
static bool call_is_of_framework(const struct gm_frames_call *call)
{
	return call->fold != GM_FOLD_cuda && call->fold != GM_FOLD_gpumem &&
	       call->fold != GM_FOLD_cache && call->fold != GM_FOLD_start;
}

static bool calls_any(const struct lines *lines, bool is(const struct gm_frames_call *call))
{
	for (size_t i = 0; i < lines->calls.n; i++)
		if (is(&lines->calls.at[i]))
			return true;
	return false;
}

/* Without any call to act on, those of a framework are shown; without these, all. */
static void calls_find(struct lines *lines, const struct gm_symbols *symbols, uint32_t number)
{
	size_t to = 0;
	gm_frames_each(symbols, number, call_add, lines);
	callers_of_main_drop(lines);
	if (calls_any(lines, call_is_of_user)) {
		folded_drop(lines);
		return;
	}
	if (!calls_any(lines, call_is_of_framework))
		return;
	for (size_t i = 0; i < lines->calls.n; i++)
		if (call_is_of_framework(&lines->calls.at[i]))
			lines->calls.at[to++] = lines->calls.at[i];
	lines->calls.n = to;
}

/* --- text --- */

/* The last two components of a path, enough to recognise a file. */
static const char *path_end(const char *path)
{
	const char *last = strrchr(path, '/'), *at = last;
	while (at && at > path && at[-1] != '/')
		at--;
	return at && at > path + 1 ? at : path;
}

static const char *backward_text(const struct gm_frames_call *forward)
{
	return *forward->name ? forward->name : "backward of an operator";
}

const char *gm_frames_call_text(const struct gm_frames_call *call, char *buf, size_t n)
{
	const char *slash = strrchr(call->object, '/');
	const char *name = slash ? slash + 1 : call->object;
	const char *function = call->function;
	char shorter[256];
	if (function && !call->python)
		function = gm_frames_short_name(function, shorter, sizeof shorter);
	if (call->forward)
		snprintf(buf, n, "%s, whose forward call was", backward_text(call));
	else if (call->before)
		snprintf(buf, n, "%s", call->function);
	else if (*call->name)
		snprintf(buf, n, "%s", call->name);
	else if (function && call->file)
		snprintf(buf, n, "%s (%s:%u)%s", function, path_end(call->file), call->line,
			 call->inlined ? ", inlined" : "");
	else if (function)
		snprintf(buf, n, "%s in %s", function, name);
	else if (call->python && call->file)
		snprintf(buf, n, "a function of Python (%s:%u)", path_end(call->file), call->line);
	else if (call->python)
		snprintf(buf, n, "a function of Python");
	else if (call->in_object)
		snprintf(buf, n, "%s+0x%" PRIx64, *name ? name : "?", call->place);
	else
		snprintf(buf, n, "0x%" PRIx64, call->place);
	return buf;
}

/* Show calls within the extent; a single hidden call is shown, too. */
static void part_text(struct gm_emit *emit, const struct gm_frames_call *calls, size_t n,
		      const struct extent *extent)
{
	const size_t shown = extent->inner + extent->outer, hidden = n > shown + 1 ? n - shown : 0;
	char text[4096];
	for (size_t i = 0; i < n; i++) {
		if (hidden && i == extent->inner)
			gm_emit_line(emit, "", "... %zu more of %s", hidden, extent->of);
		if (i < extent->inner || i >= extent->inner + hidden)
			gm_emit_line(emit, "", "%s",
				     gm_frames_call_text(&calls[i], text, sizeof text));
	}
}

void gm_frames_text(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number,
		    const struct gm_log_stack *stack)
{
	struct lines lines = {0};
	char text[128];
	calls_find(&lines, symbols, number);
	const struct gm_frames_call *calls = lines.calls.at;
	for (size_t from = 0, end; from < lines.calls.n; from = end + 1) {
		size_t python = from;
		end = stack_end(&lines, from);
		while (python < end && !calls[python].python)
			python++;
		part_text(emit, calls + from, python - from,
			  python < end ? &of_c_beside_python : &of_c);
		part_text(emit, calls + python, end - python, &of_python);
		if (end + 1 < lines.calls.n)
			gm_emit_line(emit, "", "%s",
				     gm_frames_call_text(&calls[end], text, sizeof text));
		else if (end < lines.calls.n)
			gm_emit_line(emit, "", "%s, whose forward call is not known",
				     backward_text(&calls[end]));
	}
	const bool forward = stack_end(&lines, 0) < lines.calls.n;
	gm_array_free(&lines.calls);
	if (stack->flags & GM_STACK_CUT)
		gm_emit_line(emit, "", "... and further ones that the log lacks");
	if (stack->flags & GM_STACK_C_ONLY && !forward)
		gm_emit_line(emit, "", "C frames only: the thread's frames of Python are unknown");
}

/* The call that stands for a stack: the innermost one of Python, else of C; NULL: none. *forward:
 * the words before the stack of a forward call that has it; NULL: none. */
static const struct gm_frames_call *place_find(const struct lines *lines,
					       const struct gm_frames_call **forward)
{
	const struct gm_frames_call *calls = lines->calls.at;
	size_t at = 0;
	*forward = NULL;
	while (at < lines->calls.n && !calls[at].python) {
		*forward = calls[at].forward ? &calls[at] : *forward;
		at++;
	}
	if (at < lines->calls.n)
		return &calls[at];
	*forward = NULL;
	return lines->calls.n ? &calls[0] : NULL;
}

static void place_text(const struct gm_frames_call *place, const struct gm_frames_call *forward,
		       char *buf, size_t n)
{
	if (!place)
		*buf = '\0';
	else if (forward && place->file)
		snprintf(buf, n, "%s at %s:%u", backward_text(forward), path_end(place->file),
			 place->line);
	else
		gm_frames_call_text(place, buf, n);
}

const char *gm_frames_place(const struct gm_symbols *symbols, uint32_t number, char *buf, size_t n)
{
	struct lines lines = {0};
	const struct gm_frames_call *forward;
	calls_find(&lines, symbols, number);
	const struct gm_frames_call *place = place_find(&lines, &forward);
	place_text(place, forward, buf, n);
	gm_array_free(&lines.calls);
	return buf;
}

/* Copy a name with its last `from` replaced. */
static void name_replace(const char *name, const char *from, const char *to, char *buf, size_t n)
{
	const char *found = NULL;
	for (const char *at = name; (at = strstr(at, from)); at++)
		found = at;
	*buf = '\0';
	if (found)
		snprintf(buf, n, "%.*s%s%s", (int)(found - name), name, to, found + strlen(from));
}

static void site_files(const struct gm_frames_call *place, struct gm_frames_site *out)
{
	char from[GM_FRAMES_SITE], file[GM_FRAMES_SITE];
	const char *slash = strrchr(place->file, '/'), *base = slash ? slash + 1 : place->file;
	snprintf(from, sizeof from, "%s:%u", path_end(place->file), place->line);
	snprintf(file, sizeof file, "%s:%u", base, place->line);
	name_replace(out->name, from, file, out->file, sizeof out->file);
	name_replace(out->name, from, base, out->stem, sizeof out->stem);
}

void gm_frames_site(const struct gm_symbols *symbols, uint32_t number, struct gm_frames_site *out)
{
	struct lines lines = {0};
	const struct gm_frames_call *forward;
	calls_find(&lines, symbols, number);
	const struct gm_frames_call *place = place_find(&lines, &forward);
	*out = (struct gm_frames_site){.line = place ? place->line : 0};
	if (place && !place->python && !place->in_object && !place->function && !place->forward)
		snprintf(out->name, sizeof out->name, "code in no file");
	else
		place_text(place, forward, out->name, sizeof out->name);
	if (place && place->file && place->line)
		site_files(place, out);
	gm_array_free(&lines.calls);
}
