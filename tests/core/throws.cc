// SPDX-License-Identifier: BSD-3-Clause
// gpumem_torch_alloc with PyTorch loaded (argument 1: a library of its name). Out of memory, and a
// stream capture, raise an exception, which this program, as PyTorch, knows only as std::exception.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "api/gpumem.h"

extern "C" {
// Declared by cuda.h, which the compiler may not find.
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(CUstream_st **stream, unsigned flags);
int cuStreamBeginCapture_v2(CUstream_st *stream, int mode);
int cuStreamEndCapture(CUstream_st *stream, void **graph);
int cuGraphDestroy(void *graph);
}

#define MUST(call)                                                       \
	do {                                                             \
		if ((call) != 0)                                         \
			std::printf("%s failed\n", #call), std::exit(1); \
	} while (0)

static void attempt(const char *what, ssize_t size, CUstream_st *stream)
{
	try {
		void *block = gpumem_torch_alloc(size, 0, stream);
		std::printf("%s: %s\n", what, block ? "memory" : "NULL");
		gpumem_torch_free(block, size, 0, stream);
	} catch (const std::exception &why) {
		std::printf("%s: %s\n", what, why.what());
	}
}

int main(int argc, char **argv)
{
	int device;
	void *context, *graph;
	CUstream_st *stream;
	if (argc > 1 && !dlopen(argv[1], RTLD_NOW))
		std::printf("%s\n", dlerror());
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, 1));
	attempt("1000 bytes", 1000, stream);
	attempt("too much", (ssize_t)1 << 40, stream);
	MUST(cuStreamBeginCapture_v2(stream, 0));
	attempt("in a capture", 1000, stream);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphDestroy(graph));
	attempt("after it", 1000, stream);
	return 0;
}
