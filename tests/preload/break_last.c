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
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Voluntary context switches of the library's threads so far, and their number. */
static unsigned long switches(unsigned *n)
{
	char path[300], line[128];
	unsigned long sum = 0;
	DIR *folder = opendir("/proc/self/task");
	*n = 0;
	for (struct dirent *task = folder ? readdir(folder) : NULL; task; task = readdir(folder)) {
		unsigned long one = 0;
		bool ours = false;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
		FILE *file = fopen(path, "r");
		while (file && fgets(line, sizeof line, file)) {
			ours |= strncmp(line, "Name:\tgpumem", 12) == 0;
			sscanf(line, "voluntary_ctxt_switches: %lu", &one);
		}
		if (file)
			fclose(file);
		sum += ours ? one : 0;
		*n += ours;
	}
	if (folder)
		closedir(folder);
	return sum;
}

/* A thread that has just been started may be late: one quiet time is enough. */
static void rest(void)
{
	unsigned n;
	unsigned long before = switches(&n);
	bool quiet = false;
	for (unsigned i = 0; i < 20 && !quiet; i++) {
		usleep(500000);
		unsigned long now = switches(&n);
		quiet = now - before <= 1;
		before = now;
	}
	printf("%u threads rest: %d\n", n, quiet);
}

/* A new thread of the library is in /proc before its creator takes it out of glibc's count. A last
 * thread that ends meanwhile is not the last one counted, and another one runs the handlers. */
static void uncounted_await(void)
{
	const unsigned *volatile count = dlsym(RTLD_DEFAULT, "__nptl_nthreads");
	for (unsigned i = 0; count && *(const volatile unsigned *)count > 1 && i < 10000; i++)
		usleep(1000);
}

int main(int argc, char **argv)
{
	static pthread_t me;
	CUdeviceptr block;
	CUipcMemHandle handle;
	CUcontext used;
	pthread_t thread;
	unsigned n = 0;
	MUST(cuInit(0));
	used = use_device(0);
	SAY(cuMemAlloc(&block, 20 * MIB));
	SAY(cuMemFree(block));
	atexit(handler);
	pthread_create(&thread, NULL, ended_thread, NULL); /* loads libgcc_s */
	pthread_join(thread, NULL);
	while (getenv("LD_PRELOAD") && n < 2) /* one for idle memory, one for requests */
		switches(&n);
	uncounted_await();
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
