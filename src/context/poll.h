/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polls: has all work of a context completed? One thread records an event and queries it, for all
 * threads that ask: the driver is several times slower when threads call it by turns.
 *
 *     thread A   begin |record, query| end: completed
 *     thread B        submit   wants a poll that begins after its own submission; waits for it
 *     thread C                 likewise
 *     thread A                        begin |record, query| end: completed, for B and C
 *                                     up to three polls in a row for others, then one of them polls
 *
 * A result serves the threads that asked before its poll began, and only if it is "completed":
 * otherwise each thread polls by itself. Each context has a word: twice the number of polls that
 * have ended, and one more while another is under way.
 *
 * Recording an event breaks a stream capture that is open in its context, and querying one breaks
 * any. So captures are counted, and a poll is allowed only while none is open in the process:
 *
 *     capture   count it -> wait until no poll is under way -> cuStreamBeginCapture
 *     poll      begin    -> captures counted? then end      -> record, query
 *
 * Both steps are sequentially consistent: either the poll sees the count, or the capture sees the
 * poll and waits for its two calls. The capture waits for no GPU work.
 */
#ifndef GM_CONTEXT_POLL_H
#define GM_CONTEXT_POLL_H

#include "base/debug.h"
#include "context/context.h"

/*
 * CUDA_SUCCESS: all work that this thread knew of when it called has completed. Other results: work
 * is pending or unknown (CUDA_ERROR_NOT_READY), or the context has an error. *pending, if the
 * caller passes it with NULL in it, may become an event behind the work; the caller owns it
 * (gm_event_put). Any thread, no lock held.
 */
CUresult gm_poll_context(const struct gm_driver *driver, struct gm_context *context,
			 CUevent *pending);

/* Is a capture open in any context, or about to begin? One relaxed load. */
extern GM_HIDDEN atomic_uint gm_poll_captures;
static inline bool gm_poll_captures_are_open(void)
{
	return atomic_load_explicit(&gm_poll_captures, memory_order_relaxed) > 0;
}

/* Is each capture of the process counted? */
bool gm_poll_captures_are_counted(void);

/* `all`: from now on each capture of the process is counted. Else some are not: no poll is made
 * then. Waits for polls under way. */
void gm_poll_captures_counted(bool all);

/* begin, before the driver's call: count a capture, and wait for polls under way. end: it has
 * ended. */
void gm_poll_capture_begin(void);
void gm_poll_capture_end(void);

/* In a forked child: no capture is open, and none is counted. */
void gm_poll_forget_all(void);

/* Turns that a thread waits for another thread's poll before it polls by itself; for tests. */
extern GM_HIDDEN unsigned gm_poll_patience;

#endif
