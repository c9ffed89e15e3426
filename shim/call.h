/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entry and exit of each handler. Names: on_cuX is the function that a caller of cuX
 * reaches, real.cuX the driver's own function of exactly that symbol.
 *
 *     program -> on_cuX -> gm_shim_enter -> body -> GM_PASS(real.cuX()) -> body -> gm_shim_leave
 *
 * A handler runs on the program's thread, any number at a time. None holds a lock across a call of
 * the driver but the capture lock (context/fence.h).
 */
#ifndef GM_SHIM_CALL_H
#define GM_SHIM_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"
#include "base/timing.h"
#include "context/context.h"
#include "context/fence.h"
#include "driver/driver.h"
#include "log/record.h"
#include "residency/door.h"
#include "shim/entry/hooks.h"
#include "shim/life.h"

/* The guard: not 0 while this thread is in a call of ours, in which hooks only forward. */
extern GM_TLS unsigned gm_shim_inside;
extern struct gm_driver gm_shim_driver; /* valid from ACTIVE on */

static inline bool gm_shim_active(void)
{
	return GM_LIKELY(atomic_load_explicit(&gm_shim_state, memory_order_acquire) ==
			 GM_SHIM_ACTIVE);
}

/* Put the guard up. False: the shim is not active, or this thread is inside already; the handler
 * then forwards the call, and does not leave. */
static inline bool gm_shim_enter(void)
{
	if (GM_LIKELY(gm_shim_active() && gm_shim_inside == 0)) {
		gm_shim_inside = 1;
		return true;
	}
	return false;
}

/* What keeps every call from working in the current context, as natively: there is none, it has
 * ended, or an error stays with it. Else CUDA_SUCCESS. No capture is invalidated. Inside only. */
CUresult gm_shim_context_state(void);

/* Do the work that is due (gm_modules_leave, gm_log_poll), then take the guard down. */
void gm_shim_leave(void);

/* Make the program's own call. The guard is down meanwhile: hooks of other tools may run inside the
 * driver and ask us about blocks. */
#define GM_PASS(call)                      \
	({                                 \
		gm_shim_inside = 0;        \
		CUresult passed_ = (call); \
		gm_shim_inside = 1;        \
		gm_fence_suspect(passed_); \
		passed_;                   \
	})

/* A call by its flags in hooks.def: one that submits passes the door of residency/door.h. */
#define GM_GATED(symbol, call)                                               \
	({                                                                   \
		const bool submits_ = GM_FLAGS_##symbol & SUBMITS;           \
		CUresult gated_ = submits_ ? gm_door_enter() : CUDA_SUCCESS; \
		if (GM_LIKELY(gated_ == CUDA_SUCCESS)) {                     \
			gated_ = (call);                                     \
			if (submits_)                                        \
				gm_door_leave();                             \
		}                                                            \
		gated_;                                                      \
	})

/* A handler whose result is that of an expression, the body. Unless `condition` holds, the call
 * goes to the driver as it is, through the door as well: it may find something to do. */
#define GM_HANDLER_IF(condition, symbol, parameters, arguments, ...)                               \
	CUresult on_##symbol parameters                                                            \
	{                                                                                          \
		if (!gm_shim_enter())                                                              \
			return real.symbol arguments;                                              \
		CUresult result_ = GM_GATED(symbol, (condition) ? (__VA_ARGS__)                    \
								: GM_PASS(real.symbol arguments)); \
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

/* A call begins of a kind that programs make often (timing.h). All are timed where the log has a
 * record of each, and where GPUMEM_SAMPLE is less than a millisecond. */
extern GM_TLS struct gm_pace gm_shim_pace;
static inline struct gm_timing gm_shim_call(void)
{
	return gm_pace_call(&gm_shim_pace);
}

/* A record with the members that all records of calls have. The call began at `start` and ended at
 * `end`, both of the clock, as moments of gm_tick are where events are logged. */
struct gm_record gm_shim_record(enum gm_record_kind kind, enum gm_hook_id hook,
				const struct gm_context *context, uint64_t start, uint64_t end,
				CUresult result);

/* In a forked child. */
void gm_call_forget(void);

#endif
