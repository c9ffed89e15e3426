/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of rectangles and boxes. Those of two dimensions are boxes of depth 1. */
#include "shim/copy/copy2d.h"

#include "shim/memory/device.h"

/* One side of a box. */
struct side {
	CUmemorytype type;
	CUdeviceptr device;
	const void *host;
	size_t x, y, z, pitch, height;
};

static size_t size_sum(size_t a, size_t b)
{
	size_t c;
	return __builtin_add_overflow(a, b, &c) ? SIZE_MAX : c;
}

size_t gm_transfer_product(size_t a, size_t b)
{
	size_t c;
	return __builtin_mul_overflow(a, b, &c) ? SIZE_MAX : c;
}

/* The distance between two points of a pitched box. */
static size_t side_distance(const struct side *s, size_t x, size_t y, size_t z)
{
	size_t rows = size_sum(y, gm_transfer_product(z, s->height));
	return size_sum(x, gm_transfer_product(rows, s->pitch));
}

/* True: the description starts in memory of a pool, but its first byte is not there, or its type is
 * invalid. The driver would accept it for mapped memory, and truncate the address. */
static bool side_is_lost(const struct side *s, CUdeviceptr base, size_t offset)
{
	const struct gm_pool *pool = gm_shim_pool_at(base);
	if (!pool)
		return false;
	return gm_shim_pool_at(base + offset) != pool || s->type < CU_MEMORYTYPE_HOST ||
	       s->type > CU_MEMORYTYPE_UNIFIED;
}

/* The first byte touched; *span: the distance to one past the last byte. */
static CUdeviceptr side_extent(const struct side *s, const CUDA_MEMCPY3D *c, size_t *span)
{
	*span = 0;
	if (s->type == CU_MEMORYTYPE_ARRAY || !c->WidthInBytes || !c->Height || !c->Depth)
		return 0;
	CUdeviceptr base = s->type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)s->host : s->device;
	size_t offset = side_distance(s, s->x, s->y, s->z);
	*span = side_distance(s, c->WidthInBytes, c->Height - 1, c->Depth - 1);
	/* A box with addresses that wrap around is in no block. */
	if (size_sum(base, size_sum(offset, *span)) == SIZE_MAX || side_is_lost(s, base, offset))
		return *span = SIZE_MAX, base;
	return base + offset;
}

static bool type_on_device(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

static unsigned box_direction(CUmemorytype dst, CUmemorytype src)
{
	if (type_on_device(dst) && type_on_device(src))
		return GM_RECORD_D2D;
	if (type_on_device(dst) && src == CU_MEMORYTYPE_HOST)
		return GM_RECORD_H2D;
	if (dst == CU_MEMORYTYPE_HOST && type_on_device(src))
		return GM_RECORD_D2H;
	return dst == CU_MEMORYTYPE_HOST && src == CU_MEMORYTYPE_HOST ? GM_RECORD_H2H : 0;
}

struct gm_transfer gm_transfer_of_box(const CUDA_MEMCPY3D *c)
{
	struct gm_transfer t = {.box = c,
				.flags = box_direction(c->dstMemoryType, c->srcMemoryType)};
	struct side dst = {c->dstMemoryType, c->dstDevice, c->dstHost,	c->dstXInBytes,
			   c->dstY,	     c->dstZ,	   c->dstPitch, c->dstHeight};
	struct side src = {c->srcMemoryType, c->srcDevice, c->srcHost,	c->srcXInBytes,
			   c->srcY,	     c->srcZ,	   c->srcPitch, c->srcHeight};
	t.dst = side_extent(&dst, c, &t.dst_span);
	t.src = side_extent(&src, c, &t.src_span);
	t.bytes = gm_transfer_product(gm_transfer_product(c->WidthInBytes, c->Height), c->Depth);
	return t;
}

static CUDA_MEMCPY3D box_from_2d(const CUDA_MEMCPY2D *c)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.srcHeight = c->srcY + c->Height,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstY + c->Height,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};
}

static CUDA_MEMCPY3D box_from_3d(const CUDA_MEMCPY3D *c)
{
	return *c;
}

static CUDA_MEMCPY3D box_from_peer(const CUDA_MEMCPY3D_PEER *c)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcZ = c->srcZ,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcPitch = c->srcPitch,
		.srcHeight = c->srcHeight,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstZ = c->dstZ,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstHeight,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = c->Depth,
	};
}

#define BOX(symbol, type, convert, parameters, arguments, ...)                 \
	GM_HANDLER_IF(copy, symbol, parameters, arguments, ({                  \
			      CUDA_MEMCPY3D box = convert(copy);               \
			      struct gm_transfer t = gm_transfer_of_box(&box); \
			      const struct gm_transfer more = {__VA_ARGS__};   \
			      t.hook = GM_HOOK_##symbol;                       \
			      t.flags |= more.flags;                           \
			      t.stream = more.stream;                          \
			      t.own = more.own;                                \
			      t.placed = more.placed;                          \
			      GM_TRANSFER_RUN(&t, real.symbol arguments);      \
		      }))
#define BOXES(symbol, type, convert, ...)                                                 \
	BOX(symbol, type, convert, (const type *copy), (copy), .own = false, __VA_ARGS__) \
	BOX(symbol##_ptds, type, convert, (const type *copy), (copy), .own = true, __VA_ARGS__)
#define BOXES_ASYNC(symbol, type, convert, ...)                                                \
	BOX(symbol, type, convert, (const type *copy, CUstream stream), (copy, stream),        \
	    .flags = GM_RECORD_ASYNC, .stream = stream, .own = false, __VA_ARGS__)             \
	BOX(symbol##_ptsz, type, convert, (const type *copy, CUstream stream), (copy, stream), \
	    .flags = GM_RECORD_ASYNC, .stream = stream, .own = true, __VA_ARGS__)

BOXES(cuMemcpy2D_v2, CUDA_MEMCPY2D, box_from_2d, .placed = false)
BOXES(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, box_from_2d, .placed = false)
BOXES(cuMemcpy3D_v2, CUDA_MEMCPY3D, box_from_3d, .placed = false)
BOXES(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER, box_from_peer, .placed = true)
BOXES_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, box_from_2d, .placed = false)
BOXES_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, box_from_3d, .placed = false)
BOXES_ASYNC(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, box_from_peer, .placed = true)
