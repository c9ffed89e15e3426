/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines on stderr. The place that decides that something is an error says so, once, through here;
 * callers that merely pass the error on stay silent. One write(2) per line, no stdio, no
 * allocation, errno preserved. Nothing is printed below the level of GPUMEM_VERBOSE.
 */
#ifndef GM_BASE_MSG_H
#define GM_BASE_MSG_H

#include <stdbool.h>

enum gm_msg_level { GM_MSG_SILENT, GM_MSG_WARN, GM_MSG_NOTE, GM_MSG_INFO, GM_MSG_DEBUG };

/* Levels up to and including `level` are printed from now on; GM_MSG_WARN at start. */
void gm_msg_set_level(enum gm_msg_level level);

/* For a text of unknown length in a message, so that what is said of it is not cut off:
 * gm_msg(level, "log " GM_MSG_TEXT ": %s", GM_MSG_CUT(path), why) */
#define GM_MSG_TEXT "%.*s%s"
#define GM_MSG_CUT(text) GM_MSG_LONGEST, text, strlen(text) > GM_MSG_LONGEST ? "..." : ""
#define GM_MSG_LONGEST 400

/* Print "gpumem: TEXT\n", cut at 1 KiB and escaped. `level` is never GM_MSG_SILENT. Any thread. */
void gm_msg(enum gm_msg_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True the first time it is called on `flag` (a static bool), by whichever thread comes first. */
bool gm_msg_first(bool *flag);

#define GM_MSG_ONCE(level, ...)                     \
	do {                                        \
		static bool gm_said_;               \
		if (gm_msg_first(&gm_said_))        \
			gm_msg(level, __VA_ARGS__); \
	} while (0)

#endif
