/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host functions and callbacks in streams. As on the GPU each runs on a thread of the driver, which
 * has no current context, and most calls there return CUDA_ERROR_NOT_PERMITTED: exports.def has the
 * calls that do not. Callbacks were not measured; they are taken to be alike. The thread whose call
 * lets the stream go on waits for the function, so that no test depends on time.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

struct host {
	CUhostFn run;		   /* or */
	CUstreamCallback callback; /* of cuStreamAddCallback */
	CUstream stream;
	void *arg;
};

static void *host_thread(void *data)
{
	const struct host *host = data;
	sim_lock_driver();
	sim_me.hosting = true;
	sim_unlock_driver();
	if (host->run)
		host->run(host->arg);
	else
		host->callback(host->stream, CUDA_SUCCESS, host->arg);
	return NULL;
}

static void host_run(void *data)
{
	int cancel;
	pthread_t thread;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (pthread_create(&thread, NULL, host_thread, data) != 0)
		abort(); /* the driver made its threads earlier */
	pthread_join(thread, NULL);
	pthread_setcancelstate(cancel, NULL);
}

static CUresult host_submit(CUstream stream, struct host host)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(stream, &s);
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_work *work = sim_work_make(host_run, NULL, sizeof host);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->unlocked = true;
	memcpy(work->data, &host, sizeof host);
	return sim_enqueue(s, work);
}

CUresult sim_cuLaunchHostFunc(CUstream stream, CUhostFn run, void *arg)
{
	if (!run)
		return CUDA_ERROR_INVALID_VALUE;
	return host_submit(stream, (struct host){.run = run, .arg = arg});
}

/* Of 13.1: also says how the stream waits for the function, which makes no difference here. */
CUresult sim_cuLaunchHostFunc_v2(CUstream stream, CUhostFn run, void *arg, unsigned how)
{
	return how <= 1 ? sim_cuLaunchHostFunc(stream, run, arg) : CUDA_ERROR_INVALID_VALUE;
}

/* A capture refuses it (cuda.h). */
CUresult sim_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *arg,
				 unsigned flags)
{
	struct sim_stream *s;
	if (!callback || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_stream_of(stream, &s);
	if (result == CUDA_SUCCESS && s->capture) {
		s->capture->invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	const struct host host = {.callback = callback, .stream = stream, .arg = arg};
	return result == CUDA_SUCCESS ? host_submit(stream, host) : result;
}
