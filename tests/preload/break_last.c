/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main thread ends first, and another thread of the program is the last: break_last WAY...
 *   calls    the last thread calls CUDA
 *   handle   a block has a handle for other processes
 *   FOLDER   an empty folder, which becomes the root
 *   full     no descriptor is free
 *   raw      the last thread ends by the system call alone: then no exit handler runs
 *   rests    instead: print whether threads of the library rest while the program does nothing
 * Prints which thread runs the program's exit handlers. Memory is idle at the end.
 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "library_threads.h"
#include "program.h"

static __thread bool is_last;
static bool raw;
static CUcontext context;

static void handler(void)
{
	printf("exit handlers run on the last thread: %d\n", is_last);
}

static void *ended_thread(void *unused)
{
	pthread_exit(unused);
}

static void *last_thread(void *arg)
{
	CUdeviceptr block;
	is_last = true;
	pthread_join(*(pthread_t *)arg, NULL);
	if (context) {
		MUST(cuCtxSetCurrent(context));
		SAY(cuMemAlloc(&block, 30 * MIB));
		SAY(cuMemFree(block));
	}
	fflush(stdout);
	if (raw)
		syscall(SYS_exit, 0);
	return NULL; /* ends the process */
}

/* A thread that has just been started may be late: one quiet time is enough. */
static void rest(void)
{
	unsigned n;
	unsigned long before = library_threads_switches(&n);
	bool quiet = false;
	for (unsigned i = 0; i < 20 && !quiet; i++) {
		usleep(500000);
		unsigned long now = library_threads_switches(&n);
		quiet = now - before <= 1;
		before = now;
	}
	printf("%u threads rest: %d\n", n, quiet);
}

int main(int argc, char **argv)
{
	static pthread_t me;
	CUdeviceptr block;
	CUipcMemHandle handle;
	CUcontext used;
	pthread_t thread;
	MUST(cuInit(0));
	used = use_device(0);
	SAY(cuMemAlloc(&block, 20 * MIB));
	SAY(cuMemFree(block));
	atexit(handler);
	pthread_create(&thread, NULL, ended_thread, NULL); /* loads libgcc_s */
	pthread_join(thread, NULL);
	library_threads_await();
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "calls") == 0) {
			context = used;
		} else if (strcmp(argv[i], "handle") == 0) {
			MUST(cuMemAlloc(&block, MIB));
			SAY(cuIpcGetMemHandle(&handle, block));
		} else if (strcmp(argv[i], "full") == 0) {
			setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
		} else if (strcmp(argv[i], "raw") == 0) {
			raw = true;
		} else if (strcmp(argv[i], "rests") == 0) {
			rest();
			return 0;
		} else if (chroot(argv[i]) != 0 || chdir("/") != 0) {
			return 2;
		}
	}
	me = pthread_self();
	pthread_create(&thread, NULL, last_thread, &me);
	pthread_detach(thread);
	pthread_exit(NULL);
}
