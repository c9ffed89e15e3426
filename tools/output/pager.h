/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of a command that is longer than the terminal goes through a pager, as git does: that of
 * GPUMEM_PAGER, else PAGER, else less; none if that is empty or "cat". Single-threaded.
 */
#ifndef GM_TOOLS_OUTPUT_PAGER_H
#define GM_TOOLS_OUTPUT_PAGER_H

#include <stdbool.h>
#include <stddef.h>

/* Is stdout a terminal, and is there a pager? */
bool gm_pager_is_wanted(void);

/* Write `n` bytes of text to stdout: through the pager if they are more than the terminal shows,
 * directly if not, or if the pager cannot be run. Returns when its user has left it. */
void gm_pager_show(const char *text, size_t n);

#endif
