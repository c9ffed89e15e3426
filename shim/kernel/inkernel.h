/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc in kernels: the contexts that are taken over (takeover/takeover.h), and their heaps. A
 * context is taken over before the first use of an image that may call malloc: before the image is
 * loaded as a module, or a kernel of it is launched. Every context has a heap of its own. Any
 * thread, inside of gm_shim_enter, no lock held.
 */
#ifndef GM_SHIM_KERNEL_INKERNEL_H
#define GM_SHIM_KERNEL_INKERNEL_H

#include "heap/heap.h"
#include "shim/call.h"
#include "takeover/takeover.h"

enum gm_inkernel_state {
	GM_INKERNEL_UNDECIDED,
	GM_INKERNEL_DECIDING, /* a thread is taking it over */
	GM_INKERNEL_TAKEN,    /* `heap` exists */
	GM_INKERNEL_NATIVE    /* malloc stays the driver's; `report` has the reason */
};

struct gm_inkernel {
	uint64_t key;
	struct gm_context *context;
	_Atomic(enum gm_inkernel_state) state;
	struct gm_heap_host *heap;
	struct gm_takeover_report report;
	/* The second set of malloc and free (takeover.h). TAKEN, NATIVE: as of `state`. */
	_Atomic(enum gm_inkernel_state) second;
	struct gm_takeover_report second_report;
	/* The program's cudaLimitMallocHeapSize, as the driver rounds it, in bytes; the minimum and
	 * maximum that the driver sets. 0: unknown. */
	_Atomic uint64_t limit;
	uint64_t least, most;
	atomic_bool launched; /* true: a kernel that may call malloc was launched */
	uint64_t took, made;  /* ns: the takeover; of that, the creation of the heap */
	struct gm_inkernel *next;
};

/* False: GPUMEM_HEAP=off or GPUMEM_MODE=trace. */
bool gm_inkernel_wanted(void);

/* The entry of a context, made on first use; NULL: no host memory. */
struct gm_inkernel *gm_inkernel_known(struct gm_context *context);
enum gm_inkernel_state gm_inkernel_state(const struct gm_inkernel *h);

/* An image that may call malloc may call the device runtime as well: from now on gm_inkernel_use
 * takes over the second set, too. */
void gm_inkernel_want_second(void);

/* Before an image that may call malloc is used in this context: take the context over, or wait for
 * the thread that does. No effect while stream captures are open. */
void gm_inkernel_use(struct gm_context *context);

/* Before and after the launch of a kernel or graph that may call malloc. `before` takes the context
 * over if needed, and returns its heap for `after`; NULL: do not call `after`. `kernel`: as of
 * gm_heap_launch. */
struct gm_heap_host *gm_inkernel_before_launch(CUstream stream, const char *kernel);
void gm_inkernel_after_launch(struct gm_heap_host *heap, CUstream stream, CUresult result,
			      const char *kernel);

/* modules.h: return memory that kernels do not use, from the heaps of a device. Waits for the work
 * of their contexts; a heap returns nothing while its kernels run, or its context captures. */
uint64_t gm_inkernel_reclaim(unsigned ordinal, uint64_t bytes);

/* For the thread of trim.c: return memory that a heap of any device has held idle for
 * GPUMEM_TRIM_AFTER to its pool. Returns bytes; 0: none is due, or captures are open. `next`: the
 * next due time; UINT64_MAX: not before gm_trim_heap_idle is called. */
uint64_t gm_inkernel_trim(uint64_t now);
uint64_t gm_inkernel_trim_next(void);

/* Ending: a call of the program may end a context (NULL: an unknown one); `surely`: it ends it
 * unless the call fails. Stays: the call has not ended it. */
void gm_inkernel_context_ending(const struct gm_context *context, bool surely);
void gm_inkernel_context_stays(const struct gm_context *context);
/* modules.h: destroys the heap of the context. */
void gm_inkernel_context_gone(struct gm_context *context);

/* Code that may call malloc is about to be unloaded: calls in it are looked up before, in the
 * current context (NULL: none), when its kernels have ended, within a second. */
void gm_inkernel_code_ends(const struct gm_context *context);

void gm_inkernel_forget(void);

#endif
