/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/life.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"
#include "knob/knob.h"
#include "log/counters.h"
#include "log/log.h"
#include "shim/call.h"
#include "shim/entry/glibc_late.h"
#include "shim/entry/resolve.h"
#include "shim/log/live.h"
#include "shim/memory/device.h"
#include "shim/modules.h"

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
		.walk = gm_live_walk,
	};
	gm_counters_open();
	gm_log_open(&config);
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
	gm_modules_start();
	if (gm_msg_first(&watching)) {
		pthread_atfork(NULL, NULL, life_fork_child);
		atexit(gm_modules_exit);
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

/* Calls no driver, for it may be half gone at exit: the figures are the pools' own. A child made
 * without fork handlers (vfork, clone) has its parent's state, and must not close its log. */
__attribute__((destructor)) static void life_exit(void)
{
	if (atomic_load(&gm_shim_state) != GM_SHIM_ACTIVE || getpid() != process)
		return;
	gm_modules_report();
	gm_log_close();
}
