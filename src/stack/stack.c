/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/stack.h"

#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "stack/held.h"
#include "stack/objects.h"
#include "stack/python.h"
#include "stack/recent.h"
#include "stack/table.h"
#include "stack/unwind.h"

enum { HALF = GM_FRAMES_MOST / 2 }; /* most frames of C, and of Python */
_Static_assert((int)HALF <= (int)GM_UNWIND_MOST, "as many are unwound");

size_t gm_stack_least = SIZE_MAX;

static const void *own_object;
static GM_TLS bool capturing;

bool gm_stack_open(size_t least, const void *own)
{
	gm_stack_least = least;
	own_object = own;
	gm_recent_open();
	return gm_unwind_open();
}

/* The C frames outside our own object, from the cache, or else from the unwinder. Returns the
 * serial of cached frames; 0: none. */
static uint64_t frames_find(struct gm_trace *trace, struct gm_stack_from from, struct gm_span end,
			    bool *cut)
{
	struct gm_unwound unwound;
	struct gm_span own = {0};
	const struct gm_recent_key key = {from, end.low, gm_objects_generation()};
	uint64_t serial;
	if (gm_recent_find(&key, trace->frames, &trace->n, cut, &serial))
		return serial;
	if (own_object)
		gm_objects_range(own_object, &own.low, &own.high);
	gm_unwind(&unwound, HALF, own, end);
	gm_objects_place(unwound.addresses, unwound.n, trace->frames);
	gm_recent_keep(&key, &unwound, trace->frames);
	trace->n = unwound.n;
	*cut = unwound.cut;
	return 0;
}

/* Fill in the C frames, then those of Python. */
static struct gm_table_hint trace_fill(struct gm_trace *trace, unsigned *guard,
				       struct gm_stack_from from)
{
	struct gm_span end = {0};
	struct gm_frame python[HALF];
	struct gm_table_hint hint;
	uint32_t n_python;
	bool cut, cut_python;
	gm_objects_refresh();
	gm_python_find();
	enum gm_python_state state = gm_python_frames(python, HALF, guard, &n_python, &cut_python);
	if (n_python)
		end = gm_python_span();
	hint.serial = frames_find(trace, from, end, &cut);
	hint.n = trace->n;
	memcpy(trace->frames + trace->n, python, n_python * sizeof *python);
	trace->n += n_python;
	trace->flags = (cut || cut_python ? GM_STACK_CUT : 0) |
		       (state == GM_PYTHON_ELSEWHERE ? GM_STACK_C_ONLY : 0);
	return hint;
}

uint32_t gm_stack_capture(unsigned *guard, struct gm_stack_from from)
{
	struct gm_trace trace;
	uint32_t number;
	int saved = errno;
	if (capturing)
		return 0;
	capturing = true;
	const struct gm_table_hint hint = trace_fill(&trace, guard, from);
	number = gm_table_put(&trace, hint);
	capturing = false;
	errno = saved;
	return number;
}

void gm_stack_forget(void)
{
	gm_stack_least = SIZE_MAX;
	gm_recent_forget();
	gm_objects_forget();
	gm_table_forget();
	gm_held_forget();
	gm_python_forget();
	capturing = false;
}
