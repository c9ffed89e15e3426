/* SPDX-License-Identifier: BSD-3-Clause */
/* malloc in kernels, in counters and log: takeovers, images, and samples of heaps. Any thread. */
#ifndef GM_SHIM_KERNEL_INKERNEL_LOG_H
#define GM_SHIM_KERNEL_INKERNEL_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/debug.h"
#include "context/context.h"
#include "heap/heap.h"

struct gm_image_verdict;
struct gm_inkernel;

/* Count and record the end of a context's takeover, once it is decided. */
void gm_inkernel_log(const struct gm_inkernel *h);

/* Likewise of the second set of malloc and free, if it stays the driver's. `took`: ns. */
void gm_inkernel_log_second(const struct gm_inkernel *h, uint64_t took);

/* Count and record the verdict on an image that is about to be loaded, or else on the file at
 * `path`. `context`: the current one, or NULL. */
void gm_inkernel_log_image(const struct gm_context *context, const void *image, const char *path,
			   const struct gm_image_verdict *verdict);

/* Is there a heap that was not read since its last launch? */
static inline bool gm_inkernel_has_news(void)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_heap_sample_at, memory_order_relaxed) !=
			   UINT64_MAX);
}

/* The program has waited for its work: read the heaps of the current context. Outside of
 * gm_shim_enter. */
void gm_inkernel_sample_now(void);

/* The context (NULL: an unknown one) is about to end, and no other thread uses it: read its heaps a
 * last time. Not `surely`: only if its work is complete. */
void gm_inkernel_sample_last(const struct gm_context *context, bool surely);

/* modules.h: read the heaps of the current context if due. */
void gm_inkernel_leave(uint64_t now);

#endif
