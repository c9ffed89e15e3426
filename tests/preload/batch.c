/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of copies: `batch` on one device, `batch peers` between two, `batch foreign` from
 * stream-ordered memory of another device. Each batch prints its result, the index that failed, and
 * the bytes at the destination. Also built with CUDA_API_PER_THREAD_DEFAULT_STREAM.
 */
#include "program.h"

#define SIZE ((size_t)1000)
#define N 3

/* The signatures of 12.8: cuda.h renames these calls to those of 13.0. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define FORM_OF_12_8(name) #name "_ptsz"
#else
#define FORM_OF_12_8(name) #name
#endif
CUresult lines_of_12_8(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
		       CUmemcpyAttributes *attributes, size_t *first, size_t n, size_t *failed,
		       CUstream stream) __asm__(FORM_OF_12_8(cuMemcpyBatchAsync));
CUresult boxes_of_12_8(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
		       unsigned long long flags,
		       CUstream stream) __asm__(FORM_OF_12_8(cuMemcpy3DBatchAsync));

static CUcontext context[2];
static CUdeviceptr dst[N], src[N];
static CUstream stream;

static void wipe(void)
{
	for (int i = 0; i < N; i++) {
		MUST(cuMemsetD8(dst[i], 0, SIZE));
		MUST(cuMemsetD8(src[i], (unsigned char)(i + 1), SIZE));
	}
	MUST(cuCtxSynchronize());
}

static void arrived(const char *what, CUresult result, size_t failed)
{
	static unsigned char bytes[SIZE];
	MUST(cuStreamSynchronize(stream));
	printf("%s: %s, failed at %zd, arrived", what, result_name(result), (ssize_t)failed);
	for (int i = 0; i < N; i++) {
		size_t n = 0;
		MUST(cuMemcpyDtoH(bytes, dst[i], SIZE));
		for (size_t j = 0; j < SIZE; j++)
			n += bytes[j] == i + 1;
		printf(" %zu", n);
	}
	printf("\n");
}

static void lines(const char *what, size_t a, size_t b, size_t c)
{
	size_t sizes[N] = {a, b, c}, first[] = {0, 1, 2}, failed = 7;
	CUmemcpyAttributes attributes[] = {
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY},
		{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
	};
	for (size_t n = 1; n <= 3; n++) {
		wipe();
		CUresult result =
			lines_of_12_8(dst, src, sizes, N, attributes, first, n, &failed, stream);
		arrived(what, result, failed);
		wipe();
		result = cuMemcpyBatchAsync(dst, src, sizes, N, attributes, first, n, stream);
		arrived(what, result, (size_t)-1);
	}
}

static CUDA_MEMCPY3D_BATCH_OP box(int i, size_t width, size_t height)
{
	CUDA_MEMCPY3D_BATCH_OP op = {.extent = {width, height, 1},
				     .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op.src.op.ptr.ptr = src[i];
	op.dst.op.ptr.ptr = dst[i];
	op.src.op.ptr.rowLength = op.dst.op.ptr.rowLength = 100;
	return op;
}

static void run_boxes(const char *what, CUDA_MEMCPY3D_BATCH_OP ops[N])
{
	size_t failed = 7;
	wipe();
	CUresult result = boxes_of_12_8(N, ops, &failed, 0, stream);
	arrived(what, result, failed);
	wipe();
	arrived(what, cuMemcpy3DBatchAsync(N, ops, 0, stream), (size_t)-1);
}

static void boxes(const char *what, size_t width, size_t height)
{
	run_boxes(what, (CUDA_MEMCPY3D_BATCH_OP[]){box(0, 10, 10), box(1, width, height),
						   box(2, 100, 10)});
}

/* The size of an element is that of the array: 16 bytes here. */
static void with_array(const char *what, size_t width)
{
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR d = {
		.Width = 100, .Height = 100, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
	MUST(cuArrayCreate(&array, &d));
	CUDA_MEMCPY3D_BATCH_OP op = box(1, width, 1);
	op.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	op.src.op.array.array = array;
	op.src.op.array.offset = (CUoffset3D){0};
	run_boxes(what, (CUDA_MEMCPY3D_BATCH_OP[]){box(0, 10, 10), op, box(2, 10, 10)});
	MUST(cuArrayDestroy(array));
}

static void odd(void)
{
	size_t sizes[1] = {1}, first[1] = {0};
	CUmemcpyAttributes attributes[1] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};
	SAY(cuMemcpyBatchAsync(NULL, src, sizes, 1, attributes, first, 1, stream));
	SAY(cuMemcpyBatchAsync(dst, src, sizes, 0, attributes, first, 1, stream));
	SAY(cuMemcpyBatchAsync(dst, src, sizes, 1, NULL, first, 1, stream));
	SAY(cuMemcpyBatchAsync(dst, src, sizes, 1, attributes, first, 0, stream));
	SAY(cuMemcpy3DBatchAsync(0, NULL, 0, stream));
}

static void allocate(int from, int to, bool foreign)
{
	for (int i = 0; i < N; i++) {
		MUST(cuCtxSetCurrent(context[to]));
		MUST(cuMemAlloc(&dst[i], SIZE));
		/* Only the middle copy is between two devices. */
		MUST(cuCtxSetCurrent(context[i == 1 ? from : to]));
		if (foreign && i == 1)
			MUST(cuMemAllocAsync(&src[i], SIZE, NULL));
		else
			MUST(cuMemAlloc(&src[i], SIZE));
		MUST(cuCtxSynchronize());
	}
	MUST(cuCtxSetCurrent(context[to]));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

int main(int argc, char **argv)
{
	bool peers = argc > 1, foreign = peers && strcmp(argv[1], "foreign") == 0;
	MUST(cuInit(0));
	context[0] = use_device(0);
	if (peers)
		context[1] = use_device(1);
	allocate(peers, 0, foreign);
	lines("lines that fit", SIZE, SIZE, SIZE);
	lines("the second too long", 10, SIZE + 1, SIZE);
	lines("the first too long", SIZE + 1, 10, 10);
	lines("the last of no bytes", 10, 10, 0);
	boxes("boxes that fit", 100, 10);
	boxes("the second too high", 100, 11);
	boxes("the second too wide", 101, 1);
	boxes("the second of no bytes", 0, 1);
	with_array("from an array", 62);
	with_array("from an array, an element too far", 63);
	odd();
	return 0;
}
