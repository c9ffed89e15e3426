/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuMemGetInfo on one thread, while another is in a call that maps memory for the pool, or returns
 * it. The answer must stay the same, for no block is allocated or freed. Run with
 * GPUMEM_TRIM_AFTER=0.
 */
#include "program.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "steer.h"

static CUcontext context;
static size_t expected;
static const char *symbol;
static atomic_bool seen;

static size_t available(void)
{
	size_t have, total;
	MUST(cuMemGetInfo(&have, &total));
	return have;
}

static void *look(void *unused)
{
	MUST(cuCtxSetCurrent(context));
	size_t have = available();
	printf("in %s: %s\n", symbol, have == expected ? "the same" : "another");
	return unused;
}

/* Runs on the thread that maps memory; the program's other thread queries. */
static void meanwhile(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, look, NULL);
	pthread_join(thread, NULL);
	atomic_store(&seen, true);
}

/* Query during the next such call; `more` bytes are free until then. */
static void visit(const char *call, size_t more)
{
	symbol = call;
	expected = available() + more;
	atomic_store(&seen, false);
	gm_sim_before(call, meanwhile);
}

int main(void)
{
	static const char *const mapping[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
	static const char *const giving[] = {"cuMemUnmap", "cuMemRelease"};
	CUdeviceptr block[3];
	MUST(cuInit(0));
	context = use_device(0);
	for (int i = 0; i < 3; i++) {
		visit(mapping[i], 0);
		MUST(cuMemAlloc(&block[i], 96 * MIB));
	}
	for (int i = 0; i < 2; i++) {
		unsigned before = gm_sim_calls("cuMemRelease");
		visit(giving[i], 96 * MIB);
		MUST(cuMemFree(block[i]));
		while (!atomic_load(&seen) || gm_sim_calls("cuMemRelease") == before)
			sched_yield();
	}
	MUST(cuMemFree(block[2]));
	return 0;
}
