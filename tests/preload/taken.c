/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts that are taken over, on the simulated driver, which loads an image of its own instead of
 * the preload's modules; the kernels of that image run here. The heap's kernels run in the
 * emulation. The helper's kernels read and write code of each context (unit/takeover_help.h). The
 * program's malloc uses the heap if that code does.
 */
#include "program.h"

#include <dirent.h>
#include <sched.h>
#include <unistd.h>

#include "heap/device/policies.h"
#include "sim/kernels.h"
#include "tests/unit/takeover_help.h"
/* after sim.h: it takes names from there */
#include "steer.h"

#include "taken_helper.h"

/* --- the program --- */

static CUmodule load(void)
{
	CUmodule module;
	MUST(cuModuleLoadData(&module, &image));
	return module;
}

static void launch_on(CUstream stream, CUmodule module, const char *name, void **args)
{
	CUfunction function;
	MUST(cuModuleGetFunction(&function, module, name));
	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static void launch(CUmodule module, const char *name, void **args)
{
	launch_on(NULL, module, name, args);
	MUST(cuCtxSynchronize());
}

static void *get(CUmodule module, size_t size)
{
	void *address = NULL, **out = &address;
	launch(module, "get", (void *[]){&out, &size});
	if (address)
		memset(address, 0x5a, size);
	return address;
}

static void drop(CUmodule module, void *address)
{
	launch(module, "drop", (void *[]){&address});
}

#define USED (64 * MIB)

/* One kernel allocates and frees, and the heap has to grow for it. No wait for the kernel: a
 * capture may be open. */
static void use_and_free(CUmodule module)
{
	size_t size = USED;
	launch_on(NULL, module, "churn", (void *[]){&size});
}

/* Is the block in the heap of the current context? */
static bool is_own(const void *address)
{
	const struct gm_heap *heap = here()->heap;
	return heap && is_taken(&here()->code[0], GM_TAKEOVER_MALLOC) &&
	       (uintptr_t)address - heap->base < (uint64_t)heap->capacity << GM_GRANULE_SHIFT;
}

static CUcontext create(int device)
{
	CUcontext context;
	CUctxCreateParams parameters;
	memset(&parameters, 0, sizeof parameters);
	MUST(cuCtxCreate(&context, &parameters, 0, device));
	return context;
}

/* Blocks of one context are unknown in the other, which survives the end of the first. */
static void pair(const char *what, CUcontext first, CUcontext second)
{
	CUmodule modules[2];
	void *blocks[2];
	CUcontext contexts[2] = {first, second};
	for (int i = 0; i < 2; i++) {
		MUST(cuCtxSetCurrent(contexts[i]));
		modules[i] = load();
		blocks[i] = get(modules[i], 1000);
	}
	for (int i = 0; i < 2; i++) {
		MUST(cuCtxSetCurrent(contexts[i]));
		printf("%s: %s, %s\n", what, is_own(blocks[i]) ? "its own heap" : "not its own",
		       is_own(blocks[!i]) ? "the other's, too" : "apart");
	}
	MUST(cuCtxDestroy(second));
	MUST(cuCtxSetCurrent(first));
	drop(modules[0], blocks[0]);
	printf("%s: the first after the second's end: %s, %llu strangers\n", what,
	       is_own(get(modules[0], 3000)) ? "goes on" : "is gone",
	       (unsigned long long)here()->heap->foreign_frees);
}

/* Kernels of both sets of malloc and free share a heap. */
static void second(void)
{
	void *address = NULL, **out = &address;
	size_t size = 1000;
	use_device(0);
	CUmodule module = load();
	launch(module, "get_second", (void *[]){&out, &size});
	printf("the second set: %s\n", is_own(address) ? "the heap's" : "the driver's");
	drop(module, address);
	address = get(module, size);
	launch(module, "drop_second", (void *[]){&address});
	printf("%llu strangers\n",
	       (unsigned long long)(here()->heap ? here()->heap->foreign_frees : 0));
}

static void contexts(void)
{
	pair("two contexts", use_device(0), create(0));
}

static void devices(void)
{
	pair("two devices", use_device(0), create(1));
}

/* Each heap reserves more than a tenth of the memory. */
static void ends(void)
{
	int taken = 0;
	for (int i = 0; i < 40; i++) {
		CUcontext context = create(0);
		taken += is_own(get(load(), 100));
		MUST(cuCtxDestroy(context));
	}
	printf("one after the other: %d\n", taken);
}

static void resets(void)
{
	int taken = 0;
	for (int i = 0; i < 40; i++) {
		use_device(0);
		taken += is_own(get(load(), 100));
		MUST(cuDevicePrimaryCtxReset(0));
	}
	printf("reset: %d\n", taken);
}

/* Loads a module in the current context, and so takes the context over. */
static CUmodule load_and_use(void)
{
	CUmodule module = load();
	drop(module, get(module, 100));
	return module;
}

static void nothing(void *unused)
{
	(void)unused;
}

/* Returns the preload's waits for a stream: for the kernel that reads a heap. */
static unsigned release(void)
{
	unsigned before = gm_sim_calls("cuStreamSynchronize");
	MUST(cuDevicePrimaryCtxRelease(0));
	return gm_sim_calls("cuStreamSynchronize") - before;
}

/* Only the last release ends a primary context. A kernel that runs meanwhile may wait for this
 * thread, and may leave no room for other kernels. */
static void releases(void)
{
	CUstream stream;
	void *none = NULL;
	for (int i = 0; i < 3; i++)
		use_device(0);
	CUmodule module = load_and_use();
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(stream);
	gm_sim_launch(stream, nothing, NULL);
	launch_on(NULL, module, "drop", (void *[]){&none}); /* changes the heap */
	printf("released while a kernel runs: %u waits\n", release());
	gm_sim_release(stream, (unsigned)-1);
	MUST(cuDevicePrimaryCtxRelease(0));
	use_and_free(module);
	MUST(cuCtxSynchronize());
	printf("released twice: %s\n", is_own(get(module, 100)) ? "grows on" : "is gone");
	MUST(cuDevicePrimaryCtxRelease(0));
	use_device(0);
	here()->heap = NULL;
	printf("released by all: %s\n", is_own(get(load(), 100)) ? "another heap" : "none");
}

/* Blocks of each size keep their contents; the second round may get the same blocks. The heap has
 * grown before: the result does not depend on the speed of its thread. */
static void sizes(void)
{
	enum { EACH = 8, STEPS = 10 };
	unsigned char *blocks[EACH * STEPS];
	unsigned own = 0, kept = 0;
	use_device(0);
	CUmodule module = load();
	use_and_free(module);
	use_and_free(module);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < EACH * STEPS; i++) {
			blocks[i] = get(module, 16u << 2 * (i / EACH));
			own += is_own(blocks[i]);
			if (blocks[i])
				*blocks[i] = (unsigned char)i;
		}
		for (int i = 0; i < EACH * STEPS; i++) {
			kept += blocks[i] && *blocks[i] == i;
			drop(module, blocks[i]);
		}
	}
	printf("%s: %u of its heap, %u kept\n", policy->name, own, kept);
}

