/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was idle for GPUMEM_TRIM_AFTER is returned to the driver, also while the program
 * sleeps. The trim thread returns it, and sleeps until the first chunk is due. A call that leaves
 * memory idle starts the thread, which ends when no memory is idle. With GPUMEM_TRIM_AFTER=0 that
 * call returns the memory itself.
 *
 * Empty chunks of a context's device heap become idle memory of its pool once no kernel was in
 * flight for as long. To find them a kernel has to run, and a thread has to wait for it. A call of
 * the program should not wait, and the heap's service thread must not, so the trim thread waits,
 * even with GPUMEM_TRIM_AFTER=0. The service thread starts it, for no call of the program follows
 * the end of kernels.
 *
 * The slots of copies (copy/ring.h) are freed likewise, at least a second after the last copy.
 *
 * Beside processes that cannot ask for it (shim/idle/neighbour.h) memory goes back sooner.
 *
 * Before it first sleeps the thread lets other processes find this one (shim/idle/give.h): they may
 * ask for the idle memory earlier. The program's calls are spared that.
 *
 * If the program's main has ended by pthread_exit, the trim thread must not keep the process alive:
 * base/thread.h.
 *
 * Once the process exits the thread makes no more calls of the driver (gm_gate_close).
 */
#include <errno.h>
#include <string.h>

#include "base/msg.h"
#include "base/worker.h"
#include "knob/knob.h"
#include "log/log.h"
#include "shim/call.h"
#include "shim/idle/give.h"
#include "shim/idle/neighbour.h"
#include "shim/idle/trim.h"
#include "shim/log/samples.h"
#include "shim/memory/device.h"
#include "shim/modules.h"

#define LEAST_NAP 1000000u     /* ns until a retry, if due memory could not be returned */
#define CHECK_EVERY 100000000u /* ns between checks whether the program's threads have ended */

atomic_bool gm_trim_wanted;
static struct gm_worker worker;
static struct gm_gate gate;

/* True: calls of the program return pools' idle memory; the thread serves only heaps and copies. */
static bool trim_is_immediate(void)
{
	return gm_knob_get()->trim_after.trim.after == 0;
}

/* The `crowded` of struct gm_pool_config, and its `idle` for GPUMEM_TRIM_AFTER=0: called under the
 * pool's lock, it sets a flag. Calls of the program trim pools, whether the thread runs or not. */
static void pool_is_due(void *unused)
{
	(void)unused;
	atomic_store_explicit(&gm_trim_wanted, true, memory_order_relaxed);
}

/* The `idle`, else. */
static void pool_is_idle(void *unused)
{
	if (!gm_worker_is_running(&worker))
		pool_is_due(unused);
}

void gm_trim_pool_config(unsigned ordinal, struct gm_pool_config *config)
{
	(void)ordinal;
	if (gm_knob_get()->trim_after.trim.after == UINT64_MAX)
		return;
	config->idle = trim_is_immediate() ? pool_is_due : pool_is_idle;
	config->crowded = pool_is_due;
}

void gm_trim_exit(void)
{
	gm_gate_close(&gate);
}

/* The time of the thread's next work. */
static uint64_t trim_next(void)
{
	uint64_t next = gm_modules_trim_next();
	for (unsigned i = 0; i < gm_shim_n_devices && !trim_is_immediate(); i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		uint64_t due = pool ? gm_pool_trim_next(pool) : UINT64_MAX;
		next = due < next ? due : next;
	}
	return next;
}

/* Return one chunk that is due at `now`, of any pool; returns its bytes. */
static uint64_t trim_pools(uint64_t now)
{
	uint64_t given = 0;
	for (unsigned i = 0; i < gm_shim_n_devices && !given; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (pool)
			given = gm_pool_trim(pool, now);
	}
	return given;
}

