/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing takeovers on a GPU: the driver fails one launch, each in turn, or runs the test with half
 * of its threads. After each failure the code of the driver's malloc and free must be unchanged, to
 * the bit, and kernels must allocate and free with it. At the end an attempt without a failure
 * succeeds. Usage: inkernel_restore FOLDER
 *
 * Linked with the library's own code; runs with GPUMEM_HEAP=off.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap/device/heap.h"
#include "heap/heap.h"
#include "takeover/patch.h"

#define MUST(call)                                                                         \
	do {                                                                               \
		int must_ = (int)(call);                                                   \
		if (must_ != 0) {                                                          \
			printf("%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, must_); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)
#define HOLD(condition) MUST(!(condition))

enum { THREADS = 50000, BLOCK = 128, BLOCKS = 256, MOST_LAUNCHES = 100 };

static struct gm_driver driver, spoiled;
static struct gm_pool *pool;
static struct gm_context *context;
static struct gm_patch reader; /* for this test's own helper */
static CUfunction give, take;

/* --- a driver that fails on request --- */

static unsigned launches, tests;
static unsigned fail_launch, halve_test; /* number of the one, from 1; 0: none */

static CUresult spoil_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			     unsigned by, unsigned bz, unsigned shared, CUstream stream,
			     void **params, void **extra)
{
	if (++launches == fail_launch)
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	if (bx == GM_HELPER_THREADS && ++tests == halve_test)
		gx /= 2;
	return driver.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

/* --- code of malloc, and malloc in a kernel of the program --- */

struct code {
	struct gm_insn of[2][GM_HELPER_CODE];
};

static void read_function(uint64_t at, struct gm_insn code[GM_HELPER_CODE])
{
	HOLD(gm_patch_read(&reader, &at, 1) && gm_patch_fetch(&reader));
	gm_patch_code(&reader, 0, code);
}

/* Reads the code of the driver's malloc and free. */
static struct code read_code(const uint64_t at[2])
{
	struct code code;
	for (unsigned i = 0; i < 2; i++)
		read_function(at[i], code.of[i]);
	return code;
}

/* Returns the number of threads with memory of the heap; all threads must read back their value. */
static unsigned use_malloc(uint64_t base, uint64_t bytes)
{
	static uint64_t given[THREADS];
	CUdeviceptr slots, wrong;
	unsigned n = THREADS, bad = 0, ours = 0;
	MUST(cuMemAlloc_v2(&slots, sizeof given));
	MUST(cuMemAlloc_v2(&wrong, sizeof bad));
	MUST(cuMemsetD8_v2(wrong, 0, sizeof bad));
	void *to_give[] = {&slots, &n}, *to_take[] = {&slots, &n, &wrong};
	MUST(cuLaunchKernel(give, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, to_give,
			    NULL));
	MUST(cuMemcpyDtoH_v2(given, slots, sizeof given));
	MUST(cuLaunchKernel(take, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, to_take,
			    NULL));
	MUST(cuMemcpyDtoH_v2(&bad, wrong, sizeof bad));
	HOLD(bad == 0);
	for (unsigned i = 0; i < n; i++)
		ours += given[i] - base < bytes;
	MUST(cuMemFree_v2(slots));
	MUST(cuMemFree_v2(wrong));
	return ours;
}

/* --- takeovers --- */

static void launch(void *heap, CUstream stream)
{
	gm_heap_launch(heap, stream, NULL);
}

static void launched(void *heap, CUstream stream, bool well)
{
	gm_heap_launched(heap, stream, well, NULL);
}

/* Take over through the failing driver; then run the program's kernels. */
static struct gm_takeover_report attempt(const char *what)
{
	struct gm_takeover_report report;
	struct gm_heap_host *heap;
	struct gm_heap on_device;
	const struct gm_heap_config heap_config = {.driver = &driver,
						   .pool = pool,
						   .context = context,
						   .limit = (uint64_t)1 << 30,
						   .image = gm_heap_image("granule")};
	MUST(gm_heap_create(&heap_config, &heap));
	MUST(cuMemcpyDtoH_v2(&on_device, gm_heap_device(heap), sizeof on_device));
	const struct gm_takeover_config config = {
		.driver = &spoiled,
		.images = gm_takeover_images(gm_heap_policy_of(heap)),
		.heap = gm_heap_device(heap),
		.blocks = BLOCKS,
		.launch = launch,
		.launched = launched,
		.arg = heap,
	};
	launches = tests = 0;
	bool taken = gm_takeover(&config, &report);
	gm_heap_launch(heap, NULL, NULL);
	unsigned ours =
		use_malloc(on_device.base, (uint64_t)on_device.capacity << GM_GRANULE_SHIFT);
	gm_heap_launched(heap, NULL, true, NULL);
	printf("%s: %s%s%s; %u of %d from the heap\n", what, gm_takeover_text(report.end),
	       report.step ? ", while " : "", report.step ? report.step : "", ours, THREADS);
	HOLD(ours == (taken ? THREADS : 0));
	HOLD(report.end != GM_TAKEOVER_BROKEN);
	if (!taken)
		gm_heap_destroy(heap);
	return report;
}

static void start_reader(uint64_t at[2])
{
	static struct gm_takeover_config config;
	static const enum gm_helper_function calls[] = {GM_HELPER_CALLS_MALLOC,
							GM_HELPER_CALLS_FREE};
	struct gm_insn code[GM_HELPER_CODE];
	config = (struct gm_takeover_config){.driver = &driver, .images = gm_takeover_images(0)};
	reader = (struct gm_patch){.config = &config, .driver = &driver};
	MUST(driver.cuStreamCreate(&reader.stream, CU_STREAM_NON_BLOCKING));
	HOLD(gm_patch_load(&reader));
	HOLD(gm_patch_fetch(&reader));
	const struct gm_helper_answer known = reader.answer;
	read_function(known.address[GM_HELPER_CALLS_OURS], code);
	const struct gm_insn *call = gm_insn_call(code, GM_HELPER_CODE);
	HOLD(call);
	enum gm_call_form form = gm_insn_form(*call, known.address[GM_HELPER_MALLOC]);
	for (unsigned i = 0; i < 2; i++) {
		read_function(known.address[calls[i]], code);
		call = gm_insn_call(code, GM_HELPER_CODE);
		HOLD(call);
		at[i] = gm_insn_target(form, *call);
	}
}

static void *find(void *library, const char *symbol)
{
	return dlsym(library, symbol);
}

static void start(const char *folder)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult result;
	CUdevice device;
	CUcontext primary;
	CUmodule module;
	char path[4096];
	if (!gm_takeover_images(0).helper) {
		printf("this build has no code for GPUs\n");
		exit(77);
	}
	HOLD(library && !gm_driver_load(&driver, find, library));
	MUST(cuInit(0));
	MUST(gm_driver_query_version(&driver));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&primary, device));
	MUST(cuCtxPushCurrent_v2(primary));
	context = gm_context_current(&driver, &result);
	HOLD(context);
	const struct gm_pool_config config = {
		.driver = &driver, .device = device, .limit = UINT64_MAX, .trim_after = UINT64_MAX};
	MUST(gm_pool_create(&config, &pool));
	snprintf(path, sizeof path, "%s/plain.cubin", folder);
	MUST(cuModuleLoad(&module, path));
	MUST(cuModuleGetFunction(&give, module, "give"));
	MUST(cuModuleGetFunction(&take, module, "take"));
	spoiled = driver;
	spoiled.cuLaunchKernel = spoil_launch;
}