/* --- memory freed by kernels --- */

#define TRIES 600000 /* of 1 ms each: no endless wait */

#include "taken_sleep.h"

#include "taken_calls.h"

static void idle(void)
{
	use_device(0);
	CUmodule module = load_and_use();
	size_t seen = free_now(false), had = free_now(true);
	for (int i = 0; i < 3; i++) {
		use_and_free(module);
		bool back = comes_back(seen, false);
		printf("%s, %s\n", back ? "back" : "kept",
		       comes_back(had, true) ? "the driver has it" : "the driver has not");
	}
	printf("%s\n", is_own(get(module, 100)) ? "goes on" : "is gone");
}

/* Returns the number of threads with that name. */
static unsigned threads(const char *want)
{
	unsigned n = 0;
	DIR *folder = opendir("/proc/self/task");
	for (struct dirent *entry; (entry = readdir(folder));) {
		char path[300], name[32] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
		FILE *file = fopen(path, "r");
		if (file && fgets(name, sizeof name, file))
			name[strcspn(name, "\n")] = '\0';
		if (file)
			fclose(file);
		n += strcmp(name, want) == 0;
	}
	closedir(folder);
	return n;
}

/* Waits for the end of the service thread, which has then reported the end of all kernels. A new
 * thread first has its creator's name. */
static void until_the_service_ends(void)
{
	while (threads("gpumem-heap"))
		sched_yield();
}

static void show_kept(size_t seen)
{
	until_the_service_ends();
	printf("%s, %u threads\n", free_now(false) < seen ? "kept" : "nothing to keep",
	       threads("gpumem"));
}

static void kept(void)
{
	use_device(0);
	CUmodule module = load_and_use();
	size_t seen = free_now(false);
	show_kept(seen);
	use_and_free(module);
	show_kept(seen);
}

