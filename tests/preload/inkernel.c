/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Triggers of a takeover: modules and libraries are loaded, kernels launched. The simulated driver
 * takes no code for GPUs, so each takeover ends at its first step, the load of the preload's
 * module; tests/preload/inkernel.bats counts these loads.
 */
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* after cuda.h: it would rename calls there */
#include "sim/sim.h"
#include "steer.h"
#include "turn.h"

static void run_nothing(void **args)
{
	(void)args;
}

static const struct gm_sim_kernel kernels[] = {{"nothing", run_nothing, {0}, 0}};
static const struct gm_sim_image image = {GM_SIM_IMAGE, 1, kernels, 4096, 0, NULL};

static void launch(CUfunction function, CUstream stream)
{
	SAY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static CUfunction of_module(CUmodule *module)
{
	CUfunction function;
	SAY(cuModuleLoadData(module, &image));
	SAY(cuModuleGetFunction(&function, *module, "nothing"));
	return function;
}

/* One context is taken over at its first module. */
static void modules(void)
{
	CUmodule first, second;
	launch(of_module(&first), NULL);
	launch(of_module(&second), NULL);
	SAY(cuCtxSynchronize());
}

/* A library belongs to no context: the first of its kernels used in a context triggers the
 * takeover. */
static void libraries(void)
{
	CUlibrary library;
	CUkernel kernel;
	CUfunction function;
	CUcontext second;
	SAY(cuLibraryLoadData(&library, &image, NULL, NULL, 0, NULL, NULL, 0));
	SAY(cuLibraryGetKernel(&kernel, library, "nothing"));
	puts("a kernel");
	SAY(cuKernelGetFunction(&function, kernel));
	launch(function, NULL);
	CUctxCreateParams parameters;
	memset(&parameters, 0, sizeof parameters);
	SAY(cuCtxCreate(&second, &parameters, 0, 0));
	launch((CUfunction)kernel, NULL);
	launch((CUfunction)kernel, NULL);
	SAY(cuCtxDestroy(second));
}

static void resets(void)
{
	CUmodule module;
	for (int i = 0; i < 3; i++) {
		launch(of_module(&module), NULL);
		SAY(cuDevicePrimaryCtxReset(0));
		use_device(0);
	}
}

/* A takeover is put off while a capture is open. */
static void captured(void)
{
	CUmodule module;
	CUstream stream;
	CUgraph graph;
	SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CUfunction function = of_module(&module);
	SAY(cuStreamEndCapture(stream, &graph));
	SAY(cuGraphDestroy(graph));
	puts("captured");
	fflush(stdout);
	launch(function, stream);
}

static void limits(void)
{
	size_t value = 0;
	SAY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 12345678));
	SAY(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	printf("%zu\n", value);
	CUmodule module;
	launch(of_module(&module), NULL);
	SAY(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	printf("%zu\n", value);
	SAY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
	SAY(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	printf("%zu\n", value);
}

/* --- another thread uses the context during a takeover --- */

static CUcontext shared;

static void *first_user(void *arg)
{
	SAY(cuCtxSetCurrent(shared));
	of_module(arg);
	return NULL;
}

/* The takeover stops in its first call; natively the first load of a module does. */
static void patience(void)
{
	CUmodule first, second;
	pthread_t thread;
	MUST(cuCtxGetCurrent(&shared));
	gm_sim_before("cuThreadExchangeStreamCaptureMode", turn_hold);
	gm_sim_before("cuModuleLoadData", turn_hold);
	pthread_create(&thread, NULL, first_user, &first);
	turn_await();
	launch(of_module(&second), NULL);
	puts("it went on");
	fflush(stdout);
	turn_end();
	pthread_join(thread, NULL);
	SAY(cuCtxSynchronize());
}

/* A debugger sets this word of the driver. */
static void debugged(const char *word)
{
	*(uint32_t *)steer(word) = 1;
	modules();
}

/* A tool loads this library into the process. */
static void watched(const char *library)
{
	if (!dlopen(library, RTLD_NOW))
		puts(dlerror());
	modules();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "modules";
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"modules", modules},   {"libraries", libraries}, {"resets", resets},
		     {"captured", captured}, {"limits", limits},       {"patience", patience}};
	MUST(cuInit(0));
	use_device(0);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strcmp(parts[i].name, what) == 0)
			parts[i].run();
	if (argc > 2)
		(strcmp(what, "debugged") == 0 ? debugged : watched)(argv[2]);
	return 0;
}
