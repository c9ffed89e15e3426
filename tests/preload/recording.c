/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recordings of a process that runs. Usage: recording WAY. GPUMEMSTAT names the tool; while that
 * asks, the program copies, which changes no block.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

extern char **environ;

/* --- asking --- */

static CUdeviceptr scratch; /* of the main thread */

static void copy_one(void)
{
	char byte = 1;
	MUST(cuMemcpyHtoD(scratch, &byte, 1));
}

/* The tool is no preloaded program. */
static pid_t tool_start(const char *request)
{
	char number[16], *words[] = {getenv("GPUMEMSTAT"), "log", number, (char *)request, NULL};
	char *around[256];
	size_t n = 0;
	pid_t pid;
	snprintf(number, sizeof number, "%d", getpid());
	for (char **at = environ; *at && n < 255; at++)
		if (strncmp(*at, "LD_", 3) != 0)
			around[n++] = *at;
	around[n] = NULL;
	fflush(stdout);
	if (posix_spawn(&pid, words[0], NULL, NULL, words, around) != 0)
		exit(1);
	return pid;
}

/* Copies until the tools have ended. */
static void tool_end(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, WNOHANG) == 0)
		copy_one();
	if (status)
		printf("status %d\n", WEXITSTATUS(status));
	fflush(stdout);
}

static void ask(const char *request)
{
	tool_end(tool_start(request));
}

/* --- one thread --- */

/* Not a tail call, and never inlined: the names are in the stacks. */
static PLACE CUdeviceptr known_before(size_t size)
{
	CUdeviceptr block;
	MUST(cuMemAlloc(&block, size));
	return block;
}

static PLACE CUdeviceptr known_during(size_t size)
{
	CUdeviceptr block;
	MUST(cuMemAlloc(&block, size));
	return block;
}

static PLACE CUdeviceptr known_again(size_t size)
{
	CUdeviceptr block;
	MUST(cuMemAlloc(&block, size));
	return block;
}

/* Blocks of before, of during, and those freed in between. */
static void way_once(void)
{
	CUdeviceptr gone = known_before(2 * MIB);
	known_before(3 * MIB);
	known_before(100000);
	known_before(1000);
	ask("events");
	MUST(cuMemFree(gone));
	known_during(5 * MIB);
	known_during(70000);
	known_during(900);
}

static void way_twice(void)
{
	way_once();
	ask("events");
	ask("small");
	known_before(7 * MIB);
	ask("small");
	ask("events");
	known_again(11 * MIB);
	ask("small");
	known_before(13 * MIB);
}

/* More events than the smallest ring holds, by copies, of which a debug build checks least. */
static void way_ring(void)
{
	way_once();
	for (unsigned i = 0; i < 700000; i++)
		copy_one();
	known_again(MIB);
}

/* More events than one segment holds, by copies alone, then the end. */
static void way_full(void)
{
	way_once();
	for (unsigned i = 0; i < 400000; i++)
		copy_one();
	ask("small");
	ask("events");
}

static void way_lack(void)
{
	CUdeviceptr none;
	way_once();
	if (cuMemAlloc(&none, (size_t)1 << 45) != CUDA_ERROR_OUT_OF_MEMORY)
		exit(1);
	ask("small");
}

static void way_fork(void)
{
	way_once();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		CUdeviceptr block;
		for (unsigned i = 0; i < 100; i++)
			cuMemAlloc(&block, 4 * MIB);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	known_again(MIB);
	ask("small");
}

/* The asker of `events` and that of `small`, and two of each. */
static void way_crowd(void)
{
	pid_t tools[4];
	known_before(3 * MIB);
	for (unsigned i = 0; i < 4; i++)
		tools[i] = tool_start("events");
	for (unsigned i = 0; i < 4; i++)
		tool_end(tools[i]);
	for (unsigned i = 0; i < 4; i++)
		tools[i] = tool_start("small");
	for (unsigned i = 0; i < 4; i++)
		tool_end(tools[i]);
	for (unsigned i = 0; i < 4; i++)
		tools[i] = tool_start(i % 2 ? "small" : "events");
	for (unsigned i = 0; i < 4; i++)
		tool_end(tools[i]);
}

/* Copies until a file `stop` is there. */
static void way_copy(void)
{
	known_before(3 * MIB);
	printf("pid %d\n", getpid());
	fflush(stdout);
	while (access("stop", F_OK) != 0)
		copy_one();
}

