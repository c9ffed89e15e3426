/* SPDX-License-Identifier: BSD-3-Clause */
/* libgpumem-core in a preloaded process: blocks kept for streams, and the events of modules.h. */
#ifndef GM_SHIM_CORE_H
#define GM_SHIM_CORE_H

#include "context/context.h"

/* Free the kept blocks of a device to its pool; returns bytes. May wait for the GPU. */
uint64_t gm_core_reclaim(unsigned ordinal, uint64_t bytes);
void gm_core_context_gone(struct gm_context *context);
void gm_core_forget(void);

#endif
