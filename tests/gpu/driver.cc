/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver API, linked with libcuda, without the runtime: usage: driver KERNELS.cubin */
#include "gpu.h"

static CUdevice device;

static void arithmetic(const char *path)
{
	const int n = 1000000;
	CUmodule module;
	CUfunction add;
	CUdeviceptr a, b, sum;
	std::vector<float> x(n), y(n), z(n);
	for (int i = 0; i < n; i++) {
		x[i] = (float)i;
		y[i] = 2.0f * i;
	}
	MUST(cuModuleLoad(&module, path));
	MUST(cuModuleGetFunction(&add, module, "add"));
	MUST(cuMemAlloc(&a, n * 4));
	MUST(cuMemAlloc(&b, n * 4));
	MUST(cuMemAlloc(&sum, n * 4));
	MUST(cuMemcpyHtoD(a, x.data(), n * 4));
	MUST(cuMemcpyHtoD(b, y.data(), n * 4));
	int count = n;
	void *args[] = {&sum, &a, &b, &count};
	MUST(cuLaunchKernel(add, (n + 255) / 256, 1, 1, 256, 1, 1, 0, 0, args, 0));
	MUST(cuMemcpyDtoH(z.data(), sum, n * 4));
	double total = 0;
	for (float value : z)
		total += value;
	printf("sum %.1f\n", total);
	MUST(cuMemFree(a));
	MUST(cuMemFree(b));
	MUST(cuMemFree(sum));
	MUST(cuModuleUnload(module));
}

static void queries()
{
	CUdeviceptr at, base = 0;
	size_t size = 0;
	CUmemGenericAllocationHandle handle;
	MUST(cuMemAlloc(&at, 1000));
	SHOW(cuMemGetAddressRange(&base, &size, at + 500));
	printf("base %d size %zu\n", base == at, size);
	SHOW(cuMemGetAddressRange(nullptr, &size, at));
	SHOW(cuMemGetAddressRange(&base, nullptr, at));
	SHOW(cuMemRetainAllocationHandle(&handle, (void *)at));
	static const CUpointer_attribute asked[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,	   CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,	   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,	   CU_POINTER_ATTRIBUTE_MAPPED,
		CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
	for (CUpointer_attribute attribute : asked) {
		unsigned long long value = 0;
		int result = cuPointerGetAttribute(&value, attribute, at + 10);
		printf("attribute %d: %d, %llu\n", (int)attribute, result, value);
	}
	CUcontext context, owner = nullptr;
	CUdeviceptr start = 0;
	MUST(cuCtxGetCurrent(&context));
	SHOW(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at));
	printf("the owner is current: %d\n", owner == context);
	SHOW(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 999));
	printf("the range starts at the block: %d\n", start == at);
	unsigned long long id = 0, again = 0;
	CUdeviceptr second;
	SHOW(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	MUST(cuMemFree(at));
	MUST(cuMemAlloc(&second, 1000));
	SHOW(cuPointerGetAttribute(&again, CU_POINTER_ATTRIBUTE_BUFFER_ID, second));
	printf("another block, another id: %d\n", id != again);
	int on = 1;
	SHOW(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, second));
	on = 0;
	SHOW(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, second));
	printf("synchronous: %d\n", on != 0);
	CUpointer_attribute pair[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE,
				      CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	unsigned type = 0;
	void *out[] = {&size, &type};
	SHOW(cuPointerGetAttributes(2, pair, out, second));
	printf("size %zu type %u\n", size, type);
	MUST(cuMemFree(second));
	SHOW(cuPointerGetAttributes(2, pair, out, second));
	SHOW(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, second));
	SHOW(cuMemGetAddressRange(&base, &size, second));
}

static void contexts(const char *path)
{
	CUcontext context, old;
	CUdeviceptr at, other;
	MUST(cuCtxGetCurrent(&old));
	MUST(cuMemAlloc(&other, 5 << 20));
	CUctxCreateParams params = {};
	MUST(cuCtxCreate(&context, &params, 0, device));
	arithmetic(path);
	MUST(cuMemAlloc(&at, 100 << 20));
	SHOW(cuMemFree(other)); /* of another context: allowed */
	MUST(cuCtxDestroy(context));
	MUST(cuCtxSetCurrent(old));
	SHOW(cuMemsetD8(at, 0, 16)); /* ended with its context */
	SHOW(cuMemFree(at));
}

