/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_SHIM_WATCHED_H
#define GM_SHIM_WATCHED_H

#include <stdbool.h>

/* Does a debugger or a tool watch the code of kernels, which must stay as it knows it: cuda-gdb,
 * compute-sanitizer? The driver is loaded. Any thread. */
bool gm_watched(void);

#endif
