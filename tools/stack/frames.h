/* SPDX-License-Identifier: BSD-3-Clause */
/* Call stacks as text and as JSON. Single-threaded. */
#ifndef GM_TOOLS_STACK_FRAMES_H
#define GM_TOOLS_STACK_FRAMES_H

#include "tools/output/emit.h"
#include "tools/stack/symbols.h"

/* Request the symbols of a stack's frames. `number`: any number of a log, 0 included. */
void gm_frames_want(struct gm_symbols *symbols, uint32_t number);

/* A function of a frame; a frame with inlined functions has several. */
struct gm_frames_call {
	const char *function, *file; /* NULL: not known */
	const char *object;	     /* path of the ELF file; "": none, or unknown */
	uint64_t place;		     /* in the object */
	unsigned line;
	bool python, inlined;
};

/* Call `each` with the calls of a stack, the innermost first; never, if the log lacks the stack. */
void gm_frames_each(const struct gm_symbols *symbols, uint32_t number,
		    void (*each)(void *arg, const struct gm_frames_call *call), void *arg);

/* _calls: the number of functions of a frame, at least 1. _call: function i, the innermost first.
 */
size_t gm_frames_calls(const struct gm_symbols *symbols, const struct gm_frame *frame);
struct gm_frames_call gm_frames_call(const struct gm_symbols *symbols, const struct gm_frame *frame,
				     size_t i);

/* Text: some frames of C up to main, then of Python, the innermost first. JSON: the list "frames"
 * with all frames, and "stack", "cut" and "c_only". */
void gm_frames_show(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number);

/* short_name.c: a name of C++ without parameters, template arguments and return type, cut to the
 * size of `buf`. Returns buf. */
const char *gm_frames_short_name(const char *name, char *buf, size_t n);

/* One line for each file with missing symbols; JSON: the list "objects". */
void gm_frames_show_objects(struct gm_emit *emit, const struct gm_symbols *symbols);

#endif
