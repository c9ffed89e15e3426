/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of kernels and graphs. */
#ifndef GM_SHIM_KERNEL_LAUNCH_H
#define GM_SHIM_KERNEL_LAUNCH_H

#include <stdatomic.h>

#include "base/debug.h"

/*
 * The reasons to watch launches, in the order of the bits: a pool exists, and a launch may lack the
 * memory that it holds; a kernel may call malloc; GPUMEM_FREE=ordered; the process may sleep. Bits
 * are only added; a forked child, in which launches fail, keeps them. 0: launches are passed on.
 */
enum {
	GM_LAUNCH_POOLED = 1,
	GM_LAUNCH_HEAP = 2,
	GM_LAUNCH_ORDERED = 4,
	GM_LAUNCH_GATED = 8,
};
extern GM_HIDDEN atomic_uint gm_launch_watched;

/* modules.h */
void gm_launch_pool_ready(unsigned ordinal);

#endif
