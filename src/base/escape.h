/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of others (names, values, what a log says) for a terminal: one line, and no control. */
#ifndef GM_BASE_ESCAPE_H
#define GM_BASE_ESCAPE_H

#include <stddef.h>

/* Escape anything not printable: the same buffer convention as snprintf, whole escapes only. No
 * allocation; any thread. */
size_t gm_escape(const char *text, char *buf, size_t n);

#endif
