/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images that call malloc, by every way in which the driver takes them: modules and libraries, from
 * memory and from files, plain, -G, -rdc=true, PTX text, NVRTC; memory that one module allocates
 * and another frees, in both orders of loading; one library in several contexts and after a reset;
 * a module loaded while another thread captures. Usage: inkernel_load FOLDER
 */
#include "gpu.h"

#include <cstring>
#include <dlfcn.h>
#include <string>
#include <thread>

static std::string folder;
static const unsigned N = 100000;

static std::vector<char> contents(const std::string &name)
{
	std::vector<char> all;
	FILE *file = fopen((folder + "/" + name).c_str(), "rb");
	for (int c; file && (c = getc(file)) != EOF;)
		all.push_back((char)c);
	if (file)
		fclose(file);
	all.push_back('\0');
	return all;
}

static CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction function;
	MUST(cuModuleGetFunction(&function, module, name));
	return function;
}

/* What `from` allocates, `to` frees. */
static void exchange(const char *what, CUmodule from, CUmodule to)
{
	CUdeviceptr slots, wrong;
	unsigned n = N, bad = 0;
	MUST(cuMemAlloc(&slots, N * sizeof(void *)));
	MUST(cuMemAlloc(&wrong, sizeof bad));
	MUST(cuMemsetD8(wrong, 0, sizeof bad));
	void *give[] = {&slots, &n}, *take[] = {&slots, &n, &wrong};
	MUST(cuLaunchKernel(kernel(from, "give"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, give,
			    NULL));
	MUST(cuLaunchKernel(kernel(to, "take"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, take,
			    NULL));
	MUST(cuCtxSynchronize());
	MUST(cuMemcpyDtoH(&bad, wrong, sizeof bad));
	MUST(cuMemFree(slots));
	MUST(cuMemFree(wrong));
	printf("%-50s %u wrong\n", what, bad);
}

static CUmodule from_data(const char *name)
{
	CUmodule module;
	MUST(cuModuleLoadData(&module, contents(name).data()));
	return module;
}

static void start(CUcontext *context)
{
	MUST(cuDevicePrimaryCtxRetain(context, 0));
	MUST(cuCtxSetCurrent(*context));
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 256 << 20));
}

/* --- the order of loading --- */

static void orders()
{
	static const char *const names[] = {"plain.cubin", "debug.cubin", "rdc.cubin", "text.ptx"};
	CUmodule module[4];
	for (int i = 0; i < 4; i++)
		module[i] = from_data(names[i]);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 4; k++)
			exchange((std::string(names[i]) + " to " + names[k]).c_str(), module[i],
				 module[k]);
	CUmodule late = from_data("plain.cubin"), file;
	MUST(cuModuleLoad(&file, (folder + "/plain.cubin").c_str()));
	exchange("loaded before to loaded after", module[0], late);
	exchange("loaded after to loaded before", late, module[2]);
	exchange("from a file to PTX", file, module[3]);
	for (CUmodule m : {module[0], module[1], module[2], module[3], late, file})
		MUST(cuModuleUnload(m));
}

/* --- libraries and contexts --- */

static void libraries(CUcontext *primary)
{
	CUlibrary library, file;
	CUcontext second;
	CUmodule module, of_file;
	MUST(cuLibraryLoadData(&library, contents("plain.cubin").data(), NULL, NULL, 0, NULL, NULL,
			       0));
	MUST(cuLibraryLoadFromFile(&file, (folder + "/rdc.cubin").c_str(), NULL, NULL, 0, NULL,
				   NULL, 0));
	MUST(cuLibraryGetModule(&module, library));
	MUST(cuLibraryGetModule(&of_file, file));
	exchange("a library to one from a file", module, of_file);
#if CUDA_VERSION >= 13000
	CUctxCreateParams parameters = {};
	MUST(cuCtxCreate(&second, &parameters, 0, 0));
#else
	MUST(cuCtxCreate(&second, 0, 0));
#endif
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 256 << 20));
	MUST(cuLibraryGetModule(&module, library));
	MUST(cuLibraryGetModule(&of_file, file));
	exchange("the same in a second context", module, of_file);
	MUST(cuCtxDestroy(second));
	MUST(cuCtxSetCurrent(*primary));
	MUST(cuLibraryGetModule(&module, library));
	exchange("again in the first", module, module);
	MUST(cuDevicePrimaryCtxReset(0));
	start(primary);
	MUST(cuLibraryGetModule(&module, library));
	MUST(cuLibraryGetModule(&of_file, file));
	exchange("after a reset", of_file, module);
	MUST(cuLibraryUnload(library));
	MUST(cuLibraryUnload(file));
}

/* --- while another thread captures; the first such module of a fresh context --- */

static void captures(CUcontext *primary)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_RELAXED};
	for (CUstreamCaptureMode mode : modes) {
		MUST(cuDevicePrimaryCtxReset(0));
		start(primary);
		CUstream stream;
		CUgraph graph = NULL;
		CUmodule module = NULL;
		int loaded = -1;
		MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		std::vector<char> image = contents("plain.cubin");
		MUST(cuStreamBeginCapture(stream, mode));
		std::thread([&] {
			cuCtxSetCurrent(*primary);
			loaded = cuModuleLoadData(&module, image.data());
		}).join();
		int ended = cuStreamEndCapture(stream, &graph);
		printf("loaded while thread captures, mode %-15d %d %d\n", (int)mode, loaded,
		       ended);
		exchange("and used", module, module);
		MUST(cuGraphDestroy(graph));
		MUST(cuStreamDestroy(stream));
		MUST(cuModuleUnload(module));
	}
}

/* --- NVRTC --- */

static void nvrtc()
{
	void *library = dlopen("libnvrtc.so.13", RTLD_NOW);
	if (!library)
		library = dlopen("libnvrtc.so.12", RTLD_NOW);
	if (!library) {
		printf("no NVRTC\n");
		return;
	}
	typedef struct program *Program;
	auto create = (int (*)(Program *, const char *, const char *, int, const char *const *,
			       const char *const *))dlsym(library, "nvrtcCreateProgram");
	auto compile =
		(int (*)(Program, int, const char *const *))dlsym(library, "nvrtcCompileProgram");
	auto size = (int (*)(Program, size_t *))dlsym(library, "nvrtcGetPTXSize");
	auto ptx = (int (*)(Program, char *))dlsym(library, "nvrtcGetPTX");
	std::string source;
	for (char c : contents("inkernel_module.cu"))
		source += c;
	source = source.c_str() + source.find("extern");
	Program program;
	size_t n = 0;
	CUmodule module;
	MUST(create(&program, source.c_str(), "module.cu", 0, NULL, NULL));
	MUST(compile(program, 0, NULL));
	MUST(size(program, &n));
	std::vector<char> text(n);
	MUST(ptx(program, text.data()));
	MUST(cuModuleLoadData(&module, text.data()));
	exchange("NVRTC", module, module);
}

int main(int argc, char **argv)
{
	CUcontext primary;
	folder = argc > 1 ? argv[1] : ".";
	MUST(cuInit(0));
	start(&primary);
	orders();
	libraries(&primary);
	captures(&primary);
	nvrtc();
	return 0;
}
