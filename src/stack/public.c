/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/public.h"

#include <stddef.h>

#include "log/log.h"
#include "stack/pyapi.h"

/* The string number of an attribute's text. The guard is up during the write to the log. */
static uint32_t attribute_number(void *code, const char *name, unsigned *guard)
{
	uint32_t number = 0;
	void *value = gm_python.PyObject_GetAttrString(code, name);
	const char *text = value ? gm_python.PyUnicode_AsUTF8(value) : NULL;
	if (text) {
		*guard = 1;
		number = gm_log_string(text);
		*guard = 0;
	} else {
		gm_python.PyErr_Clear();
	}
	if (value)
		gm_python.Py_DecRef(value);
	return number;
}

static struct gm_frame frame_read(void *frame, void *code, unsigned *guard)
{
	int line = gm_python.PyFrame_GetLineNumber(frame);
	uint64_t file = attribute_number(code, "co_filename", guard);
	uint64_t function = attribute_number(code, "co_qualname", guard); /* 3.11 */
	if (!function)
		function = attribute_number(code, "co_name", guard);
	return (struct gm_frame){.object = GM_FRAME_PYTHON,
				 .line = line > 0 ? (uint32_t)line : 0,
				 .place = function << 32 | file};
}

static uint32_t frames_walk(void *state, struct gm_frame *out, uint32_t most, unsigned *guard,
			    bool *cut)
{
	uint32_t n = 0;
	void *frame = gm_python.PyThreadState_GetFrame(state);
	while (frame && n < most) {
		void *code = gm_python.PyFrame_GetCode(frame);
		out[n++] = frame_read(frame, code, guard);
		void *back = gm_python.PyFrame_GetBack(frame);
		gm_python.Py_DecRef(code);
		gm_python.Py_DecRef(frame);
		frame = back;
	}
	*cut = frame;
	if (frame)
		gm_python.Py_DecRef(frame);
	return n;
}

uint32_t gm_public_frames(void *state, struct gm_frame *out, uint32_t most, unsigned *guard,
			  bool *cut)
{
	void *type, *value, *trace;
	*guard = 0;
	gm_python.PyErr_Fetch(&type, &value, &trace);
	const uint32_t n = frames_walk(state, out, most, guard, cut);
	gm_python.PyErr_Restore(type, value, trace);
	*guard = 1;
	return n;
}
