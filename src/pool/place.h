/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a call that names a device and a stream belongs: the context, made current for the call. */
#ifndef GM_POOL_PLACE_H
#define GM_POOL_PLACE_H

#include "pool/context.h"

struct gm_place {
	const struct gm_driver *driver;
	struct gm_context *context;
	CUstreamCaptureMode mode;
	bool pushed;
};

/*
 * The context of `stream` if that is a stream that was created; else the current one if it is of
 * device `ordinal`; else the primary one, which is retained once, for the life of the process.
 * Until gm_place_leave it is current, and the thread's capture mode RELAXED. On an error, which is
 * the driver's or CUDA_ERROR_INVALID_DEVICE, there is nothing to leave.
 */
CUresult gm_place_enter(struct gm_place *place, const struct gm_driver *driver, int ordinal,
			CUstream stream);
void gm_place_leave(const struct gm_place *place);

/* In a forked child: nothing is retained. */
void gm_place_forget(void);

#endif
