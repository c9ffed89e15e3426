/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/python.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "knob/knob.h"
#include "log/log.h"
#include "stack/objects.h"
#include "stack/released.h"

enum { CACHE = 4096 };

static struct {
#define GM_PYTHON(needed, result, name, parameters) __typeof__(result)(*name) parameters;
#include "stack/python.def"
#undef GM_PYTHON
} api;

static struct gm_span span;
enum search { UNKNOWN, SEARCHING, FOUND };
static _Atomic enum search state;
static _Atomic uint64_t searched; /* gm_objects_generation of the last search */

struct cached {
	const void *code;
	void *reference; /* our weak reference to the code object */
	int lasti;
	struct gm_frame frame;
};
static struct cached *cache; /* CACHE entries; NULL: not made, or unusable */
static bool cache_refused;

/* --- the interpreter --- */

/* Finds no interpreter in another namespace, such as a debugger's. */
static bool api_fill(void)
{
	static const struct {
		const char *name;
		bool needed;
		void **at;
	} calls[] = {
#define GM_PYTHON(needed, result, name, parameters) {#name, needed, (void **)(void *)&api.name},
#include "stack/python.def"
#undef GM_PYTHON
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		*calls[i].at = dlsym(RTLD_DEFAULT, calls[i].name);
		if (!*calls[i].at)
			dlerror();
		if (!*calls[i].at && calls[i].needed)
			return false;
	}
	if (!api.PyThreadState_GetUnchecked)
		api.PyThreadState_GetUnchecked = api._PyThreadState_UncheckedGet;
	return api.PyThreadState_GetUnchecked != NULL;
}

void gm_python_find(void)
{
	uint64_t generation = gm_objects_generation();
	enum search expected = UNKNOWN;
	if (atomic_load_explicit(&state, memory_order_acquire) == FOUND ||
	    atomic_load_explicit(&searched, memory_order_relaxed) == generation ||
	    !atomic_compare_exchange_strong(&state, &expected, SEARCHING))
		return;
	bool found = api_fill();
	if (found) {
		gm_objects_range((void *)api.PyThreadState_GetFrame, &span.low, &span.high);
		gm_released_find(gm_knob_get()->stacks.choice != GM_STACKS_HELD);
	}
	atomic_store_explicit(&searched, generation, memory_order_relaxed);
	atomic_store_explicit(&state, found ? FOUND : UNKNOWN, memory_order_release);
}

struct gm_span gm_python_span(void)
{
	return span;
}

/* --- the cache --- */

/* Called as the interpreter ends, which ends its objects. */
static void cache_drop(void)
{
	free(cache);
	cache = NULL;
}

/* A build without the global lock has no guard for the cache. */
static bool cache_is_allowed(void)
{
	return !api._Py_MergeZeroLocalRefcount && api.PyWeakref_NewRef &&
	       (api.PyWeakref_GetRef || api.PyWeakref_GetObject) && api.PyInterpreterState_Get &&
	       api.PyInterpreterState_Main && api.Py_AtExit;
}

/* May this thread use the cache? The first call makes it. pre: the thread holds the interpreter. */
static bool cache_ready(void)
{
	if (!api.PyInterpreterState_Get || !api.PyInterpreterState_Main ||
	    api.PyInterpreterState_Get() != api.PyInterpreterState_Main() || cache_refused)
		return false;
	if (cache)
		return true;
	cache = cache_is_allowed() ? calloc(CACHE, sizeof *cache) : NULL;
	if (cache && api.Py_AtExit(cache_drop) != 0)
		cache_drop();
	cache_refused = !cache;
	return cache;
}

static struct cached *cache_entry(const void *code, int lasti)
{
	uint64_t key = (uintptr_t)code / 16 + (unsigned)lasti;
	return &cache[(key * 0x9e3779b97f4a7c15u) >> 52];
}
_Static_assert(CACHE == 1 << 12, "twelve bits of the hash");

/* No call here lets another thread run. */
static bool cached_is(const struct cached *entry, void *code, int lasti)
{
	void *object = NULL;
	if (entry->code != code || entry->lasti != lasti)
		return false;
	if (!api.PyWeakref_GetRef)
		return api.PyWeakref_GetObject(entry->reference) == code;
	if (api.PyWeakref_GetRef(entry->reference, &object) == 1)
		api.Py_DecRef(object); /* not the last reference: the frame has one */
	return object == code;
}

