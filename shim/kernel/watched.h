/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_SHIM_KERNEL_WATCHED_H
#define GM_SHIM_KERNEL_WATCHED_H

#include <stdbool.h>

/* Does a debugger or tool (cuda-gdb, compute-sanitizer) watch the code of kernels, so that the code
 * must not change? pre: the driver is loaded. Any thread. */
bool gm_watched(void);

#endif
