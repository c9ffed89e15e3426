/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door: every submission of the process passes it. While the door is closed submissions wait,
 * so that memory can move; while the process is asleep, the first submission wakes it.
 *
 *     a submission                                  the mover
 *     own word: even -> odd                         state: OPEN -> SHUT
 *     a fence for the compiler alone                membarrier: a full fence in every thread
 *     state OPEN?  yes: submit; no: word to even,   each word: even? wait for the odd ones,
 *                  wait or wake                        for a bounded time
 *     own word: odd -> even
 *
 * At least one of the two sees the other (asymmetric Dekker). If the kernel has no membarrier, a
 * submission enters by an atomic addition. A submission ends with its thread, even if the thread
 * was cancelled inside. Nested submissions of a thread pass; those of a signal handler that
 * interrupts one which has not entered yet do not.
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

extern GM_HIDDEN atomic_bool gm_door_used;

/* Count submissions from now on. A submission that finds the process asleep calls `wake` on its
 * thread, with no lock held; any number of threads at once. `since`: the time (ns of
 * CLOCK_MONOTONIC) at which it first found the door not open. CUDA_SUCCESS: it tries again. Any
 * other result becomes the result of the submission. Call this before the first submission. */
void gm_door_begin(CUresult (*wake)(uint64_t since));

/* Begin a submission. Any result but CUDA_SUCCESS is the submission's; it has not entered. */
CUresult gm_door_enter_used(void);
void gm_door_leave_used(void);

static inline CUresult gm_door_enter(void)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_door_used, memory_order_relaxed))
		       ? gm_door_enter_used()
		       : CUDA_SUCCESS;
}

/* Enter for work of ours that can wait, or for a question of the program: true, the caller has
 * entered, and leaves by gm_door_leave. False: the door is not open. Never waits, never wakes the
 * process, and is no passage. */
bool gm_door_try_used(void);

static inline bool gm_door_try(void)
{
	return GM_LIKELY(!atomic_load_explicit(&gm_door_used, memory_order_relaxed)) ||
	       gm_door_try_used();
}

static inline void gm_door_leave(void)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_door_used, memory_order_relaxed)))
		gm_door_leave_used();
}

/* Is this thread inside? */
bool gm_door_is_inside(void);

/* A submission that waits for other processes goes outside, so that its own process can sleep
 * meanwhile. False: it is part of another submission, and stays inside. */
bool gm_door_step_out(void);

/* It enters again, whatever the state is: unless the door is open it uses no memory of the pools
 * until gm_door_leave, and gm_door_try is false. */
void gm_door_step_in(void);

/* --- for one mover at a time --- */

/* Wait, with the door as it is, until each submission that is inside now has ended. False: the time
 * `end` (ns of CLOCK_MONOTONIC) came first. Threads for which there was no host memory are left
 * out. */
bool gm_door_await(uint64_t end);

/* Shut the door, and wait until `end` (likewise) for submissions inside, except the
 * calling thread's. False: a submission is still inside, and the door is as before. */
bool gm_door_shut(uint64_t end);

/* Change the state from shut to open or asleep. */
void gm_door_set(enum gm_door_state state);
enum gm_door_state gm_door_state(void);

/* Passages: a number that changes when a submission begins or ends. */
uint64_t gm_door_passages(void);

/* In a forked child: no submission is inside, the door is open and unused. */
void gm_door_forget(void);

#endif
