/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Line numbers from the tables of CPython's code objects. Source: Objects/lnotab_notes.txt
 * (3.9, 3.10) and Objects/locations.md (3.11) of CPython. The interpreter's own decoder reads
 * members of the code object that other threads may change; these functions read the table alone,
 * which never changes.
 */
#ifndef GM_STACK_LINES_H
#define GM_STACK_LINES_H

#include <stddef.h>
#include <stdint.h>

enum gm_lines_form {
	GM_LINES_LNOTAB,   /* 3.9 */
	GM_LINES_RANGES,   /* 3.10 */
	GM_LINES_LOCATIONS /* from 3.11 on */
};

/* The line of the instruction `at` bytes behind the first one, in a table of n bytes; `first`: the
 * line of the code object itself, also that of a negative `at`. 0: the instruction has no line. */
int gm_lines_find(enum gm_lines_form form, const uint8_t *table, size_t n, int first, int at);

#endif
