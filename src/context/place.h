/* SPDX-License-Identifier: BSD-3-Clause */
/* The context of a call that names a device and a stream; it is made current for the call. */
#ifndef GM_CONTEXT_PLACE_H
#define GM_CONTEXT_PLACE_H

#include "context/context.h"

struct gm_place {
	const struct gm_driver *driver;
	struct gm_context *context;
	CUstreamCaptureMode mode;
	bool pushed;
};

/*
 * Enter the context of `stream`, unless that is a default stream; else the current context, if it
 * is of device `ordinal`; else the device's primary context, which is retained once, for the life
 * of the process. Until gm_place_leave the context is current and the thread's capture mode
 * RELAXED. After an error (the driver's, CUDA_ERROR_INVALID_DEVICE, or INVALID_VALUE for a stream
 * of another device) gm_place_leave must not be called. No lock is held.
 */
CUresult gm_place_enter(struct gm_place *place, const struct gm_driver *driver, int ordinal,
			CUstream stream);
void gm_place_leave(const struct gm_place *place);

/* In a forked child: nothing is retained. */
void gm_place_forget(void);

#endif
