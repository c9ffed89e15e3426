/* SPDX-License-Identifier: BSD-3-Clause */
/* The limit of the heap of kernels, around a takeover. The heap's context is current. */
#ifndef GM_SHIM_KERNEL_HEAPLIMIT_H
#define GM_SHIM_KERNEL_HEAPLIMIT_H

#include "shim/kernel/inkernel.h"

/* The context is about to be taken over: keep its limit, and have the driver reserve as little as
 * it can for a heap that no kernel will use. */
void gm_inkernel_limit_keep(struct gm_inkernel *h);
/* The context was not taken over. */
void gm_inkernel_limit_restore(struct gm_inkernel *h);

#endif
