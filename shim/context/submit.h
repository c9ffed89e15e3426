/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submissions of the program, for the order of streams (context/order.h). Unless GPUMEM_FREE is
 * ordered a submission costs one load. Any thread, no lock held.
 */
#ifndef GM_SHIM_CONTEXT_SUBMIT_H
#define GM_SHIM_CONTEXT_SUBMIT_H

#include "context/order.h"
#include "pool/pool.h"
#include "shim/call.h"

/* Before a driver call that submits work to `stream`, unless it submits nothing to the streams of
 * its context. `programmatic`: see gm_order_submit. */
void gm_submit_begin(CUstream stream, bool programmatic);

/* Likewise for a call that uses unnamed streams. If hot memory was reused, waits for the work from
 * before it was freed, as the native cudaFree did. */
void gm_submit_begin_anywhere(void);

/* After the driver's call. */
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

/* Before the driver's call that ends a stream: its handle will be invalid. */
void gm_submit_stream_ends(CUstream stream);

/* modules.h: the order for the pools, with GPUMEM_FREE=ordered; the report of a stream that waits
 * too long for another one. */
void gm_submit_start(void);
void gm_submit_pool_config(unsigned ordinal, struct gm_pool_config *config);
uint64_t gm_submit_trim(uint64_t now);
void gm_submit_context_gone(struct gm_context *context);
void gm_submit_forget(void);

#endif