/* Beside processes that hold more of a device than at first, its idle memory is due sooner. */
static void trim_beside_others(void)
{
	for (unsigned i = 0; i < gm_shim_n_devices && gm_neighbour_matters(); i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (pool && gm_pool_trim_next(pool) != UINT64_MAX)
			gm_pool_trim_sooner(pool,
					    gm_neighbour_came(i) ? GM_NEIGHBOUR_AFTER : UINT64_MAX);
	}
}

/* Return all due memory; false: the process exits. */
static bool trim_due(void)
{
	uint64_t given, sum = 0;
	if (!gm_gate_enter(&gate))
		return false;
	trim_beside_others();
	gm_gate_leave(&gate);
	do {
		if (!gm_gate_enter(&gate))
			return false;
		uint64_t now = gm_clock_ns();
		given = trim_pools(now);
		if (!given)
			given = gm_modules_trim(now);
		sum += given;
		if (!given && sum) {
			gm_samples_write(gm_clock_ns(), false);
			gm_log_poll();
		}
		gm_gate_leave(&gate);
	} while (given);
	return true;
}

/* --- the thread --- */

/* The time of the next work; UINT64_MAX: the thread ends. A call that leaves memory idle after
 * gm_worker_end starts another thread. */
static uint64_t trim_stay(void)
{
	uint64_t due = trim_next();
	if (due != UINT64_MAX)
		return due;
	gm_worker_end(&worker);
	due = trim_next();
	return due != UINT64_MAX && gm_worker_claim(&worker) ? due : UINT64_MAX;
}

/* False: the program's threads have ended. */
static bool trim_sleep(uint64_t due)
{
	uint64_t now = gm_clock_ns(), nap = gm_knob_get()->trim_after.trim.after;
	if (due <= now)
		due = now + (nap > LEAST_NAP ? nap : LEAST_NAP);
	if (due - now > GM_NEIGHBOUR_EVERY && gm_neighbour_matters())
		due = now + GM_NEIGHBOUR_EVERY;
	if (gm_worker_sleep(&worker, gm_worker_bell(&worker), due - now, CHECK_EVERY))
		return true;
	gm_worker_end(&worker); /* exit handlers that free may start another thread */
	return false;
}

static void trim_run(void *unused)
{
	uint64_t due;
	(void)unused;
	gm_shim_inside = 1;
	do {
		gm_give_join(); /* again: the program may have closed the sockets */
		due = trim_stay();
	} while (due != UINT64_MAX && trim_sleep(due) && trim_due());
	gm_shim_inside = 0; /* exit handlers of the program may follow */
}

static void trim_start_thread(void)
{
	if (gm_gate_is_closed(&gate) || trim_next() == UINT64_MAX)
		return;
	int error = gm_worker_start(&worker, "gpumem", trim_run, NULL);
	if (error)
		gm_msg(GM_MSG_WARN, "no thread for GPUMEM_TRIM_AFTER: %s; idle memory stays",
		       strerror(error));
}

static void trim_rouse(void)
{
	if (gm_worker_is_running(&worker))
		gm_worker_wake(&worker);
	else
		trim_start_thread();
}

/* Memory is idle, or due: trim now, or rouse the thread. */
static void trim_start(void)
{
	int saved = errno;
	atomic_store_explicit(&gm_trim_wanted, false, memory_order_relaxed);
	if (trim_is_immediate())
		while (trim_pools(gm_clock_ns()))
			;
	else
		trim_rouse();
	errno = saved;
}

void gm_trim_leave(uint64_t now)
{
	(void)now;
	if (gm_trim_due())
		trim_start();
}

void gm_trim_heap_idle(void *unused)
{
	(void)unused;
	trim_start_thread();
}

void gm_trim_order_waits(void)
{
	trim_rouse();
}

void gm_trim_slots_idle(void)
{
	if (!gm_worker_is_running(&worker))
		trim_start_thread();
}

void gm_trim_forget(void)
{
	atomic_store(&gm_trim_wanted, false);
	gm_worker_forget(&worker);
	gm_gate_forget(&gate);
}
