/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entry and exit of each handler. Names: a program's call of cuX reaches on_cuX; real.cuX is the
 * driver's own function of exactly that symbol.
 *
 *     program -> on_cuX -> gm_shim_enter -> body -> GM_PASS(real.cuX()) -> body -> gm_shim_leave
 *
 * A handler runs on the program's thread, any number at a time. The only locks held across a call
 * of the driver are the capture lock (context/fence.h), and the mover's in a wake (sleep/sleep.c).
 */
#ifndef GM_SHIM_CALL_H
#define GM_SHIM_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"
#include "base/thread.h"
#include "base/tick.h"
#include "base/timing.h"
#include "context/context.h"
#include "context/fence.h"
#include "driver/driver.h"
#include "log/record.h"
#include "residency/door.h"
#include "shim/entry/hooks.h"
#include "shim/export_table/wrap.h"
#include "shim/life.h"
#include "shim/memory/lack.h"

/* The guard: not 0 while this thread is in a call of ours; hooks then only forward. */
extern GM_TLS unsigned gm_shim_inside;
extern GM_HIDDEN struct gm_driver gm_shim_driver; /* valid from ACTIVE on */

static inline bool gm_shim_active(void)
{
	return GM_LIKELY(atomic_load_explicit(&gm_shim_state, memory_order_acquire) ==
			 GM_SHIM_ACTIVE);
}

/* Put the guard up. False: the shim is not active, or the guard is up already; the handler then
 * forwards the call, and does not call gm_shim_leave. */
static inline bool gm_shim_enter(void)
{
	if (GM_LIKELY(gm_shim_active() && gm_shim_inside == 0)) {
		gm_shim_inside = 1;
		return true;
	}
	return false;
}

/* The error that the current context natively returns for every call: no context, an ended one, or
 * a sticky error. Else CUDA_SUCCESS. Invalidates no capture. Inside only. */
CUresult gm_shim_context_state(void);

/* The context of a stream (default streams: the current one), or NULL. Calls the driver. */
struct gm_context *gm_shim_context_of_stream(CUstream stream);

/* Do due work of modules and log, then take the guard down. In modules.c. */
void gm_shim_leave(void);

/* Make the program's own call. The guard is down meanwhile: hooks of other tools may run inside the
 * driver and query our blocks. */
#define GM_PASS(call)                      \
	({                                 \
		gm_shim_inside = 0;        \
		CUresult passed_ = (call); \
		gm_shim_inside = 1;        \
		gm_fence_suspect(passed_); \
		passed_;                   \
	})

/* Enter the door for a call of the program. */
static inline CUresult gm_shim_gate(void)
{
	if (GM_LIKELY(!atomic_load_explicit(&gm_door_used, memory_order_relaxed)))
		return CUDA_SUCCESS;
	gm_wrap_pass();
	return gm_door_enter_used();
}

/* Make a call; with the flag SUBMITS in hooks.def it passes the door of residency/door.h. */
#define GM_GATED(symbol, call)                                              \
	({                                                                  \
		const bool submits_ = GM_FLAGS_##symbol & SUBMITS;          \
		CUresult gated_ = submits_ ? gm_shim_gate() : CUDA_SUCCESS; \
		if (GM_LIKELY(gated_ == CUDA_SUCCESS)) {                    \
			gated_ = (call);                                    \
			if (submits_)                                       \
				gm_door_leave();                            \
		}                                                           \
		gated_;                                                     \
	})

/* A handler whose result is the value of an expression, the body. Unless `condition` holds, the
 * call goes to the driver unchanged. It passes the door even then: the driver may find work in
 * it. A lack of memory that the body did not report is reported here. */
#define GM_HANDLER_IF(condition, symbol, parameters, arguments, ...)                               \
	CUresult on_##symbol parameters                                                            \
	{                                                                                          \
		if (!gm_shim_enter())                                                              \
			return real.symbol arguments;                                              \
		CUresult result_ = GM_GATED(symbol, (condition) ? (__VA_ARGS__)                    \
								: GM_PASS(real.symbol arguments)); \
		if (GM_UNLIKELY(result_ == CUDA_ERROR_OUT_OF_MEMORY))                              \
			gm_lack_rest(GM_HOOK_##symbol);                                            \
		gm_shim_leave();                                                                   \
		return result_;                                                                    \
	}
#define GM_HANDLER(symbol, parameters, arguments, ...) \
	GM_HANDLER_IF(true, symbol, parameters, arguments, __VA_ARGS__)

/* --- the time of calls --- */

/* A call of the program ended at `now`, of the clock: samples may be due when the handler leaves.
 */
void gm_shim_happened(uint64_t now);
void gm_shim_happened_at(uint64_t moment); /* likewise, of gm_tick */

/* A call that is timed each time ended at `moment`, of gm_tick: it says nothing about the pace of
 * calls of which some are timed. */
void gm_shim_timed(uint64_t moment);

/* Begin a call of a frequent kind (timing.h). All such calls are timed if the log has a record of
 * each, or if the time of GPUMEM_LOG is less than a millisecond. */
extern GM_TLS struct gm_pace gm_shim_pace;
static inline struct gm_timing gm_shim_call(void)
{
	return gm_pace_call(&gm_shim_pace);
}

/* gm_tick at the end of this thread's last timed call; 0: none since its last gm_shim_leave. */
extern GM_TLS uint64_t gm_call_ended;
extern GM_TLS bool gm_call_paced; /* and its pace counts */

/* In ticks, if moments are the counter's: the last poll for due samples, the pause until the next,
 * and the pause between timed calls if each call is timed. */
extern GM_HIDDEN _Atomic uint64_t gm_call_sample_polled, gm_call_sample_pause, gm_call_timed_pause;

/* Set these anew; the clock time. */
uint64_t gm_call_sample_poll(uint64_t moment);

/* At the end of a handler: the time by the clock, or 0: no sample can be due. */
static inline uint64_t gm_call_sample_time(void)
{
	const uint64_t ended = gm_call_ended;
	gm_call_ended = 0;
	if (gm_tick_is_clock(ended))
		return ended;
	/* If the counter is set back, `passed` is a large number. */
	uint64_t passed =
		ended - atomic_load_explicit(&gm_call_sample_polled, memory_order_relaxed);
	uint64_t pause = atomic_load_explicit(&gm_call_sample_pause, memory_order_relaxed);
	uint64_t timed = atomic_load_explicit(&gm_call_timed_pause, memory_order_relaxed);
	if (gm_call_paced)
		gm_pace_ended(&gm_shim_pace, ended, timed);
	return passed >= pause ? gm_call_sample_poll(ended) : 0;
}

/* A log of events has begun: from its next timed call on, each thread times each call. */
void gm_shim_time_each(void);

/* The clock time of a record: not before that of the thread's last record. `moment` 0: now. */
uint64_t gm_shim_time(uint64_t moment);

/* A record with the common members of all records of calls. `time`: of the clock; `duration`: ns.
 */
static inline struct gm_record gm_shim_record(enum gm_record_kind kind, enum gm_hook_id hook,
					      const struct gm_context *context, uint64_t time,
					      uint64_t duration, CUresult result)
{
	return (struct gm_record){
		.time = time,
		.context = context ? (uint32_t)context->key : 0,
		.duration = duration < UINT32_MAX ? (uint32_t)duration : UINT32_MAX,
		.thread = gm_thread_id(),
		.hook = (uint16_t)hook,
		.status = (uint16_t)result,
		.device = context ? (uint8_t)context->ordinal : 255,
		.kind = (uint8_t)kind,
	};
}

/* In a forked child. */
void gm_call_forget(void);

#endif
