/* SPDX-License-Identifier: BSD-3-Clause */
/* A held stream of the simulated driver: its work ends when a thread waits for it. */
#ifndef GM_TESTS_PRELOAD_RELEASES_H
#define GM_TESTS_PRELOAD_RELEASES_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "program.h"
#include "steer.h"

struct releases {
	CUstream stream;
	CUcontext context;
	atomic_bool stop;
	pthread_t thread;
};

static void *releases_run(void *arg)
{
	struct releases *r = arg;
	MUST(cuCtxSetCurrent(r->context));
	while (!atomic_load(&r->stop)) {
		if (gm_sim_waiters())
			gm_sim_release(r->stream, 1);
		sched_yield();
	}
	gm_sim_release(r->stream, (unsigned)-1);
	return NULL;
}

/* Call in the current context, after gm_sim_hold. */
static void releases_begin(struct releases *r, CUstream stream)
{
	r->stream = stream;
	atomic_store(&r->stop, false);
	MUST(cuCtxGetCurrent(&r->context));
	MUST(pthread_create(&r->thread, NULL, releases_run, r) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
}

static void releases_end(struct releases *r)
{
	atomic_store(&r->stop, true);
	pthread_join(r->thread, NULL);
}

#endif
