/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/stack.h"

#include <errno.h>

#include "base/lock.h"
#include "stack/held.h"
#include "stack/objects.h"
#include "stack/python.h"
#include "stack/table.h"
#include "stack/unwind.h"

enum { HALF = GM_FRAMES_MOST / 2 }; /* most frames of C, and of Python */

size_t gm_stack_least = SIZE_MAX;

static const void *own_object;
static GM_TLS bool capturing;

bool gm_stack_open(size_t least, const void *own)
{
	gm_stack_least = least;
	own_object = own;
	return gm_unwind_open();
}

/* Append the C frames, the innermost ones, and then those of Python. */
static void trace_fill(struct gm_trace *trace, unsigned *guard)
{
	uintptr_t addresses[HALF];
	struct gm_span own = {0}, end = {0};
	struct gm_frame python[HALF];
	uint32_t n_python;
	bool cut, cut_python;
	gm_objects_refresh();
	gm_python_find();
	enum gm_python_state state = gm_python_frames(python, HALF, guard, &n_python, &cut_python);
	if (n_python)
		end = gm_python_span();
	if (own_object)
		gm_objects_range(own_object, &own.low, &own.high);
	trace->n = gm_unwind(addresses, HALF, own, end, &cut);
	gm_objects_place(addresses, trace->n, trace->frames);
	for (uint32_t i = 0; i < n_python; i++)
		trace->frames[trace->n++] = python[i];
	trace->flags = (cut || cut_python ? GM_STACK_CUT : 0) |
		       (state == GM_PYTHON_ELSEWHERE ? GM_STACK_C_ONLY : 0);
}

uint32_t gm_stack_capture(unsigned *guard)
{
	struct gm_trace trace;
	uint32_t number;
	int saved = errno;
	if (capturing)
		return 0;
	capturing = true;
	trace_fill(&trace, guard);
	number = gm_table_number(&trace);
	gm_table_write(number);
	capturing = false;
	errno = saved;
	return number;
}

void gm_stack_forget(void)
{
	gm_stack_least = SIZE_MAX;
	gm_objects_forget();
	gm_table_forget();
	gm_held_forget();
	gm_python_forget();
	capturing = false;
}
