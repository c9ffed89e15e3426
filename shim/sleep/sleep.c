/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/sleep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex_lock.h"
#include "base/msg.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/worker.h"
#include "knob/knob.h"
#include "residency/control.h"
#include "residency/move.h"
#include "rpc/rpc.h"
#include "shim/call.h"
#include "shim/context/capture.h"
#include "shim/copy/stage.h"
#include "shim/ipc/opens.h"
#include "shim/kernel/launch.h"
#include "shim/memory/device.h"
#include "shim/sleep/moves.h"
#include "shim/sleep/orders.h"
#include "shim/sleep/refusal.h"
#include "shim/sleep/rest.h"
#include "shim/sleep/sleep_bounds.h"
#include "shim/sleep/sleep_door.h"
#include "shim/sleep/sleep_figures.h"
#include "shim/sleep/sleep_store.h"
#include "shim/sleep/turns.h"

#define BOUND 2000000000u    /* ns that a move waits for the GPU and submissions; each refusal */
#define DOUBLINGS 4	     /* doubles it, so many times at most */
#define NAP 1000000u	     /* ns between two tries */
#define STEP 5000000u	     /* ns that the door is open for a step, if nothing passes it */
#define STEP_NAP 20000u	     /* ns between two looks whether something did */
#define ASK_EVERY 100000000u /* ns between two requests to other processes */
#define CHECK_EVERY 100000000u

enum cause {
	BY_IDLENESS, /* of this process, or for another one's turn */
	BY_ORDER,
	WITH_OTHERS /* by an order to several processes (orders.h) */
};

static struct gm_worker worker;
static struct gm_gate gate;
static struct gm_move mover;
static struct gm_futex_lock moving = {.rank = GM_LOCK_RANK_MOVER}; /* guards `mover` */
static atomic_uint refusals;
static _Atomic uint64_t moved_bytes;

/* For a wake. False: the process is awake, or wakes already. */
static bool mover_take_asleep(void)
{
	while (!gm_futex_lock_try_acquire(&moving)) {
		if (gm_door_state() != GM_DOOR_ASLEEP)
			return false;
		gm_sys_nap(NAP);
	}
	return true;
}

/* --- moves, under the lock `moving` --- */

/* `name`: of GM_CONTROL_NAME bytes; set only by a refusal. */
static enum gm_refusal pools_move(bool out, char *name)
{
	gm_futex_lock_assert_held(&moving);
	uint64_t bytes;
	enum gm_refusal refusal = gm_moves_run(&mover, out, &bytes, name);
	atomic_store(&moved_bytes, bytes);
	return refusal;
}

/* `name`: of GM_CONTROL_NAME bytes, and "" before. */
static enum gm_refusal sleep_is_possible(enum cause cause, char *name)
{
	gm_futex_lock_assert_held(&moving);
	enum gm_refusal refusal;
	if (gm_door_state() != GM_DOOR_OPEN)
		return GM_REFUSAL_AWAY;
	refusal = gm_refusal_find(cause != BY_IDLENESS, name, GM_CONTROL_NAME);
	if (refusal != GM_REFUSAL_NONE)
		return refusal;
	if (gm_capture_any())
		return GM_REFUSAL_CAPTURE;
	refusal = gm_move_find_room(&mover, gm_moves_need());
	snprintf(name, GM_CONTROL_NAME, "%s", mover.refused_for);
	return refusal;
}

/* So that questions about pointers never wait for memory: others may take all of it. */
static void stand_ins_make(void)
{
	gm_futex_lock_assert_held(&moving);
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		if (gm_shim_pool_if_any(i))
			gm_pool_stand_in(gm_shim_pool_if_any(i));
}

/* pre: the door is shut, and all work has completed. If not all contents can leave, those that left
 * return; if that fails as well, the process is partly asleep, and its next submission tries again.
 */
