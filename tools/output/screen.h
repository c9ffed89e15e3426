/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal of a command that redraws it: another screen, keys without a line. However the
 * program ends, but for SIGKILL, the terminal is as before: signals that end or stop it, fatal ones
 * included, restore it first. One at a time.
 */
#ifndef GM_TOOLS_OUTPUT_SCREEN_H
#define GM_TOOLS_OUTPUT_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Take the terminal of stdin and stdout. False: they are none. */
bool gm_screen_open(void);
void gm_screen_close(void);

/* Replace what is shown by as many lines of `text` as fit. False: the terminal is gone. */
bool gm_screen_draw(const char *text);

/* Wait for a key, `ns` at most. 0: time passed, or the terminal changed its size or came back;
 * EOF: there will be no key. */
int gm_screen_key(uint64_t ns);

#endif
