/* SPDX-License-Identifier: BSD-3-Clause */
/* The limit of the heap of kernels, around a takeover. The heap's context is current. */
#ifndef GM_SHIM_KERNEL_HEAPLIMIT_H
#define GM_SHIM_KERNEL_HEAPLIMIT_H

#include "shim/kernel/inkernel.h"

/* Before a takeover of the context: keep its limit, and make the driver reserve as little as
 * possible for a heap that no kernel will use. */
void gm_inkernel_limit_keep(struct gm_inkernel *h);
/* The context was not taken over: restore its limit. */
void gm_inkernel_limit_restore(struct gm_inkernel *h);

#endif
