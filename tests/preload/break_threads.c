/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads and children at odd moments: `break_threads MODE`.
 *   early    threads that exist before cuInit
 *   init     threads that all call cuInit, and go on without a wait
 *   found    the same, after a call by which gpumem has found the driver
 *   look     two threads resolve a call, one after the other, without any synchronization
 *   many     thousands of threads that start, allocate and end: they leave no memory
 *   fork     children of two threads while others allocate; the children call the driver, and exit
 *   clone    a child made without fork handlers exits while the parent goes on
 *   spawn    other programs, by vfork, posix_spawn and system
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define THREADS 8

static CUcontext context;
static pthread_barrier_t barrier;
static atomic_uint failures;
static atomic_bool stop;

static void expect(CUresult result)
{
	if (result != CUDA_SUCCESS)
		atomic_fetch_add(&failures, 1);
}

static void pairs(int n, size_t size)
{
	CUdeviceptr p[3];
	for (int i = 0; i < n; i++) {
		for (size_t k = 0; k < 3; k++)
			expect(cuMemAlloc(&p[k], size * (k + 1)));
		expect(cuMemsetD8(p[2], 1, size * 3));
		for (size_t k = 0; k < 3; k++)
			expect(cuMemFree(p[k]));
	}
}

static void start(pthread_t *threads, int n, void *(*run)(void *))
{
	for (uintptr_t i = 0; i < (uintptr_t)n; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			exit(2);
}

static void join(const pthread_t *threads, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void *after_init(void *arg)
{
	pthread_barrier_wait(&barrier);
	expect(cuCtxSetCurrent(context));
	pairs(50, 1000 + 300000 * (size_t)(uintptr_t)arg);
	return NULL;
}

static void early(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	start(threads, THREADS, after_init);
	MUST(cuInit(0));
	context = use_device(0);
	pthread_barrier_wait(&barrier);
	join(threads, THREADS);
}

static void *and_init(void *arg)
{
	CUcontext own;
	CUdevice device;
	pthread_barrier_wait(&barrier);
	expect(cuInit(0));
	expect(cuDeviceGet(&device, 0));
	expect(cuDevicePrimaryCtxRetain(&own, device));
	expect(cuCtxSetCurrent(own));
	pairs(50, 1000 + 300000 * (size_t)(uintptr_t)arg);
	return NULL;
}

static void init(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS);
	start(threads, THREADS, and_init);
	join(threads, THREADS);
}

static void found(void)
{
	MUST(cuMemFree(0) == CUDA_ERROR_NOT_INITIALIZED ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
	init();
}

/* Relaxed, so that ThreadSanitizer sees what the library itself orders. */
static void *look_up(void *arg)
{
	static atomic_int turn;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int mine = (int)(uintptr_t)arg;
	while (atomic_load_explicit(&turn, memory_order_relaxed) != mine)
		sched_yield();
	void *found = driver ? dlsym(driver, "cuMemAlloc_v2") : NULL;
	atomic_store_explicit(&turn, mine + 1, memory_order_relaxed);
	expect(found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
	return NULL;
}

static void look(void)
{
	pthread_t threads[2];
	start(threads, 2, look_up);
	join(threads, 2);
}

static void *once(void *arg)
{
	(void)arg;
	expect(cuCtxSetCurrent(context));
	pairs(1, 5000);
	return NULL;
}

/* Resident private memory: the simulated device's memory is shared. */
static long resident(void)
{
	long pages = 0, shared = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*d %ld %ld", &pages, &shared) != 2)
		exit(2);
	fclose(f);
	return (pages - shared) * sysconf(_SC_PAGESIZE);
}

static void rounds(int n)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < n; i++) {
		start(threads, THREADS, once);
		join(threads, THREADS);
	}
}

static void many(void)
{
	MUST(cuInit(0));
	context = use_device(0);
	rounds(100);
	long before = resident();
	rounds(500);
	/* With 4000 threads 1 KiB each would exceed 2 MiB. */
	printf("nothing stays behind: %d\n", resident() - before < 2 * (long)MIB);
}

/* --- children --- */

static void *churn(void *arg)
{
	expect(cuCtxSetCurrent(context));
	while (!atomic_load(&stop))
		pairs(1, 1000 + 300000 * (size_t)(uintptr_t)arg);
	return NULL;
}

static CUdeviceptr kept;

/* The driver's answers in a child of a process that used it: our state has no influence. */
static bool answers_natively(void)
{
	CUdeviceptr p = 0, base;
	size_t size;
	return cuMemAlloc(&p, 1000) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuMemFree(kept) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuMemFree(4096) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuMemGetAddressRange(&base, &size, kept) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
	       cuMemFree(kept) == CUDA_ERROR_NOT_INITIALIZED;
}

static void *forks(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		int status = -1;
		pid_t pid = fork();
		if (pid == 0)
			exit(answers_natively() ? 0 : 1);
		waitpid(pid, &status, 0);
		if (status)
			atomic_fetch_add(&failures, 1);
	}
	return NULL;
}

static void fork_all(void)
{
	pthread_t busy[3], parents[2];
	MUST(cuInit(0));
	context = use_device(0);
	MUST(cuMemAlloc(&kept, 1000));
	start(busy, 3, churn);
	start(parents, 2, forks);
	join(parents, 2);
	atomic_store(&stop, true);
	join(busy, 3);
}

static void clone_one(void)
{
	int status = -1;
	MUST(cuInit(0));
	context = use_device(0);
	pairs(10, 1000);
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		exit(0);
	waitpid(pid, &status, 0);
	printf("the child ended with %d\n", status);
	pairs(10, 1000);
}

static void spawn_all(void)
{
	char *const arguments[] = {"sh", "-c", "echo spawned", NULL}, *none[] = {NULL};
	int status = -1;
	pid_t pid;
	MUST(cuInit(0));
	context = use_device(0);
	pairs(1, 1000);
	fflush(stdout);
	pid = vfork();
	if (pid == 0) {
		execv("/bin/sh", arguments);
		_exit(9);
	}
	waitpid(pid, &status, 0);
	printf("vfork %d\n", status);
	fflush(stdout);
	status = posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, none);
	waitpid(pid, &status, 0);
	printf("posix_spawn %d\n", status);
	fflush(stdout);
	printf("system %d\n", system("echo from a shell"));
	pairs(1, 1000);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"early", early},	   {"init", init},	{"found", found},
		     {"look", look},	   {"many", many},	{"fork", fork_all},
		     {"clone", clone_one}, {"spawn", spawn_all}};
	for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
		if (strcmp(argv[1], modes[i].name) == 0)
			modes[i].run();
	printf("calls that failed: %u\n", atomic_load(&failures));
	return 0;
}
