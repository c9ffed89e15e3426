/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle memory and other processes. `idle leave [DEVICE]` allocates 80% of the device, frees it,
 * prints its pid, and sleeps until its standard input ends. `idle create DEVICE` makes physical
 * memory of 80% of a device while device 0 is current, `idle rows` rows of 80%. `idle take TRIES`
 * tries to allocate 80% up to TRIES times. `idle thread` prints the threads of the process. `idle
 * ends` waits three times until the thread has ended after its work. `idle needs` allocates a
 * pool's idle memory through other entries in the same process. `idle managed BYTES` allocates
 * managed memory beside idle memory.
 */
#include <dirent.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"
#include "sim/sim.h"
#include "steer.h"

static size_t percent(unsigned share)
{
	size_t have, total;
	MUST(cuMemGetInfo_v2(&have, &total));
	return total / 100 * share;
}

static void use_and_free(void)
{
	CUdeviceptr blocks[4];
	size_t size = percent(80) / 4;
	for (unsigned i = 0; i < 4; i++)
		MUST(cuMemAlloc_v2(&blocks[i], size));
	for (unsigned i = 0; i < 4; i++)
		MUST(cuMemFree_v2(blocks[i]));
}

static void leave(void)
{
	char byte;
	use_and_free();
	printf("free %d\n", (int)getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void take(unsigned tries)
{
	CUdeviceptr p;
	size_t size = percent(80);
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < tries && result == CUDA_ERROR_OUT_OF_MEMORY; i++) {
		if (i)
			usleep(1000);
		result = cuMemAlloc_v2(&p, size);
	}
	say("80%", result);
	if (result == CUDA_SUCCESS)
		SAY(cuMemFree_v2(p));
}

static void rows(void)
{
	CUdeviceptr p;
	size_t pitch;
	SAY(cuMemAllocPitch_v2(&p, &pitch, MIB, percent(80) / MIB, 4));
}

static void create(int device)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemGenericAllocationHandle handle;
	SAY(cuMemCreate(&handle, percent(80) / (2 * MIB) * (2 * MIB), &prop, 0));
}

static void managed(size_t size)
{
	CUdeviceptr p;
	use_and_free();
	MUST(cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemFree(p));
}

/* --- threads --- */

/* The value of KEY in a thread's status file, or "". */
static void status_of(const char *task, const char *key, char text[128])
{
	char path[288], line[256];
	snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
	FILE *file = fopen(path, "r");
	*text = '\0';
	while (file && fgets(line, sizeof line, file))
		if (strncmp(line, key, strlen(key)) == 0)
			sscanf(line + strlen(key), "%*[: \t]%127s", text);
	if (file)
		fclose(file);
}

struct threads {
	unsigned n, trimming; /* all but gpumem-node, which trims nothing; those named gpumem */
	unsigned strange;     /* all but the first whose name is neither */
	unsigned long long blocked; /* the signal mask of the thread named gpumem */
};

static struct threads threads_now(void)
{
	struct threads t = {0};
	char name[128], mask[128];
	DIR *folder = opendir("/proc/self/task");
	for (struct dirent *entry; (entry = readdir(folder));) {
		status_of(entry->d_name, "Name", name);
		status_of(entry->d_name, "SigBlk", mask);
		if (*entry->d_name == '.' || strcmp(name, "gpumem-node") == 0)
			continue;
		t.n++;
		if (strcmp(name, "gpumem") == 0) {
			t.trimming++;
			t.blocked = strtoull(mask, NULL, 16);
		} else if (atoi(entry->d_name) != getpid()) {
			t.strange++;
		}
	}
	closedir(folder);
	return t;
}

/* A new thread has the name of its maker, until it sets its own. */
static struct threads threads(void)
{
	struct threads t = threads_now();
	while (t.strange || t.trimming > 1) {
		sched_yield();
		t = threads_now();
	}
	return t;
}

static void show_threads(const char *when)
{
	printf("%s: %u\n", when, threads().n);
}

static void thread(void)
{
	unsigned long long all = ~0ull;
	CUdeviceptr p;
	show_threads("before cuInit");
	MUST(cuInit(0));
	use_device(0);
	show_threads("before an allocation");
	MUST(cuMemAlloc_v2(&p, MIB));
	show_threads("nothing is idle");
	MUST(cuMemFree_v2(p));
	struct threads t = threads();
	printf("memory is idle: %u\n", t.n);
	/* SIGKILL, SIGSTOP and the C library's own signals cannot be blocked. */
	all &= ~(1ull << (9 - 1) | 1ull << (19 - 1) | 1ull << (32 - 1) | 1ull << (33 - 1));
	if (t.n == 2)
		printf("it blocks all signals: %d\n", (t.blocked & all) == all);
	MUST(cuMemAlloc_v2(&p, MIB));
	MUST(cuMemFree_v2(p));
	show_threads("it is used again");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		show_threads("a child");
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* The thread has returned all memory, and has ended. */
static void ends(void)
{
	MUST(cuInit(0));
	use_device(0);
	for (int round = 1; round <= 3; round++) {
		use_and_free();
		while (threads().n > 1)
			sched_yield();
		printf("round %d: the thread has ended, %u chunks are mapped\n", round,
		       gm_sim_calls("cuMemMap") - gm_sim_calls("cuMemUnmap"));
	}
}

/* --- other entries, same process --- */

static void needs(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUdeviceptr p;
	CUmodule module;
	struct gm_sim_image image = {.magic = GM_SIM_IMAGE};
	size_t size = percent(80) / (2 * MIB) * (2 * MIB);
	image.memory = size;
	use_and_free();
	SAY(cuMemCreate(&handle, size, &prop, 0));
	SAY(cuMemRelease(handle));
	use_and_free();
	SAY(cuMemAllocAsync(&p, size, NULL));
	SAY(cuMemFreeAsync(p, NULL));
	use_and_free();
	SAY(cuModuleLoadData(&module, &image));
	SAY(cuModuleUnload(module));
	use_and_free();
	take(1);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	alarm(3600); /* no endless wait */
	if (strcmp(what, "thread") == 0)
		return thread(), 0;
	if (strcmp(what, "ends") == 0)
		return ends(), 0;
	MUST(cuInit(0));
	use_device(strcmp(what, "leave") == 0 && argc > 2 ? atoi(argv[2]) : 0);
	if (strcmp(what, "leave") == 0)
		return leave(), 0;
	if (strcmp(what, "create") == 0 && argc > 2)
		return create(atoi(argv[2])), 0;
	if (strcmp(what, "needs") == 0)
		return needs(), 0;
	if (strcmp(what, "take") == 0 && argc > 2)
		return take((unsigned)atoi(argv[2])), 0;
	if (strcmp(what, "rows") == 0)
		return rows(), 0;
	if (strcmp(what, "managed") == 0 && argc > 2)
		return managed((size_t)atol(argv[2])), 0;
	return puts("usage: idle leave [DEVICE] | create DEVICE | rows | take TRIES | thread | "
		    "ends | "
		    "needs | managed BYTES"),
	       2;
}
