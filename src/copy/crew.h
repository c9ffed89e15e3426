/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A crew: threads of ours that help with one job at a time. They start with the first job, park
 * between jobs, and end LINGER after the last one. They make no call of the driver.
 *
 *     owner    gm_crew_begin ............ gm_crew_finish: the job is closed, all have left it
 *                  |  wakes the first, which wakes two, which wake four
 *     member       body(arg) ... returns when no work remains
 *
 * A member may miss a job: one that is not scheduled before gm_crew_finish stays out, and the owner
 * does the remaining work. Jobs follow one another; the owner is one thread at a time.
 */
#ifndef GM_COPY_CREW_H
#define GM_COPY_CREW_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/worker.h"

#define GM_CREW_MOST 64 /* members */

struct gm_crew_member {
	struct gm_worker worker;
	struct gm_crew *crew;
};

/* Begins zeroed. Static: its threads may outlive the last job. */
struct gm_crew {
	atomic_uint job;    /* number of the job, odd while it is open; then one more */
	atomic_uint inside; /* members in the body, entering or leaving */
	unsigned n;	    /* members of the current job */
	void (*body)(void *arg);
	void *arg;
	struct gm_crew_member member[GM_CREW_MOST];
};

/* Run body(arg) on up to `n` threads at once, `n` at most GM_CREW_MOST. Threads that cannot be made
 * are left out. pre: no job is open. */
void gm_crew_begin(struct gm_crew *crew, unsigned n, void (*body)(void *arg), void *arg);

/* Admit no more members, and wait until all have left. `arg` is the owner's again. */
void gm_crew_finish(struct gm_crew *crew);

/* In a forked child: there are no threads, and no job is open. */
void gm_crew_forget(struct gm_crew *crew);

#endif
