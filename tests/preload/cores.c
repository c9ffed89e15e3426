/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cores of copy threads: cores COMMAND. The thread that copies is bound to one core: `bound` at
 * once, as by OMP_PROC_BIND; `later` after a first copy. `widened` is a process that begins with
 * one core, and gives a thread of its own all. Prints the number of threads and of their cores.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

#define SIZE (24 * MIB)
#define THREADS 2 /* GPUMEM_COPY */

static CUdeviceptr device;
static char *host;
static cpu_set_t all;

static void bind_to_one(void)
{
	cpu_set_t one;
	int core = 0;
	CPU_ZERO(&one);
	while (!CPU_ISSET(core, &all))
		core++;
	CPU_SET(core, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		exit(1);
}

static bool is_copy_thread(const char *id)
{
	char path[300], name[32] = "";
	snprintf(path, sizeof path, "/proc/self/task/%s/comm", id);
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	bool ours = fgets(name, sizeof name, file) && strcmp(name, "gpumem-copy\n") == 0;
	fclose(file);
	return ours;
}

/* Counts the copy threads; *cores: the cores of all of them together. */
static unsigned threads_look(unsigned *cores)
{
	unsigned threads = 0;
	const struct dirent *task;
	DIR *tasks = opendir("/proc/self/task");
	*cores = 0;
	while (tasks && (task = readdir(tasks))) {
		cpu_set_t set;
		if (!is_copy_thread(task->d_name) ||
		    sched_getaffinity(atoi(task->d_name), sizeof set, &set) != 0)
			continue;
		threads++;
		*cores += (unsigned)CPU_COUNT(&set);
	}
	closedir(tasks);
	return threads;
}

/* Threads take their names after their cores, and end when they are idle for long. */
static void copy_and_look(void)
{
	unsigned cores, threads;
	do
		MUST(cuMemcpyHtoD(device, host, SIZE));
	while ((threads = threads_look(&cores)) < THREADS);
	printf("%u threads, %u cores\n", threads, cores);
}

static void *wait_for_ever(void *wide)
{
	if (sched_setaffinity(0, sizeof all, &all) != 0)
		exit(1);
	pthread_barrier_wait(wide);
	while (true)
		pause();
	return NULL;
}

static void widen(void)
{
	static pthread_barrier_t wide;
	pthread_t thread;
	memset(&all, 0xff, sizeof all);
	pthread_barrier_init(&wide, NULL, 2);
	pthread_create(&thread, NULL, wait_for_ever, &wide);
	pthread_barrier_wait(&wide);
}

int main(int argc, char **argv)
{
	sched_getaffinity(0, sizeof all, &all);
	if (argc != 2)
		return 2;
	if (strcmp(argv[1], "bound") == 0)
		bind_to_one();
	if (strcmp(argv[1], "widened") == 0)
		widen();
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc(&device, SIZE));
	host = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host == MAP_FAILED)
		return 1;
	if (strcmp(argv[1], "later") == 0) {
		MUST(cuMemcpyHtoD(device, host, SIZE));
		bind_to_one();
	}
	copy_and_look();
	return 0;
}
