/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream captures of the program. Any thread, no lock held. */
#ifndef GM_SHIM_CONTEXT_CAPTURE_H
#define GM_SHIM_CONTEXT_CAPTURE_H

#include "context/context.h"

/* Is a capture open in the process? One relaxed load. */
bool gm_capture_any(void);

/* modules.h */
void gm_capture_start(void);
void gm_capture_context_gone(struct gm_context *context);
void gm_capture_forget_all(void);

#endif
