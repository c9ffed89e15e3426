/* SPDX-License-Identifier: BSD-3-Clause */
/* Contents of new blocks, after other blocks were written and freed. */
#include "program.h"

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static unsigned char host[3 * MIB];

/* The one byte that the whole block holds, or "mixed". */
static void show(const char *when, CUdeviceptr block, size_t size)
{
	MUST(cuMemcpyDtoH(host, block, size));
	bool same = true;
	for (size_t i = 1; i < size && same; i++)
		same = host[i] == host[0];
	if (same)
		printf("%s, %zu bytes: %02x\n", when, size, host[0]);
	else
		printf("%s, %zu bytes: mixed\n", when, size);
}

static void dirty(size_t size)
{
	CUdeviceptr block;
	MUST(cuMemAlloc(&block, size));
	for (size_t i = 0; i < size; i++)
		host[i] = (unsigned char)(i % 251 + 1);
	MUST(cuMemcpyHtoD(block, host, size));
	MUST(cuMemFree(block));
}

static void fresh(const char *when, size_t size)
{
	CUdeviceptr block;
	dirty(size);
	MUST(cuMemAlloc(&block, size));
	show(when, block, size);
	MUST(cuMemFree(block));
}

/* A relaxed capture allows allocations, and stays valid after the fill. */
static void captured(size_t size)
{
	CUdeviceptr block;
	CUstream stream;
	CUgraph graph = NULL;
	dirty(size);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuMemAlloc(&block, size));
	SAY(cuStreamEndCapture(stream, &graph));
	show("captured", block, size);
	MUST(cuGraphDestroy(graph));
	MUST(cuStreamDestroy(stream));
	MUST(cuMemFree(block));
}

/* Each row is filled to the end of its pitch. */
static void pitched(void)
{
	CUdeviceptr block;
	size_t pitch;
	dirty(3 * MIB);
	MUST(cuMemAllocPitch(&block, &pitch, 1000, 2000, 4));
	show("pitched", block, pitch * 2000);
	MUST(cuMemFree(block));
}

int main(void)
{
	MUST(cuInit(0));
	use_device(0);
	fresh("fresh", 1000);
	fresh("fresh", MIB - 1);
	fresh("fresh", MIB);
	fresh("fresh", 3 * MIB);
	captured(2 * MIB);
	pitched();
	CUcontext other;
	MUST(cuCtxCreate_v2(&other, 0, 0));
	fresh("another context", MIB);
	MUST(cuCtxDestroy(other));
	fresh("fresh", MIB);
	return 0;
}
