/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal of a command that redraws it: alternate screen, keys without Return. Every end of
 * the program except by SIGKILL restores the terminal: exit, and signals that end or stop the
 * program, fatal ones included. One at a time.
 */
#ifndef GM_TOOLS_OUTPUT_SCREEN_H
#define GM_TOOLS_OUTPUT_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Take the terminal of stdin and stdout. False: not a terminal. */
bool gm_screen_open(void);
void gm_screen_close(void);

/* Replace the picture by as many lines of `text` as fit. False: the terminal is gone. */
bool gm_screen_draw(const char *text);

/* Wait at most `ns` for a key. 0: timeout, a new size of the terminal, or the program was
 * continued; EOF: the end of input. */
int gm_screen_key(uint64_t ns);

#endif
