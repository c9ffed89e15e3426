/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contexts of the process that gpumem has seen. The key of a context is its cuCtxGetId, because
 * a reset reuses the CUcontext. Where the driver has no cuCtxGetId the key is a number of gpumem's
 * own, which ends with gm_context_gone.
 *
 * Any thread may call any function here, with no lock held. A known context is found without a
 * lock, unless there are green contexts.
 */
#ifndef GM_CONTEXT_CONTEXT_H
#define GM_CONTEXT_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"
#include "base/lock.h"
#include "driver/driver.h"

#define GM_CONTEXT_EVENTS 16

/* The polls of a context, one at a time; see context/poll.h. */
struct gm_poll {
	/* Twice the number of polls that have ended, plus one while a poll is under way. */
	_Alignas(128) _Atomic uint64_t word;
	_Atomic uint64_t wanted; /* the largest word that a thread waits for */
	_Atomic CUresult result; /* of the last poll that has ended */
	CUevent event;		 /* used by the thread that polls; NULL: not made yet */
};

struct gm_context {
	/* Read by each allocation. */
	_Alignas(128) uint64_t key; /* never 0, never reused in the process */
	CUcontext handle;
	CUdevice device;
	unsigned ordinal; /* of the device */
	CUevent probe;	  /* recorded once on a private stream; see context/fence.h */
	atomic_bool gone;
	struct gm_context *next; /* the context seen before this one; never changes */
	/* Written by each fence, so they have cache lines of their own. */
	_Alignas(128) struct gm_rwlock
		capture;      /* shared: a fence is being recorded; exclusive: a capture begins */
	atomic_uint captures; /* stream captures open in this context */
	/* Threads between gm_context_enter and leave, and between gm_context_ending and ended. */
	atomic_uint users, ending;
	_Alignas(128) _Atomic(CUevent)
		events[GM_CONTEXT_EVENTS]; /* spare ones (event.h); NULL: empty slot */
	struct gm_poll poll;
};

/*
 * The calling thread's current context, which is registered at its first use. The result is valid
 * for the life of the process (a gone context is only marked). NULL: *result is the driver's error
 * (CUDA_ERROR_INVALID_CONTEXT, ...). Calls the driver.
 */
struct gm_context *gm_context_current(const struct gm_driver *driver, CUresult *result);

/* As gm_context_current, for the context of `handle`. */
struct gm_context *gm_context_of(const struct gm_driver *driver, CUcontext handle,
				 CUresult *result);

/*
 * CUDA_ERROR_NOT_PERMITTED in a host function (cuLaunchHostFunc, cuStreamAddCallback), else
 * CUDA_SUCCESS. The driver refuses calls there that need a context. So calls that are answered
 * without the driver must ask this first. The driver runs host functions on threads of its own, so
 * a thread that was permitted once always is: then it is one load, before that a driver call.
 */
extern GM_HIDDEN GM_TLS bool gm_context_permitted;
CUresult gm_context_ask(const struct gm_driver *driver);
static inline CUresult gm_context_refuses(const struct gm_driver *driver)
{
	return GM_LIKELY(gm_context_permitted) ? CUDA_SUCCESS : gm_context_ask(driver);
}

/* True if a registered context has ended. One relaxed load. */
extern GM_HIDDEN atomic_bool gm_context_ended_once;
static inline bool gm_context_has_ended(void)
{
	return atomic_load_explicit(&gm_context_ended_once, memory_order_relaxed);
}

/* The context that was registered last; the others follow through `next`. */
struct gm_context *gm_context_newest(void);

/* The context of a key, or NULL. No driver call. */
struct gm_context *gm_context_find(uint64_t key);

/*
 * Around driver calls that the pool makes in a context by itself, from any thread at any time: none
 * is made while the program ends the context. False: a call that may end the context is in
 * progress, or the context is `gone`.
 */
bool gm_context_enter(struct gm_context *context);
void gm_context_leave(struct gm_context *context);

/*
 * Around a call of the program that may end the context of `handle` (for a green context: its
 * primary one) or the primary context of `device`. Waits until all threads that have entered the
 * context have left; no thread can enter meanwhile. Pass the result (NULL: unknown context) to
 * gm_context_ended, after gm_context_gone if the context has ended.
 */
struct gm_context *gm_context_ending(CUcontext handle);
struct gm_context *gm_context_primary_ending(CUdevice device);
void gm_context_ended(struct gm_context *context);

/* Mark the context of `handle` gone (destroyed or reset). Returns its key, or 0 if it is unknown.
 * The caller frees its memory (gm_pool_context_gone). */
uint64_t gm_context_gone(CUcontext handle);

/* Find a context that has ended unobserved (a newer one has its handle), and mark it gone. NULL:
 * there is none. */
struct gm_context *gm_context_replaced(void);

/* Remember `handle`, from cuDevicePrimaryCtxRetain, as the primary context of `device`. */
void gm_context_remember_primary(CUdevice device, CUcontext handle);

/* gm_context_gone for the primary context of a device. */
uint64_t gm_context_primary_gone(CUdevice device);

/*
 * The first remembers `derived`, the handle of a green context of `primary`; the second forgets it
 * and returns its device. To gpumem the two are one context: memory allocated in the green one
 * belongs to the primary and outlives the green one, and a fence of the primary covers both
 * (measured on driver 580). False: no host memory; an unknown handle.
 */
bool gm_context_remember_green(CUcontext derived, CUcontext primary, CUdevice device);
bool gm_context_green_gone(CUcontext derived, CUdevice *device);

/* In a forked child: forget all contexts, without a driver call. */
void gm_context_forget_all(void);

#endif
