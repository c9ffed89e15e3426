/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of a context, without timing; the context keeps GM_CONTEXT_EVENTS of them for the next
 * use. Any thread; no lock is held except the capture lock. */
#ifndef GM_CONTEXT_EVENT_H
#define GM_CONTEXT_EVENT_H

#include "context/context.h"

/* Take a spare event of the context, else make a new one. The caller owns it until gm_event_put.
 * The result is the driver's. */
CUresult gm_event_take(const struct gm_driver *driver, struct gm_context *context, CUevent *event);
void gm_event_put(const struct gm_driver *driver, struct gm_context *context, CUevent event);

#endif
