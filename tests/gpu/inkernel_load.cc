/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images that call malloc, in every form that the driver loads: modules and libraries, from memory
 * and from files, plain, -G, -rdc=true, PTX text. Memory that one module allocates and another
 * frees, in both orders of loading. One library in several contexts, on several devices, and after
 * a reset. Modules loaded, and kernels launched for the first time, while another thread captures.
 * Usage: inkernel_load FOLDER orders|contexts|captures|devices
 */
#include "inkernel_load.h"

#include <thread>

/* --- the order of loading --- */

static void orders()
{
	static const char *const names[] = {"plain.cubin", "debug.cubin", "rdc.cubin", "text.ptx"};
	CUmodule module[4];
	start();
	for (int i = 0; i < 4; i++)
		module[i] = from_data(names[i]);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 4; k++)
			exchange(std::string(names[i]) + " to " + names[k], module[i], module[k]);
	CUmodule late = from_data("plain.cubin"), file;
	MUST(cuModuleLoad(&file, (folder + "/plain.cubin").c_str()));
	exchange("loaded before to loaded after", module[0], late);
	exchange("loaded after to loaded before", late, module[2]);
	exchange("from a file to PTX", file, module[3]);
	for (CUmodule m : {module[0], module[1], module[2], module[3], late, file})
		MUST(cuModuleUnload(m));
}

/* --- libraries and contexts --- */

struct Libraries {
	CUlibrary memory, file;

	Libraries()
	{
		MUST(cuLibraryLoadData(&memory, contents("plain.cubin").data(), NULL, NULL, 0, NULL,
				       NULL, 0));
		MUST(cuLibraryLoadFromFile(&file, (folder + "/rdc.cubin").c_str(), NULL, NULL, 0,
					   NULL, NULL, 0));
	}
	/* Uses both libraries in the current context. */
	void use(const char *where)
	{
		CUmodule m, f;
		MUST(cuLibraryGetModule(&m, memory));
		MUST(cuLibraryGetModule(&f, file));
		exchange(std::string(where) + ", from memory to file", m, f);
		exchange(std::string(where) + ", from file to memory", f, m);
	}
	~Libraries()
	{
		MUST(cuLibraryUnload(memory));
		MUST(cuLibraryUnload(file));
	}
};

static void contexts()
{
	CUcontext primary = start();
	Libraries libraries;
	libraries.use("primary context");
	CUcontext second = another(0);
	libraries.use("second context");
	MUST(cuCtxSetCurrent(primary));
	libraries.use("primary context again");
	MUST(cuCtxSetCurrent(second));
	MUST(cuCtxDestroy(second));
	MUST(cuCtxSetCurrent(primary));
	libraries.use("second context destroyed");
	for (int i = 0; i < 3; i++) {
		MUST(cuDevicePrimaryCtxReset(0));
		start();
		libraries.use("after a reset");
	}
}

/* --- while another thread captures; each image is a new context's first that calls malloc --- */

struct Capture {
	CUstream stream;
	CUcontext primary;

	explicit Capture(CUstreamCaptureMode mode)
	{
		MUST(cuDevicePrimaryCtxReset(0));
		primary = start();
		MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		MUST(cuStreamBeginCapture(stream, mode));
	}
	/* Makes the call on a thread that does not capture. */
	template <typename Call> int meanwhile(Call call)
	{
		int result = -1;
		std::thread([&] {
			MUST(cuCtxSetCurrent(primary));
			result = (int)call();
		}).join();
		return result;
	}
	/* Ends the capture, and prints whether it is still valid. */
	CUgraph end(const char *what, int result)
	{
		CUgraph graph = NULL;
		int ended = (int)cuStreamEndCapture(stream, &graph);
		printf("%-50s %d, capture %d\n", what, result, ended);
		MUST(cuStreamDestroy(stream));
		return graph;
	}
};

static void load_meanwhile(CUstreamCaptureMode mode)
{
	CUmodule module = NULL;
	std::vector<char> image = contents("plain.cubin");
	Capture capture(mode);
	int loaded = capture.meanwhile([&] { return cuModuleLoadData(&module, image.data()); });
	MUST(cuGraphDestroy(capture.end("loaded while a thread captures", loaded)));
	exchange("and used", module, module);
	MUST(cuModuleUnload(module));
}

