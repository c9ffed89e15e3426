/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between two devices, with and without peer access: `peers [enable]`. */
#include "program.h"

#define SIZE ((size_t)4096)

static CUcontext context[2];
static CUdeviceptr block[2]; /* of SIZE bytes, one on each device */
static CUstream stream;

static CUDA_MEMCPY2D rectangle(void)
{
	return (CUDA_MEMCPY2D){
		.WidthInBytes = 64,
		.Height = SIZE / 64,
		.dstPitch = 64,
		.srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = block[1],
		.srcDevice = block[0],
	};
}

static CUDA_MEMCPY3D box(void)
{
	return (CUDA_MEMCPY3D){
		.WidthInBytes = 64,
		.Height = 8,
		.Depth = SIZE / 64 / 8,
		.dstPitch = 64,
		.srcPitch = 64,
		.dstHeight = 8,
		.srcHeight = 8,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = block[1],
		.srcDevice = block[0],
	};
}

/* Copy, and check the first and the last byte at the destination. */
#define COPY(call)                                                          \
	do {                                                                \
		unsigned char first = 0, last = 0;                          \
		value++;                                                    \
		MUST(cuCtxSetCurrent(context[0]));                          \
		MUST(cuMemsetD8(block[0], value, SIZE));                    \
		MUST(cuCtxSynchronize());                                   \
		MUST(cuCtxSetCurrent(context[from]));                       \
		SAY(call);                                                  \
		MUST(cuCtxSynchronize());                                   \
		MUST(cuCtxSetCurrent(context[1]));                          \
		MUST(cuMemcpyDtoH(&first, block[1], 1));                    \
		MUST(cuMemcpyDtoH(&last, block[1] + SIZE - 1, 1));          \
		printf("  arrived: %d\n", first == value && last == value); \
	} while (0)

static void copies(int from)
{
	static unsigned char value;
	CUDA_MEMCPY2D r = rectangle();
	CUDA_MEMCPY3D b = box();
	printf("from a context of device %d\n", from);
	MUST(cuCtxSetCurrent(context[from]));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	COPY(cuMemcpy(block[1], block[0], SIZE));
	COPY(cuMemcpyAsync(block[1], block[0], SIZE, stream));
	COPY(cuMemcpyDtoD(block[1], block[0], SIZE));
	COPY(cuMemcpyDtoDAsync(block[1], block[0], SIZE, stream));
	COPY(cuMemcpyPeer(block[1], context[1], block[0], context[0], SIZE));
	COPY(cuMemcpyPeerAsync(block[1], context[1], block[0], context[0], SIZE, stream));
	COPY(cuMemcpy2D(&r));
	COPY(cuMemcpy2DUnaligned(&r));
	COPY(cuMemcpy2DAsync(&r, stream));
	COPY(cuMemcpy3D(&b));
	COPY(cuMemcpy3DAsync(&b, stream));
	MUST(cuCtxSetCurrent(context[from]));
	MUST(cuStreamDestroy(stream));
}

/* Copies between a block and the driver's own memory on another device. */
static void with_pools(void)
{
	CUdeviceptr theirs;
	CUDA_MEMCPY2D r = rectangle();
	CUDA_MEMCPY3D b = box();
	unsigned char first = 0, last = 0;
	MUST(cuCtxSetCurrent(context[1]));
	MUST(cuMemAllocAsync(&theirs, SIZE, NULL));
	MUST(cuMemsetD8(theirs, 5, SIZE));
	MUST(cuMemsetD8(block[1], 6, SIZE));
	MUST(cuCtxSetCurrent(context[0]));
	SAY(cuMemcpyDtoD(block[0], theirs, SIZE));
	MUST(cuMemcpyDtoH(&first, block[0], 1));
	MUST(cuMemcpyDtoH(&last, block[0] + SIZE - 1, 1));
	printf("from the driver's: %d %d\n", first, last);
	MUST(cuMemsetD8(block[0], 7, SIZE));
	SAY(cuMemcpy(theirs, block[0], SIZE));
	r.dstDevice = b.dstDevice = theirs;
	SAY(cuMemcpy2D(&r));
	SAY(cuMemcpy3D(&b));
	MUST(cuCtxSynchronize());
	MUST(cuCtxSetCurrent(context[1]));
	MUST(cuMemcpyDtoH(&first, theirs, 1));
	MUST(cuMemcpyDtoH(&last, theirs + SIZE - 1, 1));
	printf("to the driver's: %d %d\n", first, last);
	MUST(cuMemFreeAsync(theirs, NULL));
	MUST(cuCtxSynchronize());
}

/* Uses the block of the other device in a context of this one. */
static void from_afar(void)
{
	unsigned char back[SIZE], there[SIZE];
	memset(there, 77, sizeof there);
	MUST(cuCtxSetCurrent(context[0]));
	SAY(cuMemcpyHtoD(block[1], there, SIZE));
	SAY(cuMemcpyDtoH(back, block[1], SIZE));
	printf("there and back: %d\n", memcmp(there, back, SIZE) == 0);
	SAY(cuMemsetD8(block[1], 78, SIZE));
	SAY(cuMemcpyDtoH(back, block[1], SIZE));
	printf("set: %d\n", back[0] == 78 && back[SIZE - 1] == 78);
}

static void bounds(void)
{
	SAY(cuMemcpyDtoD(block[1] + 1, block[0], SIZE));
	SAY(cuMemcpyDtoD(block[1], block[0] + 1, SIZE));
	SAY(cuMemcpyPeer(block[1] + 1, context[1], block[0], context[0], SIZE));
}

int main(int argc, char **argv)
{
	bool enable = argc > 1 && strcmp(argv[1], "enable") == 0;
	MUST(cuInit(0));
	for (int i = 0; i < 2; i++) {
		context[i] = use_device(i);
		if (!enable)
			MUST(cuMemAlloc(&block[i], SIZE));
	}
	if (enable) {
		SAY(cuCtxEnablePeerAccess(context[0], 0));
		SAY(cuCtxEnablePeerAccess(context[0], 0));
		MUST(cuCtxSetCurrent(context[0]));
		SAY(cuCtxEnablePeerAccess(context[1], 0));
		for (int i = 0; i < 2; i++) {
			MUST(cuCtxSetCurrent(context[i]));
			MUST(cuMemAlloc(&block[i], SIZE));
		}
	}
	copies(0);
	copies(1);
	with_pools();
	from_afar();
	bounds();
	MUST(cuCtxSetCurrent(context[0]));
	SAY(cuCtxDisablePeerAccess(context[1]));
	SAY(cuCtxDisablePeerAccess(context[1]));
	copies(0);
	for (int i = 0; i < 2; i++) {
		MUST(cuCtxSetCurrent(context[i]));
		SAY(cuMemFree(block[i]));
	}
	return 0;
}