/* PyWeakref_NewRef may let other threads run, which use the cache; the later calls do not. */
static void cache_put(const void *code, int lasti, const struct gm_frame *frame)
{
	void *reference = api.PyWeakref_NewRef((void *)code, NULL);
	if (!reference) {
		api.PyErr_Clear();
		return;
	}
	void *old = reference;
	if (cache) {
		struct cached *entry = cache_entry(code, lasti);
		old = entry->reference;
		*entry = (struct cached){code, reference, lasti, *frame};
	}
	if (old)
		api.Py_DecRef(old);
}

/* --- frames --- */

/* The string number of an attribute's text. The guard is up during the write to the log. */
static uint32_t attribute_number(void *code, const char *name, unsigned *guard)
{
	uint32_t number = 0;
	void *value = api.PyObject_GetAttrString(code, name);
	const char *text = value ? api.PyUnicode_AsUTF8(value) : NULL;
	if (text) {
		*guard = 1;
		number = gm_log_string(text);
		*guard = 0;
	} else {
		api.PyErr_Clear();
	}
	if (value)
		api.Py_DecRef(value);
	return number;
}

static struct gm_frame frame_read(void *frame, void *code, unsigned *guard)
{
	int line = api.PyFrame_GetLineNumber(frame);
	uint64_t file = attribute_number(code, "co_filename", guard);
	uint64_t function = attribute_number(code, "co_qualname", guard); /* 3.11 */
	if (!function)
		function = attribute_number(code, "co_name", guard);
	return (struct gm_frame){.object = GM_FRAME_PYTHON,
				 .line = line > 0 ? (uint32_t)line : 0,
				 .place = function << 32 | file};
}

/* `code` belongs to the frame. */
static struct gm_frame frame_find(void *frame, void *code, unsigned *guard)
{
	if (!cache_ready())
		return frame_read(frame, code, guard);
	int lasti = api.PyFrame_GetLasti ? api.PyFrame_GetLasti(frame)
					 : api.PyFrame_GetLineNumber(frame);
	const struct cached *entry = cache_entry(code, lasti);
	if (cached_is(entry, code, lasti))
		return entry->frame;
	struct gm_frame result = frame_read(frame, code, guard);
	if (cache_ready()) /* a finalizer could end the interpreter */
		cache_put(code, lasti, &result);
	return result;
}

/* pre: this thread holds the interpreter, and the guard is down. */
static uint32_t frames_walk(void *state_of_thread, struct gm_frame *out, uint32_t most,
			    unsigned *guard, bool *cut)
{
	uint32_t n = 0;
	void *frame = api.PyThreadState_GetFrame(state_of_thread);
	while (frame && n < most) {
		void *code = api.PyFrame_GetCode(frame);
		out[n++] = frame_find(frame, code, guard);
		void *back = api.PyFrame_GetBack(frame);
		api.Py_DecRef(code);
		api.Py_DecRef(frame);
		frame = back;
	}
	*cut = frame;
	if (frame)
		api.Py_DecRef(frame);
	return n;
}

enum gm_python_state gm_python_frames(struct gm_frame *out, uint32_t most, unsigned *guard,
				      uint32_t *n, bool *cut)
{
	void *type, *value, *trace; /* preserves a pending exception */
	*n = 0;
	*cut = false;
	if (atomic_load_explicit(&state, memory_order_acquire) != FOUND || !api.Py_IsInitialized())
		return GM_PYTHON_NONE;
	void *mine = api.PyGILState_GetThisThreadState();
	if (!mine || !guard || mine != api.PyThreadState_GetUnchecked()) {
		*n = mine ? gm_released_frames(mine, out, most, cut) : 0;
		return *n ? GM_PYTHON_HERE : GM_PYTHON_ELSEWHERE;
	}
	*guard = 0;
	api.PyErr_Fetch(&type, &value, &trace);
	*n = frames_walk(mine, out, most, guard, cut);
	api.PyErr_Restore(type, value, trace);
	*guard = 1;
	return GM_PYTHON_HERE;
}

/* Leaks the references: this thread may not hold the interpreter. */
void gm_python_forget(void)
{
	cache = NULL;
	gm_released_forget();
	atomic_store(&searched, 0);
	if (atomic_load(&state) == SEARCHING)
		atomic_store(&state, UNKNOWN);
}
