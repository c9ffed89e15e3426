/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread is cancelled before its first call, and so would end at the first cancellation point. It
 * frees a block that the GPU still uses. Where frees do not wait, it then lacks memory until the
 * GPU has finished. Another thread lets the GPU finish, and then checks that all locks are free.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "program.h"
#include "steer.h"

static CUstream stream;
static atomic_bool begun, came_through;

static void nothing(void *arg)
{
	(void)arg;
}

static size_t most_of_it(void)
{
	size_t have, total;
	MUST(cuMemGetInfo_v2(&have, &total));
	return total / 100 * 70;
}

static void *cancelled(void *arg)
{
	CUdeviceptr p;
	pthread_cancel(pthread_self());
	MUST(cuInit(0));
	use_device(0);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc_v2(&p, most_of_it()));
	gm_sim_hold(stream);
	MUST(gm_sim_launch(stream, nothing, NULL));
	atomic_store(&begun, true);
	MUST(cuMemFree_v2(p));
	MUST(cuMemAlloc_v2(&p, most_of_it()));
	MUST(cuMemFree_v2(p));
	atomic_store(&came_through, true);
	pthread_testcancel();
	return arg;
}

int main(void)
{
	pthread_t thread;
	CUdeviceptr p;
	void *end = NULL;
	alarm(60); /* no endless wait */
	pthread_create(&thread, NULL, cancelled, NULL);
	while (!atomic_load(&begun) && pthread_tryjoin_np(thread, &end) != 0)
		sched_yield();
	if (end) {
		puts("the thread ended on its way");
		return 1;
	}
	while (!gm_sim_waiters())
		sched_yield();
	gm_sim_release(stream, -1u);
	pthread_join(thread, &end);
	printf("the thread came through: %d\nand ended behind it: %d\n", atomic_load(&came_through),
	       end == PTHREAD_CANCELED);
	use_device(0);
	SAY(cuMemAlloc_v2(&p, most_of_it()));
	SAY(cuMemFree_v2(p));
	return 0;
}
