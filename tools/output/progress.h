/* SPDX-License-Identifier: BSD-3-Clause */
/* A bar on stderr while long logs are read. Single-threaded. */
#ifndef GM_TOOLS_OUTPUT_PROGRESS_H
#define GM_TOOLS_OUTPUT_PROGRESS_H

/* Show the bar from now on, if stderr is a terminal. */
void gm_progress_start(void);

#endif