static enum gm_refusal pools_send(enum cause cause, char *name)
{
	gm_futex_lock_assert_held(&moving);
	/* devices opened since sleep_is_possible */
	enum gm_refusal refusal = gm_refusal_find(cause != BY_IDLENESS, name, GM_CONTROL_NAME);
	enum gm_door_state to = GM_DOOR_OPEN;
	char second[GM_CONTROL_NAME];
	if (refusal == GM_REFUSAL_NONE) {
		gm_opens_sweep();
		mover.store.expected = gm_moves_need();
		gm_sleep_store_bound(&mover);
		stand_ins_make();
		refusal = pools_move(true, name);
		stand_ins_make(); /* the device was full before */
		to = GM_DOOR_ASLEEP;
		if (refusal != GM_REFUSAL_NONE && !gm_gate_is_closed(&gate) &&
		    pools_move(false, second) == GM_REFUSAL_NONE)
			to = GM_DOOR_OPEN;
	}
	gm_door_set(to);
	return refusal;
}

/* The store keeps more than it may after a wake or a failed sleep. */
static bool store_is_large(void)
{
	gm_futex_lock_assert_held(&moving);
	return mover.store.kept && mover.store.banks > mover.store.warm;
}

/* --- a sleep --- */

/* By the thread: a registration takes its time to end. */
static void store_shrink_later(void)
{
	gm_orders_add(GM_ORDER_SHRINK);
}

static bool move_is_over(void)
{
	return gm_gate_is_closed(&gate);
}

/* The door is open: wait until a submission has passed it, and a while longer. */
static void step_take(void)
{
	const uint64_t before = gm_door_passages(), end = gm_clock_ns() + STEP;
	while (gm_door_passages() == before && gm_clock_ns() < end && !move_is_over())
		gm_sys_nap(STEP_NAP);
	if (gm_orders_step_ns())
		gm_sys_nap(gm_orders_step_ns());
}

/* As gm_sleep_door_close, and wait for others to do so. *begin: the time of HOLD; then of GO. The
 * door shuts at once, as those of the others: a process that goes on meanwhile would submit work
 * that waits for them. */
static enum gm_refusal door_close_together(uint64_t *begin)
{
	const uint64_t bound = gm_orders_hold_ns(), end = *begin + bound;
	enum gm_refusal refusal = GM_REFUSAL_NONE;
	while (refusal == GM_REFUSAL_NONE) {
		const uint64_t least =
			gm_clock_ns() + GM_SLEEP_DOOR_SHUT; /* after a late step, too */
		refusal = gm_sleep_door_try(end > least ? end : least, gm_orders_end_hold);
		if (refusal != GM_REFUSAL_NONE)
			break;
		unsigned order = gm_orders_await(end + bound, move_is_over);
		if (order == GM_ORDER_GO)
			break;
		gm_door_set(GM_DOOR_OPEN);
		if (order == GM_ORDER_STEP)
			step_take();
		else
			refusal = GM_REFUSAL_OTHERS;
	}
	*begin = gm_clock_ns();
	return refusal;
}

static enum gm_refusal process_stop(enum cause cause, uint64_t *begin)
{
	return cause == WITH_OTHERS
		       ? door_close_together(begin)
		       : gm_sleep_door_close(*begin + ((uint64_t)BOUND << atomic_load(&refusals)));
}

/* The next sleep may wait longer for the GPU. */
static void refusal_count(enum cause cause, enum gm_refusal refusal)
{
	if (refusal == GM_REFUSAL_NONE)
		atomic_store(&refusals, 0);
	else if (refusal != GM_REFUSAL_AWAY && cause != WITH_OTHERS &&
		 atomic_load(&refusals) < DOUBLINGS)
		atomic_fetch_add(&refusals, 1);
}

static enum gm_refusal process_sleep(enum cause cause)
{
	char name[GM_CONTROL_NAME] = "";
	uint64_t begin = gm_clock_ns();
	gm_futex_lock_take(&moving);
	atomic_store(&moved_bytes, 0);
	enum gm_refusal refusal = gm_gate_enter(&gate) ? GM_REFUSAL_NONE : GM_REFUSAL_EXIT;
	if (refusal == GM_REFUSAL_NONE) {
		refusal = sleep_is_possible(cause, name);
		if (refusal == GM_REFUSAL_NONE)
			refusal = process_stop(cause, &begin);
		if (refusal == GM_REFUSAL_NONE)
			refusal = pools_send(cause, name);
		gm_gate_leave(&gate);
	}
	refusal_count(cause, refusal);
	gm_sleep_record(GM_RECORD_SLEEP, refusal, name, begin, atomic_load(&moved_bytes));
	bool large = store_is_large();
	gm_futex_lock_release(&moving);
	if (large)
		store_shrink_later();
	return refusal;
}

