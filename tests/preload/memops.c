/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SYNC_MEMOPS is set while a synchronous memset is pending in the default stream. The memset's
 * caller does not wait for it; the call that sets the attribute does.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "program.h"
#include "steer.h"

static CUcontext context;
static CUdeviceptr block;
static atomic_bool set;

static void *set_it(void *unused)
{
	unsigned on = 1;
	MUST(cuCtxSetCurrent(context));
	printf("set: %s\n",
	       result_name(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block)));
	atomic_store(&set, true);
	return unused;
}

static void one_case(const char *what, bool pending)
{
	pthread_t thread;
	MUST(cuMemAlloc(&block, 5000));
	MUST(cuCtxSynchronize());
	atomic_store(&set, false);
	gm_sim_hold(NULL);
	if (pending)
		MUST(cuMemsetD8(block, 21, 5000));
	pthread_create(&thread, NULL, set_it, NULL);
	while (!gm_sim_waiters() && !atomic_load(&set))
		sched_yield();
	printf("%s: returned before it was complete %d\n", what, atomic_load(&set));
	gm_sim_release(NULL, -1u);
	pthread_join(thread, NULL);
	MUST(cuMemFree(block));
}

int main(void)
{
	MUST(cuInit(0));
	context = use_device(0);
	one_case("a memset pending", true);
	one_case("nothing pending", false);
	return 0;
}
