/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where CPython keeps a thread's frames: offsets in bytes, in 64-bit builds with the lock, of each
 * release from 3.9 on. Source: the headers of each release, compiled. Those of code objects are
 * found in the type's own table of members.
 */
#ifndef GM_STACK_LAYOUT_H
#define GM_STACK_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "stack/lines.h"

enum { GM_LAYOUT_NONE = -1 };

/* Offsets in all releases: in an object; in a text or a row of bytes. */
enum {
	GM_LAYOUT_TYPE = 8,
	GM_LAYOUT_LENGTH = 16,
	GM_LAYOUT_HASH = 24,
	GM_LAYOUT_TEXT_STATE = 32,
	GM_LAYOUT_BYTES = 32
};

/* GM_LAYOUT_NONE: there is no such member. */
struct gm_layout {
	unsigned version; /* as Py_Version >> 16 */
	int current;	  /* in a thread's state: its innermost frame, or a pointer to it */
	int within;	  /* offset there of the frame's address; none: no pointer */
	int code, back;	  /* in a frame */
	int at;		  /* in a frame: the position in its code */
	int unit;	  /* the position is an int in so many bytes; 0: an address */
	int owner;	  /* in a frame: who owns it */
	int owner_none;	  /* an owner from here on: the frame is of no function */
	int ascii, wide;  /* in a text: its characters, in ASCII and otherwise */
	enum gm_lines_form lines;
};

/* In a code object. */
struct gm_layout_code {
	int file, name, lines, first;
	int64_t begin;	/* its instructions */
	int first_real; /* an int: the number of units before the function's own instructions; none
			 */
};

/* The row of a release, by Py_GetVersion's text; NULL: unknown. */
const struct gm_layout *gm_layout_find(const char *version);

/* Find the members of code objects by their type, PyCode_Type. False: one of them is missing. */
bool gm_layout_find_code(const struct gm_layout *layout, const void *code_type,
			 struct gm_layout_code *out);

#endif