/* Other processes get what a wake has fetched so far. */
static void pools_return(uint64_t *bytes)
{
	char name[GM_CONTROL_NAME];
	mover.store.expected = gm_moves_need();
	pools_move(true, name);
	*bytes = 0;
}

/* Fetch what is away, for *ns, unless another process waits longer; *bytes: of this wake on the
 * devices. */
static enum gm_refusal pools_try(struct gm_turn *turn, uint64_t *bytes, uint64_t *ns, char *name)
{
	bool may = gm_turns_may_take(turn);
	uint64_t begin = gm_clock_ns();
	enum gm_refusal refusal = may ? pools_move(false, name) : GM_REFUSAL_DEVICE_MEMORY;
	if (may && atomic_load(&moved_bytes)) {
		*bytes += atomic_load(&moved_bytes);
		*ns += gm_clock_ns() - begin;
	}
	if (!may && *bytes)
		pools_return(bytes);
	return refusal;
}

/* Another process may use some of the device's memory for a while, so ask again, and retry. */
static enum gm_refusal pools_fetch(char *name)
{
	enum gm_refusal refusal;
	uint64_t bytes = 0, ns = 0, ask_at = 0, now;
	struct gm_turn turn;
	gm_turns_begin(&turn, GM_REST_ANY, 0, 0);
	while ((refusal = pools_try(&turn, &bytes, &ns, name)) == GM_REFUSAL_DEVICE_MEMORY &&
	       !gm_turns_is_over(&turn, now = gm_clock_ns()) && !gm_gate_is_closed(&gate)) {
		uint64_t given = now >= ask_at ? gm_turns_reclaim(&turn) : 0;
		if (now >= ask_at)
			ask_at = gm_clock_ns() + ASK_EVERY;
		if (!given)
			gm_sys_nap(NAP);
	}
	if (refusal == GM_REFUSAL_DEVICE_MEMORY && bytes && !gm_gate_is_closed(&gate))
		pools_return(&bytes);
	gm_turns_end(&turn);
	if (refusal == GM_REFUSAL_NONE)
		gm_rest_woke(ns);
	atomic_store(&moved_bytes, bytes);
	return refusal;
}

/* pre: the caller uses `mover`, and the process sleeps. */
static CUresult pools_wake(uint64_t begin)
{
	char name[GM_CONTROL_NAME] = "";
	gm_door_set(GM_DOOR_SHUT);
	enum gm_refusal refusal = pools_fetch(name);
	gm_door_set(refusal == GM_REFUSAL_NONE ? GM_DOOR_OPEN : GM_DOOR_ASLEEP);
	gm_sleep_record(GM_RECORD_WAKE, refusal, name, begin, atomic_load(&moved_bytes));
	return refusal == GM_REFUSAL_NONE	     ? CUDA_SUCCESS
	       : refusal == GM_REFUSAL_DEVICE_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
						     : CUDA_ERROR_UNKNOWN;
}

/* Runs on the threads of submissions, or on ours. A failed wake is the answer for all submissions
 * that were there before its end: else each would wait for memory in turn. */
static CUresult process_wake(uint64_t since)
{
	static struct {
		uint64_t end; /* 0: none */
		CUresult result;
	} failed; /* for who uses `mover` */
	unsigned inside = gm_shim_inside;
	CUresult result = CUDA_SUCCESS;
	bool large = false;
	gm_shim_inside = 1;
	gm_thread_hold_cancel();
	if (mover_take_asleep()) {
		bool asleep = gm_door_state() == GM_DOOR_ASLEEP;
		if (asleep && failed.end >= since) {
			result = failed.result;
		} else if (asleep && (result = pools_wake(gm_clock_ns())) != CUDA_SUCCESS) {
			failed.end = gm_clock_ns();
			failed.result = result;
		}
		large = store_is_large();
		gm_futex_lock_release(&moving);
	}
	if (large)
		store_shrink_later();
	gm_thread_let_cancel();
	gm_shim_inside = inside;
	return result;
}

