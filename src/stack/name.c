/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/name.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "log/strings.h"
#include "stack/objects.h"
#include "stack/table.h"

/* The text of a string, behind its last slash; "?" if it was not kept. */
static const char *base_of(uint32_t string)
{
	size_t length;
	const char *text = gm_strings_text(string, &length);
	const char *slash = text ? strrchr(text, '/') : NULL;
	return slash ? slash + 1 : text ? text : "?";
}

static const char *object_name(const struct gm_frame *frame)
{
	return base_of(gm_objects_path(frame->object));
}

/* These frames are in the stack of every allocation. */
static bool frame_is_of_cuda(const struct gm_frame *frame)
{
	static const char *const names[] = {"libcudart.", "libcuda."};
	const char *name = object_name(frame);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

/* C frames are first, then those of Python, or the stack of a forward call, which ends in none. */
static const struct gm_frame *frame_choose(const struct gm_frame *frames, uint32_t n)
{
	const struct gm_frame *found = NULL;
	if (n && frames[n - 1].object == GM_FRAME_FORWARD) {
		uint32_t n_forward;
		const struct gm_frame *forward =
			gm_table_frames((uint32_t)frames[n - 1].place, &n_forward);
		if (forward)
			return frame_choose(forward, n_forward);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (frames[i].object == GM_FRAME_PYTHON)
			return &frames[i];
		if (!found && !frame_is_of_cuda(&frames[i]))
			found = &frames[i];
	}
	return found ? found : frames;
}

char *gm_stack_name(uint32_t number, char *buf, size_t n)
{
	uint32_t n_frames;
	const struct gm_frame *frames = gm_table_frames(number, &n_frames);
	*buf = '\0';
	if (!frames || !n_frames)
		return buf;
	const char *of = frames[n_frames - 1].object == GM_FRAME_FORWARD ? "backward of " : "";
	const struct gm_frame *f = frame_choose(frames, n_frames);
	if (f->object == GM_FRAME_PYTHON)
		snprintf(buf, n, "%s%s (%s:%u)", of, base_of((uint32_t)(f->place >> 32)),
			 base_of((uint32_t)f->place), f->line);
	else
		snprintf(buf, n, "%s%s0x%llx", f->object ? object_name(f) : "",
			 f->object ? "+" : "", (unsigned long long)f->place);
	return buf;
}
