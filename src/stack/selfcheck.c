/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/selfcheck.h"

#include <stddef.h>
#include <stdlib.h>

#include "stack/public.h"
#include "stack/pyapi.h"
#include "stack/released.h"

/* Several lines, so that no frame has the line of its code object. */
static const char program[] = "class A:\n"
			      "\n"
			      "\tdef m\xc3\xa9thode(self):\n"
			      "\t\tdef values():\n"
			      "\t\t\tyield 0\n"
			      "\t\t\tyield (\n"
			      "\t\t\t\tcompare())\n"
			      "\n"
			      "\t\treturn list(values())\n"
			      "\n"
			      "\n"
			      "sorted([0], key=lambda _: A().m\xc3\xa9thode())\n";
enum { OWN_FRAMES = 4, MOST = 64, FILE_INPUT = 257, NO_ARGUMENTS = 4 };

struct method {
	const char *name;
	void *(*call)(void *self, void *arguments);
	int flags;
	const char *doc;
};

static bool equal;

static void *none(void)
{
	gm_python.Py_IncRef(gm_python._Py_NoneStruct);
	return gm_python._Py_NoneStruct;
}

/* A text has the number 0 if the interpreter could not make UTF-8 of it. */
static bool frame_is(const struct gm_frame *public, const struct gm_frame *read)
{
	const uint64_t function = public->place >> 32, file = public->place & UINT32_MAX;
	return public->line == read->line && (!function || function == read->place >> 32) &&
	       (!file || file == (read->place & UINT32_MAX));
}

static bool stacks_are_equal(struct gm_released_memory *memory)
{
	struct gm_frame public[MOST], read[MOST];
	bool public_cut, read_cut;
	unsigned guard = 1;
	uint32_t n;
	if (!gm_released_frames(memory, read, MOST, &n, &read_cut) || n < OWN_FRAMES)
		return false;
	if (gm_public_frames(gm_python.PyGILState_GetThisThreadState(), public, MOST, &guard,
			     &public_cut) != n ||
	    public_cut != read_cut)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!frame_is(&public[i], &read[i]))
			return false;
	return true;
}

/* compare() of the program */
static void *compare_call(void *self, void *arguments)
{
	struct gm_released_memory *memory = calloc(1, sizeof *memory);
	(void)self, (void)arguments;
	equal = memory && stacks_are_equal(memory);
	free(memory);
	return none();
}

/* A function of the module atexit: it runs before the states of other threads are freed. */
static void *close_call(void *self, void *arguments)
{
	(void)self, (void)arguments;
	gm_released_close();
	return none();
}

static struct method compare_method = {"compare", compare_call, NO_ARGUMENTS, NULL};
static struct method close_method = {"gpumem_close", close_call, NO_ARGUMENTS, NULL};

/* Gives back what is not NULL. */
static void give_back(void *object)
{
	if (object)
		gm_python.Py_DecRef(object);
}

static bool at_exit(void)
{
	void *call = gm_python.PyCFunction_NewEx(&close_method, NULL, NULL);
	void *module = call ? gm_python.PyImport_ImportModule("atexit") : NULL;
	void *result = module ? gm_python.PyObject_CallMethod(module, "register", "O", call) : NULL;
	const bool done = result;
	give_back(result);
	give_back(module);
	give_back(call);
	return done;
}

static bool program_run(void)
{
	void *globals = gm_python.PyDict_New();
	void *call = gm_python.PyCFunction_NewEx(&compare_method, NULL, NULL);
	void *builtins = gm_python.PyEval_GetBuiltins();
	void *code = gm_python.Py_CompileString(program, "<gpumem>", FILE_INPUT);
	void *result = NULL;
	if (globals && call && builtins && code &&
	    !gm_python.PyDict_SetItemString(globals, "compare", call) &&
	    !gm_python.PyDict_SetItemString(globals, "__builtins__", builtins))
		result = gm_python.PyEval_EvalCode(code, globals, globals);
	const bool done = result;
	give_back(result);
	give_back(code);
	give_back(call);
	give_back(globals);
	return done;
}

/* A pending call: the main thread runs it between two instructions, and holds the lock. */
static int check_call(void *unused)
{
	void *state = gm_python.PyGILState_GetThisThreadState();
	const bool traced =
		gm_python.PyThreadState_EnterTracing && gm_python.PyThreadState_LeaveTracing;
	(void)unused;
	if (gm_released_state() != GM_RELEASED_WAITING)
		return 0;
	equal = false;
	if (traced) /* a debugger or a coverage tool does not see the program */
		gm_python.PyThreadState_EnterTracing(state);
	const bool good = program_run() && equal && at_exit();
	if (traced)
		gm_python.PyThreadState_LeaveTracing(state);
	gm_python.PyErr_Clear();
	gm_released_decide(good);
	return 0;
}

bool gm_selfcheck_start(void)
{
	return gm_python.Py_AddPendingCall(check_call, NULL) == 0;
}