/* A wake by a submission may be in progress. */
static CUresult request_wake(void)
{
	CUresult result;
	while ((result = process_wake(gm_clock_ns())) == CUDA_SUCCESS &&
	       gm_door_state() != GM_DOOR_OPEN)
		gm_sys_nap(NAP);
	return result;
}

/* --- requests of the program itself --- */

/* A thread within a submission would wait for itself: it is refused after BOUND. */
CUresult gm_sleep_now(void)
{
	if (!atomic_load(&gm_door_used))
		return CUDA_ERROR_NOT_SUPPORTED;
	gm_thread_hold_cancel(); /* others wait for `mover` */
	enum gm_refusal refusal = process_sleep(BY_ORDER);
	gm_thread_let_cancel();
	return gm_refusal_result(refusal);
}

CUresult gm_sleep_wake_now(void)
{
	return atomic_load(&gm_door_used) ? request_wake() : CUDA_ERROR_NOT_SUPPORTED;
}

/* --- the thread --- */

static uint64_t sleep_after(void)
{
	return gm_knob_get()->sleep.sleep.after;
}

/* The driver ends a registration when all work is complete. False: some of it is pending after a
 * while; then it would keep this thread from its orders. */
static bool work_completes(void)
{
	bool does = gm_gate_enter(&gate);
	if (does) {
		does = !gm_capture_any() &&
		       gm_move_drain(&gm_shim_driver, gm_clock_ns() + GM_SLEEP_DOOR_SHUT) !=
			       GM_REFUSAL_BUSY;
		gm_gate_leave(&gate);
	}
	return does;
}

/* False: no bank is left to return, or the process ends. */
static bool bank_return(void)
{
	gm_futex_lock_take(&moving);
	bool more = gm_gate_enter(&gate);
	if (more) {
		more = gm_store_shrink(&mover.store);
		gm_gate_leave(&gate);
	}
	gm_futex_lock_release(&moving);
	return more;
}

/* Bank by bank, so that a move need not wait for all. A requested move comes first, and uses what
 * is left. */
static void store_shrink(void)
{
	bool more = true;
	while (more && !gm_orders_pending()) {
		more = work_completes() ? bank_return() : !gm_gate_is_closed(&gate);
		gm_sys_nap(NAP);
	}
	if (more)
		store_shrink_later();
}

/* Another process lacks memory. */
static void turn_take(void)
{
	if (!gm_gate_enter(&gate))
		return;
	bool may = gm_rest_may_sleep();
	gm_gate_leave(&gate);
	if (may)
		gm_rest_slept(process_sleep(BY_IDLENESS));
}

/* The door is not held any more. */
static void unheld_refuse(void)
{
	gm_sleep_outcome(gm_door_state() == GM_DOOR_ASLEEP ? GM_REFUSAL_AWAY : GM_REFUSAL_OTHERS,
			 "");
}

/* Of a process that is awake nothing moves. */
static void wake_obey(void)
{
	if (gm_door_state() == GM_DOOR_OPEN) {
		atomic_store(&moved_bytes, 0);
		gm_sleep_outcome(GM_REFUSAL_NONE, "");
	} else {
		request_wake();
	}
}

static void orders_obey(void)
{
	unsigned orders = gm_orders_take();
	if (orders & GM_ORDER_TURN)
		turn_take();
	if (orders & GM_ORDER_SLEEP)
		process_sleep(BY_ORDER);
	if (orders & GM_ORDERS_OF_HOLD && (!(orders & GM_ORDER_HOLD) || orders & GM_ORDER_WAKE))
		unheld_refuse();
	else if (orders & GM_ORDER_HOLD)
		process_sleep(WITH_OTHERS);
	if (orders & (GM_ORDER_WAKE | GM_ORDER_OPEN))
		wake_obey();
	gm_orders_complete();
	if (orders & GM_ORDER_SHRINK)
		store_shrink();
}

