/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/life.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/thread.h"
#include "base/tick.h"
#include "heap/heap.h"
#include "knob/knob.h"
#include "log/counters.h"
#include "log/log.h"
#include "log/recording.h"
#include "node/node.h"
#include "shim/block/fill.h"
#include "shim/call.h"
#include "shim/copy/stage.h"
#include "shim/device.h"
#include "shim/entry/glibc_late.h"
#include "shim/entry/resolve.h"
#include "shim/give.h"
#include "shim/ipc/ipc.h"
#include "shim/kernel/launch.h"
#include "shim/modules.h"
#include "shim/order/order.h"
#include "shim/sleep.h"
#include "shim/table/tables.h"
#include "shim/torch/tensors.h"
#include "shim/trim.h"
#include "stack/held.h"
#include "stack/stack.h"

/* The driver of src/driver/exports.txt. A newer one may have further calls, such as captures. */
enum { NEWEST_DRIVER = 13040 };

_Atomic(enum gm_shim_state) gm_shim_state;

static atomic_bool started;
static pid_t process; /* the process that called life_start */

/* Does GPUMEM_PROGRAM name this program? Without /proc the name is from argv[0]. */
static bool program_matches(const char *pattern)
{
	char path[4096];
	if (!*pattern)
		return true;
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : program_invocation_short_name;
	return fnmatch(pattern, name, 0) == 0;
}

/* A function can be missing only before glibc 2.34, in a program that loaded a driver without libdl
 * or libpthread. */
static bool life_can_start(void)
{
	const char *missing = gm_resolve_on() ? gm_glibc_late_missing() : NULL;
	if (missing)
		gm_msg(GM_MSG_WARN, "off: this process has no %s", missing);
	return gm_resolve_on() && !missing;
}

static bool life_is_wanted(const struct gm_knobs *knobs)
{
	return knobs->enable.flag && program_matches(knobs->program.text);
}

static bool life_load_driver(void)
{
	const char *missing = gm_driver_load(&gm_shim_driver, gm_resolve_symbol, NULL);
	if (missing) {
		gm_msg(GM_MSG_WARN, "off: this driver has no %s", missing);
		return false;
	}
	gm_resolve_report();
	return gm_driver_query_version(&gm_shim_driver) == CUDA_SUCCESS;
}

static void life_open_log(bool pools, const struct gm_log_device *devices)
{
	static const char *const hooks[] = {
#define GM_HOOK(symbol, type, flags, help) #symbol,
#include "driver/hooks.def"
#undef GM_HOOK
	};
	struct gm_log_config config = {
		.mode = pools ? "pool" : "trace",
		.driver_version = gm_shim_driver.version,
		.devices = devices,
		.n_devices = gm_shim_n_devices,
		.hooks = hooks,
		.n_hooks = sizeof hooks / sizeof *hooks,
		.walk = gm_shim_walk,
	};
	gm_counters_open();
	gm_log_open(&config);
	gm_tables_start();
}

/* pre: there is a log with event records, or is about to be. `choice`: enum gm_stacks_choice. */
static void life_keep_stacks(int choice)
{
	if (choice == GM_STACKS_OFF)
		return;
	size_t least = choice == GM_STACKS_ALL ? 0 : GM_STACK_LARGE;
	if (!gm_stack_open(least, life_keep_stacks))
		gm_msg(GM_MSG_WARN, "GPUMEM_STACKS: there is no libgcc_s.so.1 here, stacks have no "
				    "C frames");
}

/* CUDA itself does not survive a fork. The child may call cuInit itself: it fails, or succeeds if
 * the parent never called it. */
static void life_fork_child(void)
{
	gm_modules_forget();
	atomic_store(&started, false);
	atomic_store(&gm_shim_state, GM_SHIM_DORMANT);
}

static enum gm_shim_state life_start(void)
{
	static struct gm_log_device devices[GM_COUNTER_DEVICES];
	static bool watching;
	const struct gm_knobs *knobs = gm_knob_get();
	process = getpid();
	gm_msg_set_level((enum gm_msg_level)knobs->verbose.choice);
	if (!life_is_wanted(knobs) || !life_load_driver())
		return GM_SHIM_OFF;
	bool pools = knobs->mode.choice == GM_MODE_POOL;
	gm_shim_devices_find(pools, devices);
	life_open_log(pools, devices);
	if (gm_log_wants(GM_RECORD_STACK))
		life_keep_stacks((int)knobs->stacks.choice);
	gm_recording_enable();
	gm_thread_open();
	gm_tick_start();
	gm_fill_on = pools && knobs->fill.choice != GM_FILL_OFF;
	gm_stage_start();
	gm_give_start();
	gm_sleep_start();
	if (atomic_load(&gm_door_used))
		atomic_fetch_or(&gm_launch_watched, GM_LAUNCH_GATED);
	if (gm_msg_first(&watching)) {
		pthread_atfork(NULL, NULL, life_fork_child);
		atexit(gm_trim_exit);
		atexit(gm_stage_exit);
		atexit(gm_heap_exit);
		atexit(gm_node_exit);
		atexit(gm_give_exit);
		atexit(gm_sleep_exit);
	}
	/* In known drivers the calls of capture.c begin all captures. */
	if (gm_shim_driver.version <= NEWEST_DRIVER)
		gm_fence_captures_counted();
	if (pools && knobs->free.choice == GM_FREE_ORDERED) {
		gm_shim_order = gm_submit_start();
		if (gm_shim_order)
			atomic_fetch_or(&gm_launch_watched, GM_LAUNCH_ORDERED);
	}
	return GM_SHIM_ACTIVE;
}

CUresult on_cuInit(unsigned int flags)
{
	CUresult result = real.cuInit(flags);
	if (result != CUDA_SUCCESS || gm_shim_inside || atomic_exchange(&started, true))
		return result;
	gm_shim_inside = 1;
	gm_msg_follow();
	enum gm_shim_state state = life_can_start() ? life_start() : GM_SHIM_OFF;
	gm_shim_inside = 0;
	atomic_store_explicit(&gm_shim_state, state, memory_order_release);
	return result;
}

/* --- recordings --- */

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
		life_keep_stacks(recording_stacks());
	gm_recording_begin();
	gm_shim_time_each();
	gm_shim_walk(before_add, NULL);
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

void gm_life_leave(uint64_t now)
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

/* Calls no driver, for it may be half gone at exit: the figures are the pools' own. A child made
 * without fork handlers (vfork, clone) has its parent's state, and must not close its log. */
__attribute__((destructor)) static void life_exit(void)
{
	if (atomic_load(&gm_shim_state) != GM_SHIM_ACTIVE || getpid() != process)
		return;
	gm_shim_sample(gm_clock_ns(), true);
	gm_heap_log_all();
	gm_ipc_report();
	gm_tables_exit();
	gm_log_close();
}
