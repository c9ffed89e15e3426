/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every form of copy and memset, in a block with exactly enough bytes, in one that is a unit too
 * short, and in a freed one. Also built with CUDA_API_PER_THREAD_DEFAULT_STREAM, which calls the
 * _ptds and _ptsz variants.
 */
#include "program.h"

#define WIDTH 40
#define ROWS 5
#define PLANES 3
#define PITCH 64
#define LINE ((size_t)960) /* a multiple of every element */
#define RECTANGLE ((size_t)(ROWS - 1) * PITCH + WIDTH)
#define BOX ((size_t)((PLANES - 1) * ROWS + ROWS - 1) * PITCH + WIDTH)

static char host[PITCH * ROWS * PLANES + 4096];
static CUdeviceptr room; /* a block that is large enough for the side that is not tested */
static CUcontext context;
static CUstream stream;

/* The side of the copy that is tested. The other side is always valid. */
enum side { DST, SRC };

static CUDA_MEMCPY2D rectangle(CUdeviceptr p, enum side side, CUmemorytype other)
{
	CUDA_MEMCPY2D c = {
		.WidthInBytes = WIDTH, .Height = ROWS, .dstPitch = PITCH, .srcPitch = PITCH};
	c.dstMemoryType = side == DST ? CU_MEMORYTYPE_DEVICE : other;
	c.srcMemoryType = side == SRC ? CU_MEMORYTYPE_DEVICE : other;
	c.dstDevice = side == DST ? p : room;
	c.srcDevice = side == SRC ? p : room;
	c.dstHost = c.srcMemoryType == CU_MEMORYTYPE_DEVICE ? host : NULL;
	c.srcHost = c.dstMemoryType == CU_MEMORYTYPE_DEVICE ? host : NULL;
	return c;
}

static CUDA_MEMCPY3D box(CUdeviceptr p, enum side side, CUmemorytype other)
{
	CUDA_MEMCPY2D r = rectangle(p, side, other);
	return (CUDA_MEMCPY3D){
		.WidthInBytes = WIDTH,
		.Height = ROWS,
		.Depth = PLANES,
		.dstPitch = PITCH,
		.srcPitch = PITCH,
		.dstHeight = ROWS,
		.srcHeight = ROWS,
		.dstMemoryType = r.dstMemoryType,
		.srcMemoryType = r.srcMemoryType,
		.dstDevice = r.dstDevice,
		.srcDevice = r.srcDevice,
		.dstHost = r.dstHost,
		.srcHost = r.srcHost,
	};
}

static CUDA_MEMCPY3D_PEER peer_box(CUdeviceptr p, enum side side)
{
	return (CUDA_MEMCPY3D_PEER){
		.WidthInBytes = WIDTH,
		.Height = ROWS,
		.Depth = PLANES,
		.dstPitch = PITCH,
		.srcPitch = PITCH,
		.dstHeight = ROWS,
		.srcHeight = ROWS,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = side == DST ? p : room,
		.srcDevice = side == SRC ? p : room,
		.dstContext = context,
		.srcContext = context,
	};
}

#define R2(side, other) (&(CUDA_MEMCPY2D[]){rectangle(p, side, CU_MEMORYTYPE_##other)}[0])
#define R3(side, other) (&(CUDA_MEMCPY3D[]){box(p, side, CU_MEMORYTYPE_##other)}[0])
#define RP(side) (&(CUDA_MEMCPY3D_PEER[]){peer_box(p, side)}[0])

#define H (CUdeviceptr) host

