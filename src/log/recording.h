/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log of events that begins and ends while the process runs: a second log, NAME.events beside the
 * small one. Another process asks for it by a word in the live counters (page.h); the process obeys
 * at the end of a handler. It has no thread and no socket for that.
 *
 *     gm_recording_take   ->  EVENTS:  gm_recording_open, stacks are opened, gm_recording_begin,
 *                                      gm_recording_checkpoint
 *                             SMALL:   gm_recording_stop, stacks are closed, gm_recording_end
 *                         ->  gm_recording_answer
 *
 * Errors are answers; a disk that fills later is one message, as for every log. Preserves errno.
 */
#ifndef GM_LOG_RECORDING_H
#define GM_LOG_RECORDING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/debug.h"
#include "log/count.h"
#include "log/page.h"
#include "log/record.h"

/* From now on the process obeys requests. After gm_log_open, one thread. */
void gm_recording_enable(void);

/* May there be a request, or is work left? Two loads. Any thread. */
static inline bool gm_recording_is_due(void)
{
	const struct gm_counter_live *live =
		atomic_load_explicit(&gm_count_shown, memory_order_acquire);
	return GM_UNLIKELY(atomic_load_explicit(&live->parts.request.wake, memory_order_relaxed));
}

/* Let the next handler look. Any thread. */
void gm_recording_wake(void);

/* The request to obey, and *state: what it finds. True: the calling thread alone obeys, until it
 * calls gm_recording_answer. False: another thread does, or there is nothing to do. */
enum gm_recording_state {
	GM_RECORDING_NONE,
	GM_RECORDING_ON,
	GM_RECORDING_OWN,    /* the log of the process is one of events */
	GM_RECORDING_BROKEN, /* an error ended its file */
};
bool gm_recording_take(enum gm_request *request, enum gm_recording_state *state);

/* Make the file of a recording. 0, or an errno of gm_file_create. The next ones: only between take
 * and answer, no lock held. */
int gm_recording_open(void);

/* Events are recorded from now on. _checkpoint: then write the blocks alive. Records are kept
 * before the walk, so a block that the walk misses has its own. */
void gm_recording_begin(void);
void gm_recording_checkpoint(void);

/* Does a recording keep records of this kind? */
bool gm_recording_keeps(enum gm_record_kind kind);

/* The errno that ended the file of the recording, or of the last one; 0: none did. */
int gm_recording_error(void);

/* No event is recorded from now on. */
void gm_recording_stop(void);

/* Close the file. False: a thread still writes; try again. */
bool gm_recording_end(void);

/* Answer the request. GM_ANSWER_NONE: it waits for the next handler. `error`: an errno, or 0. */
void gm_recording_answer(enum gm_answer answer, int error);

/* In a forked child. */
void gm_recording_forget(void);

#endif
