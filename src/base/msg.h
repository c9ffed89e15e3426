/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on stderr. The function that detects an error reports it here, once; callers that pass
 * the error on print nothing. One write(2) a line, no stdio, no allocation, errno preserved.
 * GPUMEM_VERBOSE sets the level.
 *
 * A message neither ends nor stops the program. It is dropped if the write would wait, and raises
 * no signal. It is also dropped unless descriptor 2 is standard error: the file that it was at load
 * or in gm_msg_follow, or the same file as descriptor 1. A descriptor 2 that was closed at load
 * never is: the program's first file may get its number.
 */
#ifndef GM_BASE_MSG_H
#define GM_BASE_MSG_H

#include <stdbool.h>

enum gm_msg_level { GM_MSG_SILENT, GM_MSG_WARN, GM_MSG_NOTICE, GM_MSG_INFO, GM_MSG_DEBUG };

/* Print messages up to and including `level`. GM_MSG_WARN at start. */
void gm_msg_set_level(enum gm_msg_level level);

/* Accept the present file of descriptor 2 as standard error, too: the program may have redirected
 * it. A close-on-exec file is refused: it got the number by chance. */
void gm_msg_follow(void);

/* For text of unknown length in a message: it is cut, so that the words behind it are not.
 * gm_msg(level, "log " GM_MSG_TEXT ": %s", GM_MSG_CUT(path), why) */
#define GM_MSG_TEXT "%.*s%s"
#define GM_MSG_CUT(text) GM_MSG_LONGEST, text, strlen(text) > GM_MSG_LONGEST ? "..." : ""
#define GM_MSG_LONGEST 400

/* Print "gpumem: TEXT\n" on standard error, cut at 1 KiB and escaped. `level` is never
 * GM_MSG_SILENT. Any thread. */
void gm_msg(enum gm_msg_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True for the first call with this `flag` (a static bool), of all threads. */
bool gm_msg_first(bool *flag);

#define GM_MSG_ONCE(level, ...)                     \
	do {                                        \
		static bool gm_said_;               \
		if (gm_msg_first(&gm_said_))        \
			gm_msg(level, __VA_ARGS__); \
	} while (0)

#endif
