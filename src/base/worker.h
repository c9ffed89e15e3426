/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of ours in the program's process. A worker is one such thread: started when there is
 * work, asleep in between, ended when there is none. A gate keeps workers from calling the driver
 * once the process exits.
 *
 *   program   gm_worker_start     gm_worker_wake                     gm_worker_join
 *                   |                   |                                  :
 *   worker          body ... gm_worker_sleep ... gate: enter, calls, leave ... gm_worker_end
 *                                                          :
 *   exit handler                             gm_gate_close, waits for calls in progress
 *
 * Any thread, unless said otherwise. Both structures begin zeroed.
 */
#ifndef GM_BASE_WORKER_H
#define GM_BASE_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"

struct gm_worker {
	atomic_uint running; /* a thread exists, or none could be made; a futex */
	atomic_uint bell;    /* counts gm_worker_wake; a futex */
	uint64_t checked;    /* ns: time of the last gm_thread_is_last; the thread alone uses it */
	const char *name;
	void (*body)(void *arg);
	void *arg;
	struct gm_thread_start start;
};

/*
 * Run body(arg) on a new thread unless one is running: detached, all signals blocked, called `name`
 * (a literal of at most 15 characters). 0 or an errno. After an error the worker still counts as
 * running, until gm_worker_end, so that no other call tries again.
 *
 * The body calls gm_worker_end before it returns.
 */
int gm_worker_start(struct gm_worker *worker, const char *name, void (*body)(void *arg), void *arg);

/* Called by the thread when it is not needed any more: the next gm_worker_start makes another
 * thread. Afterwards the thread uses nothing of the worker, so the worker may be freed. */
void gm_worker_end(struct gm_worker *worker);

/* Called by the thread after gm_worker_end, to go on after all. False: another thread was
 * started. */
bool gm_worker_claim(struct gm_worker *worker);

static inline bool gm_worker_is_running(const struct gm_worker *worker)
{
	return atomic_load_explicit(&worker->running, memory_order_relaxed);
}

/* Wait for gm_worker_end; the caller has told the thread to end. */
void gm_worker_join(struct gm_worker *worker);

/* Wake the thread. Not lost if it is awake: it reads the bell, then checks for work, then sleeps.
 */
void gm_worker_wake(struct gm_worker *worker);
static inline unsigned gm_worker_bell(const struct gm_worker *worker)
{
	return atomic_load(&worker->bell);
}

/* ns between two checks whether a thread of ours may stay: `check`, or a second where glibc does
 * not count these threads (thread.h). */
uint64_t gm_worker_check(uint64_t check);

/* Called by the thread. False: all threads of the program have ended (gm_thread_is_last), so this
 * one has to end; exit handlers may then run on it. Tests that every gm_worker_check(check) ns;
 * true in between. */
bool gm_worker_may_stay(struct gm_worker *worker, uint64_t check);

/* Called by the thread: sleep for `ns`, or until the bell is not `bell`. False: gm_worker_may_stay,
 * tested meanwhile, is false. */
bool gm_worker_sleep(struct gm_worker *worker, unsigned bell, uint64_t ns, uint64_t check);

/* In a forked child: there is no thread. */
void gm_worker_forget(struct gm_worker *worker);

/* Either a thread that enters sees that the gate is closed, or gm_gate_close sees that thread. */
struct gm_gate {
	atomic_bool closed;
	atomic_uint inside; /* threads; a futex */
};

/* Around driver calls that the program did not make. False: the process exits. */
bool gm_gate_enter(struct gm_gate *gate);
void gm_gate_leave(struct gm_gate *gate);

static inline bool gm_gate_is_closed(const struct gm_gate *gate)
{
	return atomic_load(&gate->closed);
}

/* The process exits: admit no more threads, and wait for those inside, for a second at all gates
 * together: the caller may hold a lock of the driver that they wait for. */
void gm_gate_close(struct gm_gate *gate);

/* In a forked child: no thread is inside, and the child does not exit. */
void gm_gate_forget(struct gm_gate *gate);

#endif