/* One context has kernels in flight. In another one memory is returned. */
static void flight(void)
{
	CUstream stream;
	void *none = NULL;
	CUcontext first = use_device(0), second = create(0);
	CUmodule other = load_and_use();
	MUST(cuCtxSetCurrent(first));
	CUmodule module = load_and_use();
	size_t seen = free_now(false);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(stream);
	launch_on(stream, module, "drop", (void *[]){&none});
	use_and_free(module);
	size_t less = free_now(false);
	MUST(cuCtxSetCurrent(second));
	for (int i = 0; i < 2; i++) {
		use_and_free(other);
		printf("another: %s\n", comes_back(less, false) ? "back" : "kept");
	}
	printf("in flight: %s\n", free_now(false) < seen ? "kept" : "back");
	gm_sim_release(stream, (unsigned)-1);
	printf("ended: %s\n", comes_back(seen, false) ? "back" : "kept");
}

/* Contexts end shortly before their heaps return memory, or during the return. */
static void race(void)
{
	int taken = 0;
	for (int i = 0; i < 40; i++) {
		CUcontext context = create(0);
		CUmodule module = load_and_use();
		use_and_free(module);
		taken += here()->heap != NULL;
		usleep((useconds_t)i * 100);
		MUST(cuCtxDestroy(context));
	}
	printf("one after the other: %d\n", taken);
}

static void capture(void)
{
	CUstream stream;
	CUgraph graph;
	CUdeviceptr block;
	CUcontext first = use_device(0), second = use_device(1);
	size_t had = free_now(true);
	MUST(cuCtxSetCurrent(first));
	CUmodule module = load_and_use();
	size_t seen = free_now(false);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	use_and_free(module);
	until_the_service_ends();
	MUST(cuCtxSetCurrent(second));
	for (int i = 0; i < 2; i++) {
		MUST(cuMemAlloc_v2(&block, USED));
		MUST(cuMemFree_v2(block));
		printf("another: %s\n", comes_back(had, true) ? "back" : "kept");
	}
	MUST(cuCtxSetCurrent(first));
	printf("capture: %s\n", free_now(false) < seen ? "kept" : "back");
	MUST(cuStreamEndCapture(stream, &graph));
	printf("ended: %s\n", comes_back(seen, false) ? "back" : "kept");
	MUST(cuGraphDestroy(graph));
}

/* Calls of kernels, each at a place of its own: 1 allocates and leaks, 2 allocates, 3 frees that
 * twice, 4 frees no block, 5 asks for too much, 6 is in the second set. The numbers are printed
 * with their return addresses. */
static void places_of_calls(void)
{
	void *block, **out = &block;
	size_t huge = (size_t)1 << 40, size = 300;
	use_device(0);
	CUmodule module = load();
	for (call_now = 1; call_now <= 6; call_now++) {
		printf("%u %llu\n", call_now,
		       (unsigned long long)(uintptr_t)&code_of_calls[64 + 2 * call_now]);
		if (call_now == 1)
			for (int i = 0; i < 5; i++)
				get(module, 1000);
		if (call_now == 2)
			block = get(module, 100);
		for (int i = 0; call_now == 3 && i < 3; i++)
			drop(module, block);
		if (call_now == 4)
			drop(module, (char *)get(module, 64) + 16);
		if (call_now == 5)
			launch(module, "get", (void *[]){&out, &huge});
		if (call_now == 6)
			launch(module, "get_second", (void *[]){&out, &size});
	}
	MUST(cuDevicePrimaryCtxReset(0));
}

static CUstream busy;
static unsigned n_launched; /* launched before the driver's unload */

static void busy_ends(void)
{
	gm_sim_release(busy, (unsigned)-1);
}

static void unload_begins(void)
{
	n_launched = gm_sim_calls("cuLaunchKernel");
	busy_ends();
}

/* A module with a kernel in flight, which ends when the preload first asks for it, or the driver
 * waits for it. */
static void unload(void)
{
	size_t size = 1000;
	void *address, **out = &address;
	use_device(0);
	CUmodule module = load();
	get(module, size);
	MUST(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(busy);
	launch_on(busy, module, "get", (void *[]){&out, &size});
	unsigned before = gm_sim_calls("cuLaunchKernel");
	gm_sim_before("cuEventQuery", busy_ends);
	gm_sim_before("cuModuleUnload", unload_begins);
	MUST(cuModuleUnload(module));
	printf("before an unload: %u kernels\n", n_launched - before);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"second", second}, {"contexts", contexts}, {"devices", devices},
		     {"ends", ends},	 {"resets", resets},	 {"releases", releases},
		     {"limits", limits}, {"idle", idle},	 {"kept", kept},
		     {"flight", flight}, {"capture", capture},	 {"race", race},
		     {"sizes", sizes},	 {"sleeps", sleeps},	 {"together", together},
		     {"unread", unread}, {"fixed", fixed},	 {"sites", places_of_calls},
		     {"unload", unload}};
	MUST(cuInit(0));
	choose_policy();
	stand_in();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (argc > 1 && strcmp(parts[i].name, argv[1]) == 0)
			parts[i].run();
	return 0;
}
