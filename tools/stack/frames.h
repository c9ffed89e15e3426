/* SPDX-License-Identifier: BSD-3-Clause */
/* Call stacks for people and as JSON. Single-threaded. */
#ifndef GM_TOOLS_STACK_FRAMES_H
#define GM_TOOLS_STACK_FRAMES_H

#include "tools/output/emit.h"
#include "tools/stack/symbols.h"

/* Ask for the symbols of a stack's frames. `number`: 0 or any other that the log may have. */
void gm_frames_want(struct gm_symbols *symbols, uint32_t number);

/* A function of a frame; a frame has several where functions are inlined. */
struct gm_frames_call {
	const char *function, *file; /* NULL: not known */
	const char *object;	     /* path of the ELF file; "": none, or not known */
	uint64_t place;		     /* in the object */
	unsigned line;
	bool python, inlined;
};

/* Call `each` with the calls of a stack, the innermost first. The log may lack the stack: then
 * never. */
void gm_frames_each(const struct gm_symbols *symbols, uint32_t number,
		    void (*each)(void *arg, const struct gm_frames_call *call), void *arg);

/* The number of functions of a frame, 1 or more, and the i-th of them, the innermost first. */
size_t gm_frames_calls(const struct gm_symbols *symbols, const struct gm_frame *frame);
struct gm_frames_call gm_frames_call(const struct gm_symbols *symbols, const struct gm_frame *frame,
				     size_t i);

/* Lines of text: some frames of C, then of Python, the innermost first. JSON: the list "frames" of
 * all, and "stack", "cut" and "c_only". */
void gm_frames_show(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number);

/* One line for each file whose symbols are missing; JSON: the list "objects". */
void gm_frames_show_objects(struct gm_emit *emit, const struct gm_symbols *symbols);

#endif
