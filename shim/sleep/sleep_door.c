/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/sleep_door.h"

#include "base/clock.h"
#include "residency/door.h"
#include "shim/call.h"
#include "shim/context/capture.h"

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Until when to wait before another look. */
static uint64_t slice_end(uint64_t until)
{
	return sooner(until, gm_clock_ns() + GM_SLEEP_DOOR_SHUT);
}

/* `gives_up` (NULL: never): nobody waits for the door any more. */
static bool try_is_over(uint64_t until, bool (*gives_up)(void))
{
	return gm_clock_ns() >= until || (gives_up && gives_up());
}

enum gm_refusal gm_sleep_door_try(uint64_t until, bool (*gives_up)(void))
{
	enum gm_refusal refusal;
	bool shut;
	do
		shut = gm_door_shut(slice_end(until));
	while (!shut && !try_is_over(until, gives_up));
	if (!shut)
		return GM_REFUSAL_SUBMISSION;
	do
		refusal = gm_capture_any() ? GM_REFUSAL_CAPTURE
					   : gm_move_drain(&gm_shim_driver, slice_end(until));
	while (refusal == GM_REFUSAL_BUSY && !try_is_over(until, gives_up));
	if (refusal != GM_REFUSAL_NONE)
		gm_door_set(GM_DOOR_OPEN);
	return refusal;
}

enum gm_refusal gm_sleep_door_close(uint64_t end)
{
	enum gm_refusal refusal;
	uint64_t patience = GM_SLEEP_DOOR_SHUT;
	do {
		uint64_t begin = gm_clock_ns();
		refusal = gm_door_await(end) ? gm_move_drain(&gm_shim_driver, end)
					     : GM_REFUSAL_SUBMISSION;
		if (refusal != GM_REFUSAL_NONE)
			return refusal;
		uint64_t now = gm_clock_ns(), most = GM_SLEEP_DOOR_SHUT + now - begin;
		uint64_t until = now + (patience < most ? patience : most);
		refusal = gm_sleep_door_try(sooner(until, end), NULL);
		if (refusal == GM_REFUSAL_NONE)
			return refusal;
		patience *= 2;
	} while ((refusal == GM_REFUSAL_BUSY || refusal == GM_REFUSAL_SUBMISSION) &&
		 gm_clock_ns() < end);
	return refusal;
}
