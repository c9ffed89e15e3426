/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polls: has all work of a context completed? One thread records an event and asks it, for all that
 * want to know: the driver is several times slower when threads call it by turns.
 *
 *     thread A   begin |record, query| end: completed
 *     thread B        submit   wants a poll that begins after its own submission; waits for it
 *     thread C                 likewise
 *     thread A                        begin |record, query| end: completed, for B and C
 *                                     up to three polls in a row for others, then one of them polls
 *
 * A result serves the threads that came before its poll began, and only "completed" serves them:
 * else each asks by itself. Each context has a word: twice the number of polls that have ended, and
 * one more while another is under way.
 *
 * Recording an event breaks a stream capture that is open in its context, and querying one breaks
 * any. So captures are counted, and a poll is allowed only while none is open in the process:
 *
 *     capture   count it -> wait until no poll is under way -> cuStreamBeginCapture
 *     poll      begin    -> captures counted? then end      -> record, query
 *
 * Both steps are sequentially consistent: either the poll sees the count, or the capture sees the
 * poll and waits for its two calls. No GPU work is waited for there.
 */
#ifndef GM_CONTEXT_POLL_H
#define GM_CONTEXT_POLL_H

#include "context/context.h"

/*
 * CUDA_SUCCESS: all work that this thread knew of when it called has completed. Else not, or it is
 * unknown: CUDA_ERROR_NOT_READY, or an error of the context. *pending, where the caller passes it
 * with NULL in it, may become an event behind the work, which is the caller's (gm_event_put). Any
 * thread, no lock held.
 */
CUresult gm_poll_context(const struct gm_driver *driver, struct gm_context *context,
			 CUevent *pending);

/* Is a capture open in any context, or about to begin? One relaxed load. */
extern atomic_uint gm_poll_captures;
static inline bool gm_poll_captures_are_open(void)
{
	return atomic_load_explicit(&gm_poll_captures, memory_order_relaxed) > 0;
}

/* Is each capture of the process counted? */
bool gm_poll_captures_are_counted(void);

/* From now on each capture of the process is counted, or (not `all`) some are not: then nothing is
 * polled. Waits for polls that are under way. */
void gm_poll_captures_counted(bool all);

/* Count a capture, before the driver's call, and wait for polls that are under way; it has ended.
 */
void gm_poll_capture_begin(void);
void gm_poll_capture_end(void);

/* In a forked child: no capture is open, and none is counted. */
void gm_poll_forget_all(void);

/* Turns that a thread waits for the poll of another one before it asks by itself; for tests. */
extern unsigned gm_poll_patience;

#endif
