/* SPDX-License-Identifier: BSD-3-Clause */
/* Escapes foreign text (names, values, strings of a log) for a terminal: one line, no control
 * characters. */
#ifndef GM_BASE_ESCAPE_H
#define GM_BASE_ESCAPE_H

#include <stddef.h>

/* The bytes that some editors and spreadsheets put before UTF-8 text. They are no part of it. */
#define GM_TEXT_MARK "\xef\xbb\xbf"

/* Escape all that is not printable. Buffer and result as with snprintf; an escape is never cut. No
 * allocation; any thread. */
size_t gm_escape(const char *text, char *buf, size_t n);

#endif
