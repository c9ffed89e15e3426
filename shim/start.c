/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of the shim: the program's first cuInit that succeeds, fork, exit. */
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"
#include "base/tick.h"
#include "handle.h"
#include "handlers.h"
#include "inkernel.h"
#include "knob/knob.h"
#include "late.h"

#define LOOK_NS 1000000u

_Atomic(enum gm_shim_state) gm_shim_state;
GM_TLS unsigned gm_shim_inside;
struct gm_driver gm_shim_driver;

static atomic_bool started;
static pid_t process;	       /* that started */
static GM_TLS uint64_t latest; /* gm_tick when this thread's last timed call ended */
GM_TLS struct gm_pace gm_shim_pace;

/* Where moments are the counter's: when it was last looked whether samples are due, and for how
 * long nobody looks again. */
static _Atomic uint64_t looked, look_pause;

void gm_shim_happened(uint64_t now)
{
	latest = now & ~(uint64_t)1;
}

void gm_shim_happened_at(uint64_t moment)
{
	latest = moment;
}

void gm_shim_look(uint64_t now)
{
	gm_shim_sample(now, false);
	gm_used_look(now);
}

static __attribute__((noinline)) void look_now_and_then(uint64_t moment)
{
	uint64_t pause = gm_knob_get()->sample.ns < LOOK_NS ? 0 : gm_tick_of_ns(LOOK_NS);
	atomic_store_explicit(&look_pause, pause, memory_order_relaxed);
	atomic_store_explicit(&looked, moment, memory_order_relaxed);
	gm_shim_look(gm_clock_ns());
}

struct gm_record gm_shim_record(enum gm_record_kind kind, enum gm_hook_id hook,
				const struct gm_context *context, uint64_t start, uint64_t end,
				CUresult result)
{
	uint64_t duration = end - start;
	gm_shim_happened(end);
	return (struct gm_record){
		.time = kind == GM_RECORD_FREE ? start : end,
		.context = context ? (uint32_t)context->key : 0,
		.duration = duration < UINT32_MAX ? (uint32_t)duration : UINT32_MAX,
		.hook = (uint16_t)hook,
		.status = (uint16_t)result,
		.device = context ? (uint8_t)context->ordinal : 255,
		.kind = (uint8_t)kind,
	};
}

void gm_shim_leave(void)
{
	if (!gm_tick_is_clock(latest)) {
		/* Should the counter ever be set back, this is a long time. */
		uint64_t passed = latest - atomic_load_explicit(&looked, memory_order_relaxed);
		uint64_t pause = atomic_load_explicit(&look_pause, memory_order_relaxed);
		gm_pace_ended(&gm_shim_pace, latest, pause);
		if (passed >= pause)
			look_now_and_then(latest);
	} else if (latest) {
		gm_shim_look(latest);
	}
	latest = 0;
	if (GM_UNLIKELY(atomic_load_explicit(&gm_trim_wanted, memory_order_relaxed)))
		gm_trim_start();
	if (gm_inkernel_has_news())
		gm_inkernel_look();
	gm_log_poll();
	gm_shim_inside = 0;
}

/* GPUMEM_PROGRAM: is it this one? Without /proc its name is what it was called by. */
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

/* Something is missing only where a program came to a driver without libdl and libpthread, before
 * glibc 2.34. */
static bool can_start(void)
{
	const char *missing = gm_resolve_on() ? gm_late_missing() : NULL;
	if (missing)
		gm_msg(GM_MSG_WARN, "off: this process has no %s", missing);
	return gm_resolve_on() && !missing;
}

static bool wanted(const struct gm_knobs *knobs)
{
	return knobs->enable.flag && program_matches(knobs->program.text) &&
	       !gm_knob_must_stay_off();
}

static bool find_driver(void)
{
	const char *missing = gm_driver_load(&gm_shim_driver, gm_resolve_symbol, NULL);
	if (missing) {
		gm_msg(GM_MSG_WARN, "off: this driver has no %s", missing);
		return false;
	}
	gm_resolve_report();
	return gm_driver_ask_version(&gm_shim_driver) == CUDA_SUCCESS;
}

static void open_log(bool pools, const struct gm_log_device *devices)
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
}

/* The parent's pools, log and contexts are not the child's; CUDA itself does not survive a fork.
 * The child may call cuInit in its own right, which fails, or succeeds if the parent never did. */
static void forget(void)
{
	gm_shim_inside = 0;
	latest = 0;
	atomic_store(&gm_launch_watched, 0);
	gm_trim_forget();
	gm_inkernel_forget();
	gm_handle_forget_all();
	gm_shim_devices_forget();
	gm_used_forget();
	gm_foreign_forget_all();
	gm_create_forget_all();
	gm_graph_forget_all();
	gm_peer_forget_all();
	gm_memops_forget_all();
	gm_fill_forget();
	gm_core_forget();
	gm_capture_forget_all();
	gm_fence_forget_all();
	gm_context_forget_all();
	gm_log_forget();
	gm_counters_forget();
	atomic_store(&started, false);
	atomic_store(&gm_shim_state, GM_SHIM_SLEEPING);
}

static enum gm_shim_state start(void)
{
	static struct gm_log_device devices[GM_COUNTER_DEVICES];
	static bool watching;
	const struct gm_knobs *knobs = gm_knob_get();
	process = getpid();
	gm_msg_set_level((enum gm_msg_level)knobs->verbose.choice);
	if (!wanted(knobs) || !find_driver())
		return GM_SHIM_OFF;
	bool pools = knobs->mode.choice == GM_MODE_POOL;
	gm_shim_devices_find(pools, devices);
	open_log(pools, devices);
	if (knobs->log.choice != GM_LOG_EVENTS) /* whose records say when a call was */
		gm_tick_start();
	gm_fill_on = pools && knobs->fill.choice != GM_FILL_OFF;
	if (knobs->launches.flag)
		atomic_fetch_or(&gm_launch_watched, GM_LAUNCH_COUNTED);
	if (gm_msg_first(&watching)) {
		pthread_atfork(NULL, NULL, forget);
		atexit(gm_trim_exit);
		atexit(gm_heap_exit);
	}
	/* Only capture.c's calls begin one; later drivers have another, which is not hooked. */
	if (!gm_resolve_symbol(NULL, "cuStreamBeginRecaptureToGraph"))
		gm_fence_captures_counted();
	return GM_SHIM_ACTIVE;
}

CUresult on_cuInit(unsigned int flags)
{
	CUresult result = real.cuInit(flags);
	if (result != CUDA_SUCCESS || gm_shim_inside || atomic_exchange(&started, true))
		return result;
	gm_shim_inside = 1;
	enum gm_shim_state state = can_start() ? start() : GM_SHIM_OFF;
	gm_shim_inside = 0;
	atomic_store_explicit(&gm_shim_state, state, memory_order_release);
	return result;
}

/* Numbers come from the pools' own books: at exit the driver may be half gone. A child that was
 * made around fork handlers has its parent's state, whose log it must not close. */
__attribute__((destructor)) static void finish(void)
{
	if (atomic_load(&gm_shim_state) != GM_SHIM_ACTIVE || getpid() != process)
		return;
	gm_shim_sample(gm_clock_ns(), true);
	gm_heap_log_all();
	gm_log_close();
}