static void wrong_calls()
{
	CUdeviceptr at = 0;
	size_t pitch = 0;
	SHOW(cuMemAlloc(nullptr, 16));
	SHOW(cuMemAlloc(&at, 0));
	SHOW(cuMemFree(0));
	SHOW(cuMemFree(16));
	SHOW(cuMemAllocPitch(&at, &pitch, 100, 10, 3));
	SHOW(cuMemAllocPitch(&at, &pitch, 0, 10, 4));
	SHOW(cuMemAllocPitch(&at, &pitch, (size_t)1 << 62, (size_t)1 << 10, 4));
	SHOW(cuMemAllocPitch(&at, &pitch, 100, 10, 16));
	printf("pitch %zu\n", pitch);
	SHOW(cuMemsetD2D8(at, pitch, 1, 100, 10));
	SHOW(cuMemsetD2D8(at, pitch, 1, pitch, 10));
	SHOW(cuMemsetD2D8(at, pitch, 1, 100, 11));
	SHOW(cuMemsetD16(at, 7, pitch * 10 / 2));
	SHOW(cuMemsetD16(at, 7, pitch * 10 / 2 + 1));
	SHOW(cuMemsetD32(at, 7, pitch * 10 / 4));
	SHOW(cuMemsetD32(at, 7, pitch * 10 / 4 + 1));
	SHOW(cuMemFree(at + 1));
	SHOW(cuMemFree(at));
	SHOW(cuMemFree(at));
}

/* Bounds are checked to the requested byte. A copy of 0 bytes always succeeds. */
static void bounds()
{
	CUdeviceptr at;
	static char host[4096];
	MUST(cuMemAlloc(&at, 1000));
	SHOW(cuMemcpyHtoD(at + 1000, host, 0));
	SHOW(cuMemcpyHtoD(at + 1001, host, 0));
	SHOW(cuMemcpyHtoD(at + 1000, host, 1));
	SHOW(cuMemcpyDtoH(host, at + 999, 1));
	SHOW(cuMemcpyDtoH(host, at + 999, 2));
	static const struct {
		size_t width, height, pitch, offset, y;
	} shapes[] = {{50, 10, 100, 0, 0},  {50, 11, 100, 0, 0}, {100, 10, 100, 0, 0},
		      {100, 10, 100, 1, 0}, {99, 10, 100, 1, 0}, {99, 10, 100, 0, 1},
		      {100, 9, 100, 0, 1},  {100, 1, 50, 0, 0},	 {100, 1, 0, 0, 0},
		      {0, 10, 100, 0, 0},   {100, 0, 100, 0, 0}};
	for (auto &shape : shapes) {
		CUDA_MEMCPY2D copy = {};
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = host;
		copy.srcPitch = 100;
		copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.dstDevice = at + shape.offset;
		copy.dstPitch = shape.pitch;
		copy.dstY = shape.y;
		copy.WidthInBytes = shape.width;
		copy.Height = shape.height;
		int copied = cuMemcpy2D(&copy), unaligned = cuMemcpy2DUnaligned(&copy);
		printf("%zu x %zu, pitch %zu, offset %zu, row %zu: %d %d\n", shape.width,
		       shape.height, shape.pitch, shape.offset, shape.y, copied, unaligned);
	}
	SHOW(cuMemFree(at));
	SHOW(cuMemcpyHtoD(at, host, 0));
	SHOW(cuMemsetD8(at, 0, 0));
	SHOW(cuMemGetInfo(nullptr, nullptr));
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&at, 1000));
	CUgraph graph = nullptr;
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SHOW(cuMemFreeAsync(at, stream));
	SHOW(cuStreamEndCapture(stream, &graph));
	SHOW(cuMemFreeAsync(at, stream));
	SHOW(cuStreamSynchronize(stream));
	SHOW(cuMemFree(at));
	SHOW(cuStreamDestroy(stream));
}

/* A capture in one context, and calls in another. */
static void capture_beside_another_context()
{
	CUcontext first, second;
	CUstream stream;
	CUctxCreateParams params = {};
	MUST(cuCtxGetCurrent(&first));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuCtxCreate(&second, &params, 0, device));
	for (int mode = 0; mode < 3; mode++)
		for (int freeing = 0; freeing < 2; freeing++) {
			CUdeviceptr at;
			CUgraph graph = nullptr;
			MUST(cuMemAlloc(&at, 4096));
			MUST(cuCtxSetCurrent(first));
			MUST(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
			MUST(cuCtxSetCurrent(second));
			CUdeviceptr other;
			int result = freeing ? cuMemFree(at) : cuMemAlloc(&other, 4096);
			MUST(cuCtxSetCurrent(first));
			int end = cuStreamEndCapture(stream, &graph);
			if (graph)
				cuGraphDestroy(graph);
			MUST(cuCtxSetCurrent(second));
			printf("capture in mode %d, %s in another context: %d, end %d\n", mode,
			       freeing ? "free" : "alloc", result, end);
			if (!freeing || result)
				MUST(cuMemFree(at));
		}
	MUST(cuCtxDestroy(second));
	MUST(cuCtxSetCurrent(first));
	MUST(cuStreamDestroy(stream));
}

int main(int argc, char **argv)
{
	CUcontext context;
	if (argc != 2)
		return 2;
	SHOW(cuMemAlloc((CUdeviceptr *)&context, 16)); /* before cuInit */
	MUST(cuInit(0));
	SHOW(cuMemAlloc((CUdeviceptr *)&context, 16)); /* without a context */
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	arithmetic(argv[1]);
	queries();
	contexts(argv[1]);
	wrong_calls();
	bounds();
	capture_beside_another_context();
	SHOW(cuDevicePrimaryCtxRelease(device));
	return 0;
}
