/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_SHIM_KERNEL_WATCHED_H
#define GM_SHIM_KERNEL_WATCHED_H

#include <stdbool.h>

/* A debugger or a tool (cuda-gdb, compute-sanitizer) watches the code of kernels, so the code must
 * not change. The driver is loaded. Any thread. */
bool gm_watched(void);

#endif
