/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream captures of the program. Any thread, no lock held. */
#ifndef GM_SHIM_CONTEXT_CAPTURE_H
#define GM_SHIM_CONTEXT_CAPTURE_H

#include "context/context.h"

/* The context of a stream (default streams: the current one), or NULL. Calls the driver. */
struct gm_context *gm_shim_context_of_stream(CUstream stream);
/* Is a capture open in the process? One relaxed load. */
bool gm_capture_any(void);

/* modules.h */
void gm_capture_context_gone(struct gm_context *context);
void gm_capture_forget_all(void);

#endif