int main(int argc, char **argv)
{
	uint64_t at[2];
	char what[64];
	setvbuf(stdout, NULL, _IOLBF, 0);
	start(argc > 1 ? argv[1] : ".");
	HOLD(use_malloc(0, 0) == 0); /* makes the driver prepare the context for malloc */
	start_reader(at);
	const struct code native = read_code(at);
	for (halve_test = 1; halve_test <= 3; halve_test++) {
		snprintf(what, sizeof what, "part %u of the test, halved", halve_test);
		HOLD(attempt(what).end == GM_TAKEOVER_TEST_FAILED);
		const struct code now = read_code(at);
		HOLD(memcmp(&now, &native, sizeof now) == 0);
	}
	halve_test = 0;
	for (fail_launch = 1; fail_launch < MOST_LAUNCHES; fail_launch++) {
		snprintf(what, sizeof what, "launch %u fails", fail_launch);
		struct gm_takeover_report report = attempt(what);
		const struct code now = read_code(at);
		if (report.end == GM_TAKEOVER_TAKEN) {
			HOLD(launches < fail_launch);
			HOLD(memcmp(&now, &native, sizeof now) != 0);
			printf("taken over once none of %u launches failed\n", launches);
			return 0;
		}
		HOLD(report.result == CUDA_ERROR_LAUNCH_TIMEOUT);
		HOLD(memcmp(&now, &native, sizeof now) == 0);
	}
	printf("never taken over\n");
	return 1;
}
