/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/log/recorder.h"

#include <errno.h>

#include "base/msg.h"
#include "knob/knob.h"
#include "log/log.h"
#include "log/recording.h"
#include "shim/call.h"
#include "shim/log/live.h"
#include "shim/torch/tensors.h"
#include "stack/held.h"
#include "stack/stack.h"

/* As a value of GPUMEM_STACKS says (knob.h). There is a log with event records, or is about to be.
 * One thread at a time. */
static void keep_stacks(int choice)
{
	if (choice == GM_STACKS_OFF)
		return;
	size_t least = choice == GM_STACKS_ALL ? 0 : GM_STACK_LARGE;
	if (!gm_stack_open(least, keep_stacks))
		gm_msg(GM_MSG_WARN, "GPUMEM_STACKS: there is no libgcc_s.so.1 here, stacks have no "
				    "C frames");
}

static void before_add(void *arg, const struct gm_record *live)
{
	(void)arg;
	if (live->kind == GM_RECORD_LIVE && !live->stack)
		gm_held_add_before(live->id);
}

/* Who asks for a recording wants to know whose memory it is, unless the program was told otherwise.
 */
static int recording_stacks(void)
{
	return gm_knob_origin(GM_KNOB_ID_stacks).source == GM_KNOB_DEFAULT
		       ? GM_STACKS_LARGE
		       : (int)gm_knob_get()->stacks.choice;
}

/* Stacks are kept before events are, so that each event may have one. What an earlier recording
 * left behind, of a call at its end, is dropped. */
static enum gm_answer recording_begin(int *error)
{
	*error = gm_recording_open();
	if (*error)
		return GM_ANSWER_FAILED;
	gm_held_clear();
	gm_tensors_clear();
	if (gm_recording_keeps(GM_RECORD_STACK))
		keep_stacks(recording_stacks());
	gm_recording_begin();
	gm_shim_time_each();
	gm_live_walk(before_add, NULL);
	gm_tensors_add_before();
	gm_recording_checkpoint();
	return GM_ANSWER_BEGUN;
}

static enum gm_answer recording_end(int *error)
{
	gm_recording_stop();
	gm_stack_close();
	gm_tensors_clear();
	*error = gm_recording_error();
	return gm_recording_end() ? GM_ANSWER_ENDED : GM_ANSWER_NONE;
}

static enum gm_answer recording_begin_again(int *error)
{
	return recording_end(error) == GM_ANSWER_ENDED ? recording_begin(error) : GM_ANSWER_NONE;
}

static enum gm_answer recording_goes_on(int *error)
{
	(void)error;
	return GM_ANSWER_GOES_ON;
}

/* The last one may have ended early. */
static enum gm_answer recording_is_none(int *error)
{
	*error = gm_recording_error();
	return GM_ANSWER_IDLE;
}

static enum gm_answer recording_is_own(int *error)
{
	(void)error;
	return GM_ANSWER_OWN;
}

void gm_recorder_start(void)
{
	if (gm_log_wants(GM_RECORD_STACK))
		keep_stacks((int)gm_knob_get()->stacks.choice);
	gm_recording_enable();
}

void gm_recorder_leave(uint64_t now)
{
	/* By request, then by state. */
	static enum gm_answer (*const acts[][4])(int *error) = {
		[GM_REQUEST_NONE] = {[GM_RECORDING_BROKEN] = recording_end},
		[GM_REQUEST_EVENTS] = {recording_begin, recording_goes_on, recording_is_own,
				       recording_begin_again},
		[GM_REQUEST_SMALL] = {recording_is_none, recording_end, recording_is_own,
				      recording_end},
	};
	enum gm_request request;
	enum gm_recording_state state;
	enum gm_answer answer = GM_ANSWER_UNKNOWN;
	int error = 0, saved = errno;
	(void)now;
	if (!gm_recording_is_due() || !gm_recording_take(&request, &state))
		return;
	if (request < sizeof acts / sizeof *acts && acts[request][state])
		answer = acts[request][state](&error);
	gm_recording_answer(answer, error);
	errno = saved;
}
