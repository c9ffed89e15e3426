/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submissions of the program, as the order of streams (context/order.h) sees them. With another
 * GPUMEM_FREE than ordered a submission costs one load. Any thread, no lock held.
 */
#ifndef GM_SHIM_ORDER_ORDER_H
#define GM_SHIM_ORDER_ORDER_H

#include "context/order.h"
#include "shim/call.h"

/* At the start, with GPUMEM_FREE=ordered: the order for the pools, or NULL: they defer. */
const struct gm_order_ops *gm_submit_start(void);

/* Before the driver's call that submits work to `stream`, unless it submits nothing to the streams
 * of its context. `programmatic`: see gm_order_submit. */
void gm_submit_begin(CUstream stream, bool programmatic);

/* Likewise for a call that uses streams which it does not name: waits until no memory is hot. */
void gm_submit_begin_anywhere(void);

/* After it. */
static inline void gm_submit_end(void)
{
	gm_order_leave();
}

/* The value of `call`, which submits work to `stream`. */
#define GM_SUBMITS(stream, call)                          \
	({                                                \
		bool ordered_ = gm_order_is_on();         \
		if (ordered_)                             \
			gm_submit_begin((stream), false); \
		__typeof__(call) submitted_ = (call);     \
		if (ordered_)                             \
			gm_submit_end();                  \
		submitted_;                               \
	})

/* A stream's handle will be invalid: before the driver's call. */
void gm_submit_stream_ends(CUstream stream);

/* modules.h */
void gm_submit_context_gone(struct gm_context *context);

#endif