/* Makes no call; then one, and again none. */
static void way_quiet(void)
{
	known_before(3 * MIB);
	pid_t tool = tool_start("events");
	waitpid(tool, NULL, 0);
	copy_one();
	known_during(5 * MIB);
}

/* Ends while the tool waits. */
static void way_leave(void)
{
	tool_start("events");
	while (access("go", F_OK) != 0)
		usleep(1000);
}

static void way_ask(void)
{
	ask("events");
	ask("small");
}

/* --- tensors --- */

struct torch_device {
	int8_t type, index;
};
typedef void report_fn(void *address, int64_t bytes, size_t allocated, size_t reserved,
		       struct torch_device device);

/* What PyTorch's cache calls for each tensor: the library's, for there is no PyTorch here. */
static inline __attribute__((always_inline)) void tensor_report(uintptr_t address, int64_t bytes)
{
	static size_t allocated;
	report_fn *report = (report_fn *)dlsym(
		RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
	allocated += (size_t)bytes;
	if (report)
		report((void *)address, bytes, allocated, 64 * MIB, (struct torch_device){1, 0});
}

static PLACE void tensor_during(uintptr_t address, size_t size)
{
	tensor_report(address, (int64_t)size);
	copy_one(); /* no tail call */
}

static void way_tensors(void)
{
	tensor_report(0x1000, MIB);
	tensor_report(0x2000, 2 * MIB);
	tensor_report(0x3000, 4 * MIB);
	ask("events");
	tensor_during(0x4000, 8 * MIB);
	tensor_during(0x5000, 16 * MIB);
	tensor_report(0x1000, -(int64_t)MIB);
	tensor_report(0x5000, -(int64_t)(16 * MIB));
	ask("small");
	tensor_during(0x6000, 32 * MIB);
	tensor_report(0x2000, -(int64_t)(2 * MIB));
	ask("events");
	tensor_report(0x4000, -(int64_t)(8 * MIB));
}

/* --- threads --- */

enum { THREADS = 8, KEPT = 16, ROUNDS = 6 };

static pthread_barrier_t halt;
static atomic_bool running, over;
static _Atomic uint64_t held;
static CUcontext context;

/* Allocates and frees at random, holding some blocks, while `running`; waits at the barrier else.
 */
static void *thread_run(void *arg)
{
	CUdeviceptr blocks[KEPT] = {0};
	size_t sizes[KEPT];
	unsigned seed = (unsigned)(uintptr_t)arg;
	MUST(cuCtxSetCurrent(context));
	for (;;) {
		while (atomic_load(&running)) {
			unsigned i = (unsigned)rand_r(&seed) % KEPT;
			if (blocks[i]) {
				MUST(cuMemFree(blocks[i]));
				atomic_fetch_sub(&held, sizes[i]);
				blocks[i] = 0;
			} else {
				sizes[i] = 1 + (unsigned)rand_r(&seed) % (i % 2 ? 3000 : 200000);
				MUST(cuMemAlloc(&blocks[i], sizes[i]));
				atomic_fetch_add(&held, sizes[i]);
			}
		}
		pthread_barrier_wait(&halt); /* all stand still */
		pthread_barrier_wait(&halt);
		if (atomic_load(&over))
			return NULL;
	}
}

/* Each recording begins among running threads. It ends while they stand still, so that the blocks
 * alive are known; every second one ended once before, among running threads. */
static void way_threads(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&halt, NULL, THREADS + 1);
	atomic_store(&running, true);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread_run, (void *)(i + 1));
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (round % 2) {
			ask("events");
			ask("small");
		}
		ask("events");
		for (unsigned i = 0; i < 2000; i++)
			copy_one();
		atomic_store(&running, false);
		pthread_barrier_wait(&halt);
		ask("small");
		printf("held %llu\n", (unsigned long long)atomic_load(&held) + MIB);
		atomic_store(&over, round + 1 == ROUNDS);
		atomic_store(&running, true);
		pthread_barrier_wait(&halt);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{"once", way_once}, {"twice", way_twice},     {"ring", way_ring},
	{"full", way_full}, {"fork", way_fork},	      {"crowd", way_crowd},
	{"copy", way_copy}, {"quiet", way_quiet},     {"leave", way_leave},
	{"ask", way_ask},   {"threads", way_threads}, {"tensors", way_tensors},
	{"lack", way_lack},
};

int main(int argc, char **argv)
{
	MUST(cuInit(0));
	context = use_device(0);
	MUST(cuMemAlloc(&scratch, MIB));
	for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
		if (strcmp(ways[i].name, argv[1]) == 0)
			ways[i].run();
	return 0;
}
