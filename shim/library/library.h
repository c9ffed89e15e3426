/* SPDX-License-Identifier: BSD-3-Clause */
/* libgpumem-core in a preloaded process: blocks kept for streams, and the events of modules.h. */
#ifndef GM_SHIM_LIBRARY_LIBRARY_H
#define GM_SHIM_LIBRARY_LIBRARY_H

#include "context/context.h"

/* Free the kept blocks of a device to its pool; returns bytes. May wait for the GPU. */
uint64_t gm_library_reclaim(unsigned ordinal, uint64_t bytes);
void gm_library_context_gone(struct gm_context *context);
void gm_library_forget(void);

#endif
