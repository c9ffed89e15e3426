/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output longer than the terminal goes through a pager, as in git: GPUMEM_PAGER, else PAGER, else
 * less. An empty value or "cat": no pager. Single-threaded.
 */
#ifndef GM_TOOLS_OUTPUT_PAGER_H
#define GM_TOOLS_OUTPUT_PAGER_H

#include <stdbool.h>
#include <stddef.h>

/* True if stdout is a terminal and the user's choice is a pager. */
bool gm_pager_is_wanted(void);

/* Write `n` bytes of text to stdout: through the pager if the text exceeds the terminal, directly
 * if not, or if the pager cannot be run. Returns after the end of the pager. */
void gm_pager_show(const char *text, size_t n);

#endif