/* F(name, bytes touched from p on, unit, call) */
#define FORMS(F)                                                                                \
	F(cuMemcpy_dst, LINE, 1, cuMemcpy(p, room, LINE))                                       \
	F(cuMemcpy_src, LINE, 1, cuMemcpy(room, p, LINE))                                       \
	F(cuMemcpy_from_host, LINE, 1, cuMemcpy(p, H, LINE))                                    \
	F(cuMemcpy_to_host, LINE, 1, cuMemcpy(H, p, LINE))                                      \
	F(cuMemcpyAsync_dst, LINE, 1, cuMemcpyAsync(p, room, LINE, stream))                     \
	F(cuMemcpyAsync_src, LINE, 1, cuMemcpyAsync(room, p, LINE, stream))                     \
	F(cuMemcpyHtoD, LINE, 1, cuMemcpyHtoD(p, host, LINE))                                   \
	F(cuMemcpyHtoDAsync, LINE, 1, cuMemcpyHtoDAsync(p, host, LINE, stream))                 \
	F(cuMemcpyDtoH, LINE, 1, cuMemcpyDtoH(host, p, LINE))                                   \
	F(cuMemcpyDtoHAsync, LINE, 1, cuMemcpyDtoHAsync(host, p, LINE, stream))                 \
	F(cuMemcpyDtoD_dst, LINE, 1, cuMemcpyDtoD(p, room, LINE))                               \
	F(cuMemcpyDtoD_src, LINE, 1, cuMemcpyDtoD(room, p, LINE))                               \
	F(cuMemcpyDtoDAsync_dst, LINE, 1, cuMemcpyDtoDAsync(p, room, LINE, stream))             \
	F(cuMemcpyDtoDAsync_src, LINE, 1, cuMemcpyDtoDAsync(room, p, LINE, stream))             \
	F(cuMemcpyPeer_dst, LINE, 1, cuMemcpyPeer(p, context, room, context, LINE))             \
	F(cuMemcpyPeer_src, LINE, 1, cuMemcpyPeer(room, context, p, context, LINE))             \
	F(cuMemcpyPeerAsync_dst, LINE, 1,                                                       \
	  cuMemcpyPeerAsync(p, context, room, context, LINE, stream))                           \
	F(cuMemcpyPeerAsync_src, LINE, 1,                                                       \
	  cuMemcpyPeerAsync(room, context, p, context, LINE, stream))                           \
	F(cuMemcpy2D_from_host, RECTANGLE, 1, cuMemcpy2D(R2(DST, HOST)))                        \
	F(cuMemcpy2D_to_host, RECTANGLE, 1, cuMemcpy2D(R2(SRC, HOST)))                          \
	F(cuMemcpy2D_dst, RECTANGLE, 1, cuMemcpy2D(R2(DST, DEVICE)))                            \
	F(cuMemcpy2D_src, RECTANGLE, 1, cuMemcpy2D(R2(SRC, DEVICE)))                            \
	F(cuMemcpy2D_unified, RECTANGLE, 1, cuMemcpy2D(R2(DST, UNIFIED)))                       \
	F(cuMemcpy2DUnaligned_dst, RECTANGLE, 1, cuMemcpy2DUnaligned(R2(DST, DEVICE)))          \
	F(cuMemcpy2DUnaligned_src, RECTANGLE, 1, cuMemcpy2DUnaligned(R2(SRC, DEVICE)))          \
	F(cuMemcpy2DAsync_dst, RECTANGLE, 1, cuMemcpy2DAsync(R2(DST, DEVICE), stream))          \
	F(cuMemcpy2DAsync_src, RECTANGLE, 1, cuMemcpy2DAsync(R2(SRC, DEVICE), stream))          \
	F(cuMemcpy3D_from_host, BOX, 1, cuMemcpy3D(R3(DST, HOST)))                              \
	F(cuMemcpy3D_to_host, BOX, 1, cuMemcpy3D(R3(SRC, HOST)))                                \
	F(cuMemcpy3D_dst, BOX, 1, cuMemcpy3D(R3(DST, DEVICE)))                                  \
	F(cuMemcpy3D_src, BOX, 1, cuMemcpy3D(R3(SRC, DEVICE)))                                  \
	F(cuMemcpy3DAsync_dst, BOX, 1, cuMemcpy3DAsync(R3(DST, DEVICE), stream))                \
	F(cuMemcpy3DAsync_src, BOX, 1, cuMemcpy3DAsync(R3(SRC, DEVICE), stream))                \
	F(cuMemcpy3DPeer_dst, BOX, 1, cuMemcpy3DPeer(RP(DST)))                                  \
	F(cuMemcpy3DPeer_src, BOX, 1, cuMemcpy3DPeer(RP(SRC)))                                  \
	F(cuMemcpy3DPeerAsync_dst, BOX, 1, cuMemcpy3DPeerAsync(RP(DST), stream))                \
	F(cuMemcpy3DPeerAsync_src, BOX, 1, cuMemcpy3DPeerAsync(RP(SRC), stream))                \
	F(cuMemsetD8, LINE, 1, cuMemsetD8(p, 1, LINE))                                          \
	F(cuMemsetD16, LINE, 2, cuMemsetD16(p, 1, LINE / 2))                                    \
	F(cuMemsetD32, LINE, 4, cuMemsetD32(p, 1, LINE / 4))                                    \
	F(cuMemsetD8Async, LINE, 1, cuMemsetD8Async(p, 1, LINE, stream))                        \
	F(cuMemsetD16Async, LINE, 2, cuMemsetD16Async(p, 1, LINE / 2, stream))                  \
	F(cuMemsetD32Async, LINE, 4, cuMemsetD32Async(p, 1, LINE / 4, stream))                  \
	F(cuMemsetD2D8, RECTANGLE, 1, cuMemsetD2D8(p, PITCH, 1, WIDTH, ROWS))                   \
	F(cuMemsetD2D16, RECTANGLE, 2, cuMemsetD2D16(p, PITCH, 1, WIDTH / 2, ROWS))             \
	F(cuMemsetD2D32, RECTANGLE, 4, cuMemsetD2D32(p, PITCH, 1, WIDTH / 4, ROWS))             \
	F(cuMemsetD2D8Async, RECTANGLE, 1, cuMemsetD2D8Async(p, PITCH, 1, WIDTH, ROWS, stream)) \
	F(cuMemsetD2D16Async, RECTANGLE, 2,                                                     \
	  cuMemsetD2D16Async(p, PITCH, 1, WIDTH / 2, ROWS, stream))                             \
	F(cuMemsetD2D32Async, RECTANGLE, 4,                                                     \
	  cuMemsetD2D32Async(p, PITCH, 1, WIDTH / 4, ROWS, stream))

