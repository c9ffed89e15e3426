/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door: every submission of the process passes it. While it is closed they wait outside, so
 * that memory can move; while the process is asleep, the first that comes wakes it.
 *
 *     a submission                                  the mover
 *     own word: even -> odd                         state: OPEN -> SHUT
 *     a fence for the compiler alone                membarrier: a full fence in every thread
 *     state OPEN?  yes: submit; no: word to even,   each word: even? wait for the odd ones,
 *                  wait or wake                        for a bounded time
 *     own word: odd -> even
 *
 * One of the two sees the other (asymmetric Dekker). Where the kernel has no membarrier, a
 * submission enters by an atomic addition. A thread that has ended inside, as cancelled ones do, is
 * no submission any more. Nested submissions of a thread pass.
 *
 * Until gm_door_begin a submission costs one relaxed load and a branch.
 */
#ifndef GM_RESIDENCY_DOOR_H
#define GM_RESIDENCY_DOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"
#include "driver/driver.h"

enum gm_door_state { GM_DOOR_OPEN, GM_DOOR_SHUT, GM_DOOR_ASLEEP };

extern atomic_bool gm_door_used;

/* From now on submissions are seen. `wake` is called by one that finds the process asleep, on its
 * thread, with no lock held; any number of threads at once. CUDA_SUCCESS: the door is open again.
 * Otherwise the submission has this result. Before the first submission. */
void gm_door_begin(CUresult (*wake)(void));

/* A submission begins. Anything but CUDA_SUCCESS is its result, and it has not entered. */
CUresult gm_door_enter_used(void);
void gm_door_leave_used(void);

static inline CUresult gm_door_enter(void)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_door_used, memory_order_relaxed))
		       ? gm_door_enter_used()
		       : CUDA_SUCCESS;
}

static inline void gm_door_leave(void)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_door_used, memory_order_relaxed)))
		gm_door_leave_used();
}

/* --- for one mover at a time --- */

/* Shut the door, and wait until `end` (ns of CLOCK_MONOTONIC) for submissions that are inside, but
 * for the calling thread's. False: one is inside still, and the door is as it was. */
bool gm_door_shut(uint64_t end);

/* From shut to open or asleep. */
void gm_door_set(enum gm_door_state state);
enum gm_door_state gm_door_state(void);

/* A number that differs from an earlier one if a submission began or ended in between. */
uint64_t gm_door_passages(void);

/* In a forked child: nobody is inside, the door is open and unused. */
void gm_door_forget(void);

#endif
