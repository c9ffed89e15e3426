/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/selfcheck.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/sys.h"
#include "base/thread.h"
#include "log/log.h"
#include "stack/public.h"
#include "stack/pyapi.h"
#include "stack/released.h"

/* TOO_LITTLE: what could be compared is equal, and more is wanted. */
enum verdict { DIFFERENT, TOO_LITTLE, EQUAL };

enum { MOST = 64, NO_ARGUMENTS = 4, LONGEST_PAUSE = 1000 /* ms */ };

struct comparison {
	struct gm_released_memory memory;
	struct gm_frame called[MOST], read[MOST];
};

/* --- texts --- */

/* ASCII, and one, two and four bytes a character. */
static bool texts_are_equal(struct comparison *c)
{
	static const char *const texts[] = {"layout", "\xc3\xa9t\xc3\xa9", "\xe5\x87\xbd",
					    "\xf0\xa0\x80\x80"};
	bool equal = true;
	for (size_t i = 0; equal && i < sizeof texts / sizeof *texts; i++) {
		void *text = gm_python.PyUnicode_FromString(texts[i]);
		uint64_t number;
		if (!text)
			return false;
		equal = gm_released_text(&c->memory, text, &number) &&
			number == gm_log_string(texts[i]);
		gm_python.Py_DecRef(text);
	}
	return equal;
}

/* --- frames --- */

/* A text has the number 0 if it has no UTF-8, or if it cannot be read. */
static bool number_is(uint64_t called, uint64_t read)
{
	return !called || !read || called == read;
}

static bool frame_is(const struct gm_frame *called, const struct gm_frame *read)
{
	return called->line == read->line && number_is(called->place >> 32, read->place >> 32) &&
	       number_is(called->place & UINT32_MAX, read->place & UINT32_MAX);
}

/* Two frames show that a caller is found. */
static enum verdict thread_compare(struct comparison *c, void *state)
{
	bool called_cut, read_cut;
	unsigned guard = 1;
	uint32_t n;
	const uint32_t n_called = gm_public_frames(state, c->called, MOST, &guard, &called_cut);
	if (!gm_released_thread_frames(&c->memory, state, c->read, MOST, &n, &read_cut) ||
	    n != n_called || read_cut != called_cut)
		return DIFFERENT;
	for (uint32_t i = 0; i < n; i++)
		if (!frame_is(&c->called[i], &c->read[i]))
			return DIFFERENT;
	return n >= 2 ? EQUAL : TOO_LITTLE;
}

static enum verdict threads_compare(struct comparison *c)
{
	enum verdict all = TOO_LITTLE;
	void *state = gm_python.PyInterpreterState_ThreadHead(gm_python.PyInterpreterState_Main());
	for (; state; state = gm_python.PyThreadState_Next(state)) {
		const enum verdict one = thread_compare(c, state);
		if (one == DIFFERENT)
			return one;
		if (one == EQUAL)
			all = one;
	}
	return all;
}

/* To 3.11 an allocation of the interpreter may begin a garbage collection, and finalizers of the
 * program would run here; 3.9 has no call to prevent that. */
static enum verdict compare(void)
{
	struct comparison *c = gm_released_is_alone() ? calloc(1, sizeof *c) : NULL;
	if (!c)
		return TOO_LITTLE;
	const bool collects = gm_python.PyGC_Disable && gm_python.PyGC_Disable();
	const enum verdict verdict = texts_are_equal(c) ? threads_compare(c) : DIFFERENT;
	if (collects)
		gm_python.PyGC_Enable();
	free(c);
	return verdict;
}

/* --- the interpreter's end --- */

struct method {
	const char *name;
	void *(*call)(void *self, void *arguments);
	int flags;
	const char *doc;
};

/* A function of the module atexit: it runs before the states of other threads are freed. */
static void *close_call(void *self, void *arguments)
{
	(void)self, (void)arguments;
	gm_released_close();
	gm_python.Py_IncRef(gm_python._Py_NoneStruct);
	return gm_python._Py_NoneStruct;
}

static struct method close_method = {"gpumem_close", close_call, NO_ARGUMENTS, NULL};

/* Give back what is not NULL. */
static void give_back(void *object)
{
	if (object)
		gm_python.Py_DecRef(object);
}

static bool at_exit(void)
{
	void *call = gm_python.PyCFunction_NewEx(&close_method, NULL, NULL);
	void *module =
		call ? gm_python.PyImport_ImportModuleLevel("atexit", NULL, NULL, NULL, 0) : NULL;
	void *result = module ? gm_python.PyObject_CallMethod(module, "register", "O", call) : NULL;
	const bool done = result;
	give_back(result);
	give_back(module);
	give_back(call);
	return done;
}

/* --- the thread --- */

/* pre: the thread holds the interpreter's lock. */
static void try_once(void)
{
	const enum verdict verdict = compare();
	if (verdict == DIFFERENT || (verdict == EQUAL && at_exit()))
		gm_released_decide(verdict == EQUAL);
	gm_python.PyErr_Clear();
}

static bool may_stay(void)
{
	return gm_released_state() == GM_RELEASED_WAITING && gm_python.Py_IsInitialized() &&
	       !(gm_thread_keeps_process() && gm_thread_is_last());
}

/* A thread that asks for the lock of an interpreter that ends is ended, or never returns. */
static void check_body(void *unused)
{
	(void)unused;
	for (unsigned pause = 1; may_stay(); pause = pause < LONGEST_PAUSE ? 2 * pause : pause) {
		const int held = gm_python.PyGILState_Ensure();
		try_once();
		gm_python.PyGILState_Release(held);
		if (gm_released_state() == GM_RELEASED_WAITING)
			gm_sys_nap(pause * UINT64_C(1000000));
	}
}

bool gm_selfcheck_start(void)
{
	static struct gm_thread_start start;
	return gm_thread_start(&start, check_body, NULL) == 0;
}
