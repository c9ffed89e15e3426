/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contexts of the process that gpumem has seen. A context is keyed by cuCtxGetId where the
 * driver has it, because the same CUcontext comes back after a reset; elsewhere by a number of ours
 * that gm_context_gone retires.
 */
#ifndef GM_POOL_CONTEXT_H
#define GM_POOL_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "driver/driver.h"

#define GM_CONTEXT_EVENTS 16

/* The looks at whether a context is idle, one at a time; see pool/fence.c. */
struct gm_looks {
	/* Twice the number of those that have ended, and one more while another is under way. */
	_Alignas(128) _Atomic uint64_t word;
	_Atomic uint64_t wanted; /* what somebody waits for the word to be */
	_Atomic CUresult result; /* of the last one that has ended */
	CUevent event;		 /* of who looks; NULL: none was made yet */
};

struct gm_context {
	/* Each allocation reads these. */
	_Alignas(128) uint64_t key; /* never 0, never reused in the process */
	CUcontext handle;
	CUdevice device;
	unsigned ordinal; /* of the device */
	CUevent probe;	  /* recorded once on a private stream; see pool/fence.h */
	atomic_bool gone;
	struct gm_context *next; /* the one seen before it; never changes */
	/* Each fence writes these, so they have cache lines of their own. */
	_Alignas(128) struct gm_rwlock
		capture;      /* shared: a fence is being recorded; exclusive: a capture begins */
	atomic_uint captures; /* stream captures open in this context */
	/* Calls of the pool in it by itself, and calls of the program that may end it. */
	atomic_uint users, ending;
	_Alignas(128) _Atomic(CUevent)
		events[GM_CONTEXT_EVENTS]; /* spare events of gm_fence; NULL: empty slot */
	struct gm_looks looks;
};

/*
 * The context current to the calling thread; makes and remembers it on first sight. The result
 * stays valid for the life of the process (a gone context is only marked). NULL with *result set
 * to what the driver answers (CUDA_ERROR_INVALID_CONTEXT, ...) otherwise. Calls the driver.
 */
struct gm_context *gm_context_current(const struct gm_driver *driver, CUresult *result);

/* Likewise for a given handle. */
struct gm_context *gm_context_of(const struct gm_driver *driver, CUcontext handle,
				 CUresult *result);

/* The context that was seen last; the others follow through `next`. */
struct gm_context *gm_context_newest(void);

/* The context of a key, or NULL. No driver call. */
struct gm_context *gm_context_find(uint64_t key);

/*
 * Around driver calls that the pool makes in a context by itself, on any thread and at any time, so
 * that none is made while the program ends the context. False: not now, or never again (`gone`).
 */
bool gm_context_enter(struct gm_context *context);
void gm_context_leave(struct gm_context *context);

/* Around a call of the program that may end the context of `handle` (of a green one: its primary
 * one), or the primary one of `device`: waits for those that have entered, and keeps others out.
 * The result, NULL if the context is not known, goes to gm_context_ended after gm_context_gone was
 * told. */
struct gm_context *gm_context_ending(CUcontext handle);
struct gm_context *gm_context_primary_ending(CUdevice device);
void gm_context_ended(struct gm_context *context);

/* Mark the context of `handle` gone (destroyed or reset); returns its key, or 0 if it was not
 * known. Its memory is the caller's to give back (gm_pool_context_gone). */
uint64_t gm_context_gone(CUcontext handle);

/* Remember that `handle` is the primary context of `device`: what cuDevicePrimaryCtxRetain gave. */
void gm_context_note_primary(CUdevice device, CUcontext handle);

/* gm_context_gone for the primary context of a device. */
uint64_t gm_context_primary_gone(CUdevice device);

/*
 * `derived` is the handle of a green context of `primary`. What is allocated there belongs to the
 * primary context and outlives the green one, and a fence of the primary covers both (measured on
 * driver 580): so to us they are one, until gm_context_green_gone, which answers
 * the device. False: no host memory; not known.
 */
bool gm_context_note_green(CUcontext derived, CUcontext primary, CUdevice device);
bool gm_context_green_gone(CUcontext derived, CUdevice *device);

/* In a forked child: forget everything, calling nothing. */
void gm_context_forget_all(void);

#endif
