/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/worker.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"

#define SELDOM 1000000000u     /* ns between two checks where glibc does not count our threads */
#define JOIN_WAITS 1000000000u /* ns of one wait; the next follows */
#ifndef EXIT_WAITS
#define EXIT_WAITS 1000000000u /* ns at all gates together */
#endif

/* --- the thread --- */

static void worker_run(void *arg)
{
	struct gm_worker *worker = arg;
	prctl(PR_SET_NAME, worker->name);
	worker->checked = gm_clock_ns();
	worker->body(worker->arg);
}

int gm_worker_start(struct gm_worker *worker, const char *name, void (*body)(void *arg), void *arg)
{
	if (!gm_worker_claim(worker))
		return 0;
	worker->name = name;
	worker->body = body;
	worker->arg = arg;
	return gm_thread_start(&worker->start, worker_run, worker);
}

bool gm_worker_claim(struct gm_worker *worker)
{
	return !atomic_exchange(&worker->running, 1);
}

void gm_worker_end(struct gm_worker *worker)
{
	atomic_store(&worker->running, 0);
	gm_futex_wake(&worker->running);
}

void gm_worker_join(struct gm_worker *worker)
{
	while (atomic_load(&worker->running))
		gm_futex_wait(&worker->running, 1, JOIN_WAITS);
}

void gm_worker_wake(struct gm_worker *worker)
{
	atomic_fetch_add(&worker->bell, 1);
	gm_futex_wake(&worker->bell);
}

uint64_t gm_worker_check(uint64_t check)
{
	return gm_thread_keeps_process() || check > SELDOM ? check : SELDOM;
}

bool gm_worker_may_stay(struct gm_worker *worker, uint64_t check)
{
	uint64_t now = gm_clock_ns();
	if (now - worker->checked < gm_worker_check(check))
		return true;
	worker->checked = now;
	return !gm_thread_is_last();
}

bool gm_worker_sleep(struct gm_worker *worker, unsigned bell, uint64_t ns, uint64_t check)
{
	uint64_t now = gm_clock_ns(), end = now + ns;
	check = gm_worker_check(check);
	for (; now < end && gm_worker_bell(worker) == bell; now = gm_clock_ns()) {
		if (!gm_worker_may_stay(worker, check))
			return false;
		gm_futex_wait(&worker->bell, bell, end - now < check ? end - now : check);
	}
	return true;
}

void gm_worker_forget(struct gm_worker *worker)
{
	atomic_store(&worker->running, 0);
}

/* --- the gate --- */

bool gm_gate_enter(struct gm_gate *gate)
{
	atomic_fetch_add(&gate->inside, 1);
	if (!atomic_load(&gate->closed))
		return true;
	gm_gate_leave(gate);
	return false;
}

void gm_gate_leave(struct gm_gate *gate)
{
	if (atomic_fetch_sub(&gate->inside, 1) == 1 && atomic_load(&gate->closed))
		gm_futex_wake(&gate->inside);
}

static _Atomic uint64_t exit_end; /* of the waits at all gates; 0: none has been closed */

void gm_gate_close(struct gm_gate *gate)
{
	uint64_t end = 0, now = gm_clock_ns();
	unsigned inside;
	if (atomic_compare_exchange_strong(&exit_end, &end, now + EXIT_WAITS))
		end = now + EXIT_WAITS;
	atomic_store(&gate->closed, true);
	while ((inside = atomic_load(&gate->inside)) && (now = gm_clock_ns()) < end)
		gm_futex_wait(&gate->inside, inside, end - now);
}

void gm_gate_forget(struct gm_gate *gate)
{
	atomic_store(&gate->closed, false);
	atomic_store(&gate->inside, 0);
	atomic_store(&exit_end, 0);
}
