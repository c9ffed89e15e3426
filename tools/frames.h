/* SPDX-License-Identifier: BSD-3-Clause */
/* Call stacks for people and as JSON. Single-threaded. */
#ifndef GM_TOOLS_FRAMES_H
#define GM_TOOLS_FRAMES_H

#include "emit.h"
#include "symbols.h"

/* Ask for the symbols of a stack's frames. `number`: 0 or any other that the log may have. */
void gm_frames_want(struct gm_symbols *symbols, uint32_t number);

/* Lines of text: some frames of C, then of Python, the innermost first. JSON: the list "frames" of
 * all, and "stack", "cut" and "c_only". */
void gm_frames_show(struct gm_emit *emit, const struct gm_symbols *symbols, uint32_t number);

/* One line for each file whose symbols are missing; JSON: the list "objects". */
void gm_frames_show_objects(struct gm_emit *emit, const struct gm_symbols *symbols);

#endif
