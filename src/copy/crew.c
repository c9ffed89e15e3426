/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy/crew.h"

#include <sched.h>

#include "base/cores.h"

#ifndef LINGER
#define LINGER 2000000000u /* ns without a job, after which a thread ends */
#endif
#define CHECK_EVERY 250000000u /* ns between checks whether the program's threads have ended */

static bool job_is_open(unsigned job)
{
	return job % 2;
}

/*
 *     member    inside += 1, reads job          All are sequentially consistent: the owner sees the
 *     owner     job += 1, reads inside          member, or the member sees that the job is closed.
 *
 * A member may be woken late, for a job that has more members than the open one. The owner changes
 * `n` only while no job is open and no member is inside.
 */
static bool member_enter(struct gm_crew *crew, unsigned i, unsigned *last)
{
	atomic_fetch_add(&crew->inside, 1);
	unsigned job = atomic_load(&crew->job);
	if (job_is_open(job) && job != *last) {
		*last = job;
		if (i < crew->n)
			return true;
	}
	atomic_fetch_sub(&crew->inside, 1);
	return false;
}

static void member_wake(struct gm_crew *crew, unsigned i)
{
	if (i < crew->n)
		gm_worker_wake(&crew->member[i].worker);
}

static void member_work(struct gm_crew_member *m, unsigned *last)
{
	struct gm_crew *crew = m->crew;
	unsigned i = (unsigned)(m - crew->member);
	if (!member_enter(crew, i, last))
		return;
	member_wake(crew, 2 * i + 1);
	member_wake(crew, 2 * i + 2);
	crew->body(crew->arg);
	atomic_fetch_sub(&crew->inside, 1);
}

/* A job that is opened after gm_worker_end starts another thread, or is seen here. */
static bool member_stays(struct gm_crew_member *m, unsigned last)
{
	gm_worker_end(&m->worker);
	unsigned job = atomic_load(&m->crew->job);
	return job_is_open(job) && job != last && gm_worker_claim(&m->worker);
}

static void member_run(void *arg)
{
	struct gm_crew_member *m = arg;
	unsigned last = 0;
	do {
		unsigned bell;
		do {
			bell = gm_worker_bell(&m->worker);
			member_work(m, &last);
			if (!gm_worker_sleep(&m->worker, bell, LINGER, CHECK_EVERY)) {
				gm_worker_end(&m->worker);
				return;
			}
		} while (gm_worker_bell(&m->worker) != bell);
	} while (member_stays(m, last));
}

void gm_crew_begin(struct gm_crew *crew, unsigned n, void (*body)(void *arg), void *arg)
{
	crew->n = n;
	crew->body = body;
	crew->arg = arg;
	atomic_fetch_add(&crew->job, 1);
	bool learnt = false;
	for (unsigned i = 0; i < n; i++) {
		struct gm_crew_member *m = &crew->member[i];
		if (gm_worker_is_running(&m->worker))
			continue;
		if (!learnt)
			gm_cores_learn();
		learnt = true;
		if (!m->crew) /* an ending thread may still read it */
			m->crew = crew;
		if (gm_worker_start(&m->worker, "gpumem-copy", member_run, m))
			gm_worker_end(&m->worker); /* the next job tries again */
	}
	member_wake(crew, 0);
}

void gm_crew_finish(struct gm_crew *crew)
{
	atomic_fetch_add(&crew->job, 1);
	while (atomic_load(&crew->inside))
		sched_yield();
}

void gm_crew_forget(struct gm_crew *crew)
{
	for (unsigned i = 0; i < GM_CREW_MOST; i++)
		gm_worker_forget(&crew->member[i].worker);
	atomic_store(&crew->inside, 0);
	atomic_store(&crew->job, 0);
}