#define FUNCTION(name, touched, unit, call)      \
	static CUresult do_##name(CUdeviceptr p) \
	{                                        \
		return call;                     \
	}
FORMS(FUNCTION)

static const struct {
	const char *name;
	size_t touched, unit;
	CUresult (*call)(CUdeviceptr p);
} forms[] = {
#define ROW(name, touched, unit, call) {#name, touched, unit, do_##name},
	FORMS(ROW)
#undef ROW
};

static void try_form(size_t i)
{
	CUdeviceptr exact, larger, less;
	MUST(cuMemAlloc(&exact, forms[i].touched));
	MUST(cuMemAlloc(&larger, forms[i].touched + 5 * forms[i].unit));
	MUST(cuMemAlloc(&less, forms[i].touched - 1));
	printf("%s: exact %s", forms[i].name, result_name(forms[i].call(exact)));
	printf(", from within %s", result_name(forms[i].call(larger + 5 * forms[i].unit)));
	printf(", a unit too far %s", result_name(forms[i].call(larger + 6 * forms[i].unit)));
	printf(", a byte too few %s", result_name(forms[i].call(less)));
	MUST(cuMemFree(exact));
	MUST(cuMemFree(larger));
	MUST(cuMemFree(less));
	printf(", freed %s\n", result_name(forms[i].call(exact)));
}

static void nothing_and_too_much(void)
{
	CUdeviceptr p;
	CUDA_MEMCPY2D r;
	MUST(cuMemAlloc(&p, 1000));
	SAY(cuMemcpyHtoD(p, host, 0));
	SAY(cuMemcpyHtoD(p + 1000, host, 0));
	SAY(cuMemsetD8(p, 1, 0));
	SAY(cuMemsetD2D8(p, PITCH, 1, 0, 5));
	SAY(cuMemsetD2D8(p, PITCH, 1, 5, 0));
	SAY(cuMemcpyHtoD(p, host, SIZE_MAX));
	SAY(cuMemcpyDtoD(p, room, SIZE_MAX - 100));
	SAY(cuMemsetD32(p, 1, SIZE_MAX / 2));
	SAY(cuMemsetD2D32(p, SIZE_MAX / 4, 1, 4, 9));
	r = rectangle(p, DST, CU_MEMORYTYPE_HOST);
	r.dstY = SIZE_MAX / 32;
	SAY(cuMemcpy2D(&r));
	r = rectangle(p, DST, CU_MEMORYTYPE_HOST);
	r.Height = 0;
	SAY(cuMemcpy2D(&r));
	SAY(cuMemcpy2D(NULL));
	MUST(cuMemFree(p));
}

int main(void)
{
	MUST(cuInit(0));
	context = use_device(0);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&room, sizeof host));
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		try_form(i);
	nothing_and_too_much();
	MUST(cuMemFree(room));
	MUST(cuStreamDestroy(stream));
	return 0;
}
