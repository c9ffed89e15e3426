/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls functions of private tables: `tables COMMAND...`, those of private.h, and
 *
 *     init     calls cuInit
 *     hot      frees a block that a held stream is yet to write to, takes one, and fills it by a
 *              private function, in another stream; prints its first byte
 *     settle   submits and frees until one stream alone has unfinished work
 *     shown    likewise, and prints whether the block was used again, and whether a thread waited
 */
#include "private.h"

#define SIZE (3 * MIB)

static CUstream held;
static atomic_bool done, waited;

/* Release the held stream when a thread waits for it. */
static void *let_go(void *arg)
{
	while (!atomic_load(&done) && !gm_sim_waiters())
		usleep(100);
	atomic_store(&waited, !atomic_load(&done));
	gm_sim_release(held, -1u);
	return arg;
}

static void hot(bool show)
{
	CUdeviceptr old, fresh;
	CUstream other;
	pthread_t thread;
	unsigned char first;
	atomic_store(&done, false);
	MUST(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(held);
	MUST(cuMemAlloc(&old, SIZE));
	MUST(cuMemsetD8Async(old, 255, SIZE, held));
	pthread_create(&thread, NULL, let_go, NULL);
	MUST(cuMemFree(old));
	MUST(cuMemAlloc(&fresh, SIZE));
	bool again = fresh == old;
	MUST(private_table->fill(fresh, 7, SIZE, other));
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	MUST(cuStreamSynchronize(held));
	MUST(cuStreamSynchronize(other));
	MUST(cuMemcpyDtoH(&first, fresh, 1));
	printf("first byte: %u\n", first);
	if (show)
		printf("used again: %d, waited: %d\n", again, atomic_load(&waited));
	MUST(cuMemFree(fresh));
}

static void settle(void)
{
	CUdeviceptr at;
	MUST(cuMemAlloc(&at, SIZE));
	MUST(cuMemsetD8(at, 1, SIZE));
	MUST(cuMemFree(at));
	for (unsigned i = 0; i < 300; i++) {
		MUST(cuMemAlloc(&at, SIZE));
		MUST(cuMemFree(at));
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "init")) {
			MUST(cuInit(0));
			use_device(0);
		} else if (!strcmp(argv[i], "hot") || !strcmp(argv[i], "shown")) {
			hot(*argv[i] == 's');
		} else if (!strcmp(argv[i], "settle")) {
			settle();
		} else {
			const char *answer = private_obey(argv[i]);
			printf("%s: %s\n", argv[i], answer ? answer : "no such command");
		}
		fflush(stdout);
	}
	return 0;
}