/* The capture stays open while kernels that call malloc run. */
static void launch_meanwhile(CUstreamCaptureMode mode)
{
	Capture capture(mode);
	CUmodule module = NULL;
	CUdeviceptr slots;
	unsigned n = N;
	void *parameters[] = {&slots, &n};
	std::vector<char> image = contents("plain.cubin");
	int launched = capture.meanwhile([&] {
		CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
		CUstream stream;
		MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
		MUST(cuModuleLoadData(&module, image.data()));
		MUST(cuMemAlloc(&slots, N * sizeof(void *)));
		MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		MUST(cuLaunchKernel(kernel(module, "give"), (N + 127) / 128, 1, 1, 128, 1, 1, 0,
				    stream, parameters, NULL));
		CUresult result = cuStreamSynchronize(stream);
		MUST(cuStreamDestroy(stream));
		return result;
	});
	MUST(cuGraphDestroy(capture.end("launched while a thread captures", launched)));
	/* Now the context can be taken over. Blocks from before are the driver's. */
	CUdeviceptr wrong;
	unsigned bad = 0;
	void *take[] = {&slots, &n, &wrong};
	MUST(cuMemAlloc(&wrong, sizeof bad));
	MUST(cuMemsetD8(wrong, 0, sizeof bad));
	MUST(cuLaunchKernel(kernel(module, "take"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, take,
			    NULL));
	MUST(cuMemcpyDtoH(&bad, wrong, sizeof bad));
	printf("%-50s %u wrong\n", "freed after it", bad);
	exchange("and used", module, module);
	MUST(cuMemFree(slots));
	MUST(cuMemFree(wrong));
	MUST(cuModuleUnload(module));
}

/* The context's first kernel that calls malloc is captured, and runs in a graph. */
static void capture_it(CUstreamCaptureMode mode)
{
	CUdeviceptr slots, wrong;
	CUgraphExec exec;
	unsigned n = N, bad = 0;
	MUST(cuDevicePrimaryCtxReset(0));
	start();
	MUST(cuMemAlloc(&slots, N * sizeof(void *)));
	MUST(cuMemAlloc(&wrong, sizeof bad));
	MUST(cuMemsetD8(wrong, 0, sizeof bad));
	void *give[] = {&slots, &n}, *take[] = {&slots, &n, &wrong};
	Libraries libraries;
	CUkernel k[2];
	MUST(cuLibraryGetKernel(&k[0], libraries.memory, "give"));
	MUST(cuLibraryGetKernel(&k[1], libraries.file, "take"));
	CUstream stream;
	CUgraph graph;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, mode));
	MUST(cuLaunchKernel((CUfunction)k[0], (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, give,
			    NULL));
	MUST(cuLaunchKernel((CUfunction)k[1], (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, take,
			    NULL));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		MUST(cuGraphLaunch(exec, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuMemcpyDtoH(&bad, wrong, sizeof bad));
	printf("%-50s %u wrong\n", "first used in a graph, five times", bad);
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
	MUST(cuStreamDestroy(stream));
	MUST(cuMemFree(slots));
	MUST(cuMemFree(wrong));
}

static void captures()
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_RELAXED};
	start();
	for (CUstreamCaptureMode mode : modes) {
		printf("capture mode %d\n", (int)mode);
		load_meanwhile(mode);
		launch_meanwhile(mode);
		capture_it(mode);
	}
}

/* --- two devices --- */

/* One library, used on both devices by turns and at once. One device is reset while the other is in
 * use. */
static void devices()
{
	int count = 0;
	MUST(cuDeviceGetCount(&count));
	if (count < 2) {
		printf("one device\n");
		exit(77);
	}
	Libraries libraries;
	CUcontext context[2] = {start(0), start(1)};
	for (int i = 0; i < 4; i++) {
		MUST(cuCtxSetCurrent(context[i % 2]));
		libraries.use(i % 2 ? "second device" : "first device");
	}
	CUmodule module[2];
	std::thread thread[2];
	unsigned bad[2] = {0, 0};
	for (int d = 0; d < 2; d++) {
		MUST(cuCtxSetCurrent(context[d]));
		MUST(cuLibraryGetModule(&module[d], libraries.memory));
	}
	for (int d = 0; d < 2; d++)
		thread[d] = std::thread([&, d] {
			CUdeviceptr slots, wrong;
			unsigned n = N;
			void *give[] = {&slots, &n}, *take[] = {&slots, &n, &wrong};
			MUST(cuCtxSetCurrent(context[d]));
			MUST(cuMemAlloc(&slots, N * sizeof(void *)));
			MUST(cuMemAlloc(&wrong, sizeof bad[d]));
			MUST(cuMemsetD8(wrong, 0, sizeof bad[d]));
			for (int i = 0; i < 50; i++) {
				MUST(cuLaunchKernel(kernel(module[d], "give"), (N + 127) / 128, 1,
						    1, 128, 1, 1, 0, NULL, give, NULL));
				MUST(cuLaunchKernel(kernel(module[d], "take"), (N + 127) / 128, 1,
						    1, 128, 1, 1, 0, NULL, take, NULL));
			}
			MUST(cuMemcpyDtoH(&bad[d], wrong, sizeof bad[d]));
			MUST(cuMemFree(slots));
			MUST(cuMemFree(wrong));
		});
	for (int d = 0; d < 2; d++)
		thread[d].join();
	printf("%-50s %u %u wrong\n", "both at once", bad[0], bad[1]);
	MUST(cuCtxSetCurrent(NULL));
	MUST(cuDevicePrimaryCtxReset(1));
	MUST(cuCtxSetCurrent(context[0]));
	libraries.use("first device, the second one reset");
	start(1);
	libraries.use("second device after its reset");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} parts[] = {{"orders", orders},
		     {"contexts", contexts},
		     {"captures", captures},
		     {"devices", devices}};
	for (const auto &part : parts)
		if (argc == 3 && !strcmp(argv[2], part.name)) {
			folder = argv[1];
			MUST(cuInit(0));
			part.run();
			return 0;
		}
	fprintf(stderr, "usage: inkernel_load FOLDER orders|contexts|captures|devices\n");
	return 2;
}
