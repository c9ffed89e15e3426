/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc in kernels: which contexts are taken over (takeover/takeover.h), and their heaps. A
 * context is taken over when an image that may call malloc is about to be used in it: loaded as a
 * module, or a kernel of it launched, whichever comes first. Every context has a heap of its own.
 */
#ifndef GM_SHIM_INKERNEL_H
#define GM_SHIM_INKERNEL_H

#include "handlers.h"
#include "heap/heap.h"
#include "takeover/takeover.h"

/* --- inkernel.c: contexts --- */

enum gm_inkernel_state {
	GM_INKERNEL_UNDECIDED,
	GM_INKERNEL_DECIDING, /* some thread is at it */
	GM_INKERNEL_TAKEN,    /* `heap` is there */
	GM_INKERNEL_NATIVE    /* it stays the driver's: `report` says why */
};

struct gm_inkernel {
	uint64_t key;
	struct gm_context *context;
	_Atomic(enum gm_inkernel_state) state;
	struct gm_heap_host *heap;
	struct gm_takeover_report report;
	/* What the program set cudaLimitMallocHeapSize to, as the driver rounds it; the least and
	 * the most that it makes of it. 0: not known. */
	_Atomic uint64_t limit;
	uint64_t least, most;
	atomic_bool launched; /* a kernel that may call malloc */
	uint64_t took;	      /* ns */
	struct gm_inkernel *next;
};

/* False: GPUMEM_HEAP=off or GPUMEM_MODE=trace. */
bool gm_inkernel_wanted(void);

/* What is known of a context; NULL: no host memory. */
struct gm_inkernel *gm_inkernel_known(struct gm_context *context);
enum gm_inkernel_state gm_inkernel_state(const struct gm_inkernel *h);

/* An image that may call malloc is about to be used in this context: takes it over, or waits for
 * the thread that does. Put off while stream captures are open. */
void gm_inkernel_use(struct gm_context *context);

/*
 * Around the launch of a kernel or graph that may call malloc: the heap of its context for the
 * second call, or NULL, when that is not needed. Takes the context over if need be. Inside of
 * gm_shim_enter.
 */
struct gm_heap_host *gm_inkernel_before_launch(CUstream stream);
void gm_inkernel_after_launch(struct gm_heap_host *heap, CUstream stream, CUresult result);

/* Give what the heaps of a device hold and kernels no longer use back to its pool, and answer how
 * many bytes that were. May wait for the work of contexts; of those whose kernels allocate just
 * now, or that capture, nothing comes. Inside of gm_shim_enter. */
uint64_t gm_inkernel_settle(unsigned ordinal);

/* For the thread of trim.c: take what a heap of any device has held idle for GPUMEM_TRIM_AFTER, as
 * idle memory of its pool; bytes, or 0 when nothing is due, or captures are open. And when
 * something is due; UINT64_MAX: not before gm_trim_heap_idle is called. */
uint64_t gm_inkernel_trim(uint64_t now);
uint64_t gm_inkernel_trim_next(void);

/* Around a call of the program that may end a context (NULL: not a known one): before it, when it
 * surely will unless the driver refuses, or perhaps; and when it has left the context alive. */
void gm_inkernel_context_ending(const struct gm_context *context, bool surely);
void gm_inkernel_context_stays(const struct gm_context *context);
/* The context is gone: so is its heap. */
void gm_inkernel_context_gone(const struct gm_context *context);

/* In a forked child. */
void gm_inkernel_forget(void);

/* --- inkernel_log.c --- */

/* Count and record how the takeover of a context ended, once it is decided. */
void gm_inkernel_log(const struct gm_inkernel *h);

/* Likewise an image that is about to be loaded (or the file at `path`): what was found in it.
 * `context`: the current one, or NULL. */
struct gm_image_verdict;
void gm_inkernel_log_image(const struct gm_context *context, const void *image, const char *path,
			   const struct gm_image_verdict *verdict);

/* Read the heaps of the current context, if that is due; always when the program has waited for its
 * work. Inside of gm_shim_enter, the second one outside. */
void gm_inkernel_look(void);
void gm_inkernel_look_now(void);
/* The context (NULL: not a known one) is about to end, kept from others; if that is not sure, only
 * where its work is done. */
void gm_inkernel_look_last(const struct gm_context *context, bool surely);
static inline bool gm_inkernel_has_news(void)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_heap_look_at, memory_order_relaxed) !=
			   UINT64_MAX);
}

/* --- heaplimit.c --- */

/* The context is about to be taken over: keep its limit, and have the driver set aside as little
 * as it can for a heap that nobody will use. And if nothing came of it. The context is current. */
void gm_inkernel_limit_keep(struct gm_inkernel *h);
void gm_inkernel_limit_restore(struct gm_inkernel *h);

#endif