/* Of the thread: the door's present count, and the time of its last change. */
struct idle {
	uint64_t passages, since;
};

static void idle_check(struct idle *idle)
{
	uint64_t passages = gm_door_passages(), now = gm_clock_ns();
	if (passages != idle->passages || gm_door_state() != GM_DOOR_OPEN) {
		*idle = (struct idle){passages, now};
		return;
	}
	if (now - idle->since < sleep_after())
		return;
	if (!gm_gate_enter(&gate))
		return;
	bool still = gm_rest_is();
	gm_gate_leave(&gate);
	if (still)
		process_sleep(BY_IDLENESS);
	idle->since = gm_clock_ns();
}

/* False: the thread ends, or another thread was started. */
static bool sleeper_stay(void)
{
	uint64_t after = sleep_after();
	unsigned bell = gm_worker_bell(&worker);
	if (gm_orders_pending())
		return true;
	if (after == UINT64_MAX) {
		gm_worker_end(&worker);
		return gm_orders_pending() && gm_worker_claim(&worker);
	}
	if (gm_worker_sleep(&worker, bell, gm_sleep_pause(after), CHECK_EVERY))
		return true;
	gm_worker_end(&worker);
	return false;
}

static void sleeper_run(void *unused)
{
	struct idle idle = {0, gm_clock_ns()};
	(void)unused;
	gm_shim_inside = 1;
	do {
		orders_obey();
		if (sleep_after() != UINT64_MAX)
			idle_check(&idle);
	} while (sleeper_stay());
	gm_shim_inside = 0; /* exit handlers of the program may follow */
}

static int sleeper_start(void)
{
	if (gm_gate_is_closed(&gate))
		return 0;
	int error = gm_worker_start(&worker, "gpumem-sleep", sleeper_run, NULL);
	if (error)
		gm_worker_end(&worker);
	gm_worker_wake(&worker);
	return error;
}

/* --- the life --- */

static void control_fill(struct gm_control *control)
{
	control->moved = atomic_load(&moved_bytes);
	gm_sleep_figures(control, mover.folder.path);
}

static int turn_begin(void)
{
	return gm_orders_add(GM_ORDER_TURN);
}

void gm_sleep_wake_later(void)
{
	gm_orders_add(GM_ORDER_OPEN);
}

void gm_sleep_start(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	if (!knobs->sleep.sleep.on || knobs->mode.choice != GM_MODE_POOL)
		return;
	mover.driver = &gm_shim_driver;
	mover.ring = gm_stage_ring;
	mover.is_over = move_is_over;
	gm_sleep_store_begin(&mover);
	gm_door_begin(process_wake);
	gm_rest_start(turn_begin);
	gm_orders_begin(sleeper_start, control_fill);
	if (atomic_load(&gm_door_used))
		atomic_fetch_or(&gm_launch_watched, GM_LAUNCH_GATED);
}

void gm_sleep_pool_ready(unsigned ordinal)
{
	struct gm_rpc_address ignored;
	if (!atomic_load_explicit(&gm_door_used, memory_order_relaxed))
		return;
	int error = gm_rpc_join(gm_shim_devices[ordinal].uuid, &ignored);
	if (!error && sleep_after() != UINT64_MAX)
		error = sleeper_start();
	if (error)
		GM_MSG_ONCE(GM_MSG_WARN, "GPUMEM_SLEEP: this process cannot be asked to sleep: %s",
			    strerror(error));
}

void gm_sleep_exit(void)
{
	gm_gate_close(&gate);
}

void gm_sleep_forget(void)
{
	gm_orders_forget();
	gm_sleep_figures_forget();
	gm_worker_forget(&worker);
	gm_gate_forget(&gate);
	gm_sleep_store_forget(&mover);
	gm_door_forget();
	gm_futex_lock_init(&moving, GM_LOCK_RANK_MOVER);
	atomic_store(&refusals, 0);
}
