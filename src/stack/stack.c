/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/stack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/thread.h"
#include "log/count.h"
#include "stack/held.h"
#include "stack/objects.h"
#include "stack/python.h"
#include "stack/recent.h"
#include "stack/table.h"
#include "stack/unwind.h"

enum { HALF = GM_FRAMES_MOST / 2 }; /* most frames of C, and of Python */
_Static_assert((int)HALF <= (int)GM_UNWIND_MOST, "as many are unwound");

_Atomic size_t gm_stack_least = SIZE_MAX;

static const void *own_object;
static bool opened;
static GM_TLS bool capturing;

bool gm_stack_open(size_t least, const void *own)
{
	if (!opened) {
		own_object = own;
		gm_recent_open();
		opened = true;
	}
	const bool unwinds = gm_cfi_open();
	atomic_store_explicit(&gm_stack_least, least, memory_order_release);
	return unwinds;
}

void gm_stack_close(void)
{
	atomic_store(&gm_stack_least, SIZE_MAX);
	gm_held_clear();
}

/* Memory of a capture. The program's stack may be small: a coroutine's, or a signal handler's. */
struct capture {
	struct gm_trace trace;
	struct gm_frame python[HALF];
	struct gm_unwound unwound;
	struct gm_released_memory memory;
};

enum { SPARES = 16 };
static _Atomic(struct capture *) spares[SPARES];

static _Atomic(struct capture *) *spare_of(void)
{
	return &spares[gm_thread_index() % SPARES];
}

static struct capture *capture_take(void)
{
	struct capture *capture = atomic_exchange(spare_of(), NULL);
	return capture ? capture : calloc(1, sizeof *capture);
}

static void capture_give(struct capture *capture)
{
	free(atomic_exchange(spare_of(), capture));
}

/* The C frames outside our own object, from the cache, or else by a walk. Returns the
 * serial of cached frames; 0: none. */
static uint64_t frames_find(struct capture *capture, struct gm_stack_from from, struct gm_span end,
			    bool *cut)
{
	struct gm_trace *trace = &capture->trace;
	struct gm_unwound *unwound = &capture->unwound;
	struct gm_span own = {0};
	const struct gm_recent_key key = {from, end.low, gm_objects_generation()};
	uint64_t serial;
	if (gm_recent_find(&key, trace->frames, &trace->n, cut, &serial))
		return serial;
	if (own_object)
		gm_objects_range(own_object, &own.low, &own.high);
	gm_unwind(unwound, HALF, own, end);
	gm_objects_place(unwound->addresses, unwound->n, trace->frames);
	gm_recent_keep(&key, unwound, trace->frames);
	trace->n = unwound->n;
	*cut = unwound->cut;
	return 0;
}

/* How a stack is taken. */
struct manner {
	unsigned *guard; /* NULL: the interpreter is not called */
	struct gm_stack_from from;
	uint32_t forward;
	bool python_only;
};

static void frame_add(struct gm_trace *trace, struct gm_frame frame)
{
	if (trace->n < GM_FRAMES_MOST)
		trace->frames[trace->n++] = frame;
}

/* Fill in the C frames, those of Python, then the forward call. */
static struct gm_table_hint trace_fill(struct capture *capture, const struct manner *manner)
{
	struct gm_trace *trace = &capture->trace;
	struct gm_frame *python = capture->python;
	struct gm_span end = {0};
	struct gm_table_hint hint = {0};
	uint32_t n_python;
	bool cut = false, cut_python;
	gm_objects_refresh();
	gm_python_find();
	trace->n = 0;
	enum gm_python_state state = gm_python_frames(&capture->memory, python, HALF, manner->guard,
						      &n_python, &cut_python);
	if (n_python)
		end = gm_python_span();
	if (!manner->python_only) {
		hint.serial = frames_find(capture, manner->from, end, &cut);
		hint.n = trace->n;
	}
	for (uint32_t i = 0; i < n_python; i++)
		frame_add(trace, python[i]);
	if (manner->forward)
		frame_add(trace,
			  (struct gm_frame){.object = GM_FRAME_FORWARD, .place = manner->forward});
	trace->flags = (cut || cut_python ? GM_STACK_CUT : 0) |
		       (state == GM_PYTHON_ELSEWHERE ? GM_STACK_C_ONLY : 0);
	return hint;
}

/* 0: no host memory, or no room for another stack. */
static uint32_t stack_number(const struct manner *manner)
{
	struct capture *capture = capture_take();
	if (!capture) {
		gm_counter_add(0, GM_C_stacks_lost, 1);
		return 0;
	}
	const struct gm_table_hint hint = trace_fill(capture, manner);
	const bool nothing = manner->python_only && !capture->trace.n;
	const uint32_t number = nothing ? 0 : gm_table_put(&capture->trace, hint);
	capture_give(capture);
	return number;
}

static uint32_t capture_guarded(const struct manner *manner)
{
	int saved = errno;
	if (capturing)
		return 0;
	capturing = true;
	const uint32_t number = stack_number(manner);
	capturing = false;
	errno = saved;
	return number;
}

uint32_t gm_stack_capture(unsigned *guard, struct gm_stack_from from)
{
	return capture_guarded(&(struct manner){.guard = guard, .from = from});
}

uint32_t gm_stack_capture_locked(struct gm_stack_from from, uint32_t forward)
{
	return capture_guarded(&(struct manner){.from = from, .forward = forward});
}

uint32_t gm_stack_capture_python(void)
{
	return capture_guarded(&(struct manner){.python_only = true});
}

void gm_stack_forget(void)
{
	gm_stack_least = SIZE_MAX;
	gm_recent_forget();
	gm_objects_forget();
	gm_table_forget();
	gm_held_forget();
	gm_python_forget();
	for (unsigned i = 0; i < SPARES; i++) /* their frames have the parent's string numbers */
		free(atomic_exchange(&spares[i], NULL));
	opened = capturing = false;
}
