/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uses the driver before main and after it, and ends in the given way: `break_ends
 * return|exit|_exit|quick|abort|kill|thread|idle|full|busy`. "thread": the main thread ends first.
 * "idle": the main thread is the only one, and memory is idle at the end. "full": likewise, and no
 * descriptor is free. "busy": other threads allocate until the end.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "library_threads.h"
#include "program.h"

static CUcontext context;
static CUdeviceptr of_constructor, of_main;

/* Runs where C++ constructs global objects. */
__attribute__((constructor)) static void before_main(void)
{
	MUST(cuInit(0));
	context = use_device(0);
	SAY(cuMemAlloc(&of_constructor, 3 * MIB));
}

__attribute__((destructor)) static void after_main(void)
{
	CUdeviceptr p;
	SAY(cuMemsetD8(of_constructor, 2, 3 * MIB));
	SAY(cuMemFree(of_constructor));
	SAY(cuMemAlloc(&p, 1000));
}

static void free_it(void)
{
	SAY(cuMemFree(of_main));
}

/* Exit handlers rely on a large stack and on the program's signal mask. */
static void deep(void)
{
	volatile char room[MIB];
	sigset_t blocked;
	CUdeviceptr p;
	for (size_t i = 0; i < sizeof room; i += 1024)
		room[i] = 1;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	printf("SIGINT is blocked: %d\n", sigismember(&blocked, SIGINT));
	SAY(cuCtxSetCurrent(context));
	SAY(cuMemAlloc(&p, 50 * MIB));
	SAY(cuMemFree(p));
}

/* Runs in a library that is finalised after gpumem; without such a library, at once. */
static void latest(void)
{
	CUdeviceptr p;
	SAY(cuMemAlloc(&p, 50 * MIB));
	SAY(cuMemsetD8(p, 3, 50 * MIB));
	SAY(cuMemFree(p));
	SAY(cuMemFree(p));
}

static void *ended_thread(void *unused)
{
	pthread_exit(unused);
}

static void *last_thread(void *arg)
{
	CUdeviceptr p;
	pthread_join(*(pthread_t *)arg, NULL);
	MUST(cuCtxSetCurrent(context));
	SAY(cuMemAlloc(&p, 5000));
	SAY(cuMemFree(p));
	return NULL; /* ends the process */
}

static void *busy(void *arg)
{
	size_t size = 1000 + 300000 * (size_t)(uintptr_t)arg;
	CUdeviceptr p;
	MUST(cuCtxSetCurrent(context));
	for (;;)
		if (cuMemAlloc(&p, size) == CUDA_SUCCESS)
			cuMemFree(p);
	return NULL;
}

static void end(const char *how)
{
	static pthread_t me;
	pthread_t thread;
	if (strcmp(how, "exit") == 0)
		exit(7);
	if (strcmp(how, "_exit") == 0)
		_exit(8);
	if (strcmp(how, "quick") == 0)
		quick_exit(9);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(how, "thread") == 0) {
		me = pthread_self();
		pthread_create(&thread, NULL, last_thread, &me);
		pthread_exit(NULL);
	}
	if (strcmp(how, "idle") == 0 || strcmp(how, "full") == 0) {
		CUdeviceptr p;
		atexit(deep);
		SAY(cuMemAlloc(&p, 20 * MIB));
		SAY(cuMemFree(p));
		library_threads_await();
		if (*how == 'f') { /* pthread_exit loads libgcc_s at its first call */
			pthread_create(&thread, NULL, ended_thread, NULL);
			pthread_join(thread, NULL);
			setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
		}
		pthread_exit(NULL);
	}
	for (uintptr_t i = 0; strcmp(how, "busy") == 0 && i < 4; i++)
		pthread_create(&thread, NULL, busy, (void *)i);
}

int main(int argc, char **argv)
{
	void (**late)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, "late_work");
	SAY(cuMemAlloc(&of_main, 5000));
	SAY(cuMemsetD8(of_constructor, 1, 3 * MIB));
	atexit(free_it);
	at_quick_exit(free_it);
	if (late)
		*late = latest;
	end(argc > 1 ? argv[1] : "return");
	for (int i = 0; i < 300; i++) {
		CUdeviceptr p;
		MUST(cuMemAlloc(&p, 1000));
		MUST(cuMemFree(p));
	}
	return 0;
}
