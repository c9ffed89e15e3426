/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/python.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/debug.h"
#include "base/msg.h"
#include "knob/knob.h"
#include "stack/objects.h"
#include "stack/public.h"
#include "stack/pyapi.h"
#include "stack/selfcheck.h"

static struct gm_span span;
enum search { UNKNOWN, SEARCHING, FOUND };
static _Atomic enum search state;
static _Atomic uint64_t searched; /* gm_objects_generation of the last search */
static atomic_bool preparing;

/* Prepare to read frames from memory. */
static void released_prepare(void)
{
	if (gm_released_state() != GM_RELEASED_UNKNOWN)
		return;
	const bool allowed = gm_knob_get()->stacks.choice != GM_STACKS_HELD;
	const char *why = gm_released_find(allowed);
	if (!why && allowed && !gm_selfcheck_start())
		gm_released_decide(false);
	if (why)
		gm_msg(GM_MSG_WARN,
		       "stacks: threads that released Python's lock have C frames only: %s", why);
}

static void interpreter_search(void)
{
	uint64_t generation = gm_objects_generation();
	enum search expected = UNKNOWN;
	if (atomic_load_explicit(&searched, memory_order_relaxed) == generation ||
	    !atomic_compare_exchange_strong(&state, &expected, SEARCHING))
		return;
	bool found = gm_python_search();
	if (found)
		gm_objects_range((void *)gm_python.PyThreadState_GetFrame, &span.low, &span.high);
	atomic_store_explicit(&searched, generation, memory_order_relaxed);
	atomic_store_explicit(&state, found ? FOUND : UNKNOWN, memory_order_release);
}

void gm_python_find(void)
{
	if (atomic_load_explicit(&state, memory_order_acquire) != FOUND)
		interpreter_search();
	if (gm_released_state() == GM_RELEASED_CLOSED && !gm_python.Py_IsInitialized())
		gm_released_reopen();
	if (atomic_load_explicit(&state, memory_order_acquire) == FOUND &&
	    GM_UNLIKELY(gm_released_state() == GM_RELEASED_UNKNOWN) &&
	    gm_python.Py_IsInitialized() && !atomic_exchange(&preparing, true)) {
		released_prepare();
		atomic_store(&preparing, false);
	}
}

struct gm_span gm_python_span(void)
{
	return span;
}

enum gm_python_state gm_python_frames(struct gm_released_memory *memory, struct gm_frame *out,
				      uint32_t most, unsigned *guard, uint32_t *n, bool *cut)
{
	*n = 0;
	*cut = false;
	if (atomic_load_explicit(&state, memory_order_acquire) != FOUND ||
	    !gm_python.Py_IsInitialized())
		return GM_PYTHON_NONE;
	void *mine = gm_python.PyGILState_GetThisThreadState();
	const bool held = guard && mine && mine == gm_python.PyThreadState_GetUnchecked();
	if (!held || gm_released_state() == GM_RELEASED_READY)
		if (gm_released_frames(memory, out, most, n, cut))
			return GM_PYTHON_HERE;
	if (!held)
		return GM_PYTHON_ELSEWHERE;
	*n = gm_public_frames(mine, out, most, guard, cut);
	return GM_PYTHON_HERE;
}

void gm_python_forget(void)
{
	gm_released_forget();
	atomic_store(&searched, 0);
	atomic_store(&preparing, false);
	if (atomic_load(&state) == SEARCHING)
		atomic_store(&state, UNKNOWN);
}
