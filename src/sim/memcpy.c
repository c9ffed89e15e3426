/* SPDX-License-Identifier: BSD-3-Clause */
/* Every cuMemcpy*, expressed as a struct copy. */
#include "sim/copy.h"

static struct sim_end end_on_device(CUdeviceptr address)
{
	return (struct sim_end){.kind = SIM_END_DEVICE, .at = (char *)address};
}

static struct sim_end end_on_host(const void *address)
{
	return (struct sim_end){.kind = SIM_END_HOST, .at = (char *)(uintptr_t)address};
}

static struct sim_end end_anywhere(CUdeviceptr address)
{
	return (struct sim_end){.kind = SIM_END_ANY, .at = (char *)address};
}

static CUresult copy_line(struct sim_end to, struct sim_end from, size_t bytes, CUstream stream,
			  unsigned how)
{
	const size_t size[3] = {bytes, 1, 1};
	return sim_copy(to, from, size, stream, how);
}

/* --- one dimension --- */

CUresult sim_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_line(end_anywhere(to), end_anywhere(from), size, NULL, 0);
}

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	return copy_line(end_on_device(to), end_on_host(from), size, NULL, 0);
}

CUresult sim_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	return copy_line(end_on_host(to), end_on_device(from), size, NULL, 0);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_line(end_on_device(to), end_on_device(from), size, NULL, 0);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy_line(end_anywhere(to), end_anywhere(from), size, stream, SIM_COPY_ASYNC);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	return copy_line(end_on_device(to), end_on_host(from), size, stream, SIM_COPY_ASYNC);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy_line(end_on_host(to), end_on_device(from), size, stream, SIM_COPY_ASYNC);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy_line(end_on_device(to), end_on_device(from), size, stream, SIM_COPY_ASYNC);
}

static CUresult copy_peer(CUdeviceptr to, CUcontext to_handle, CUdeviceptr from,
			  CUcontext from_handle, size_t size, CUstream stream, unsigned how)
{
	struct sim_context *to_ctx, *from_ctx;
	CUresult result = sim_context_of(to_handle, &to_ctx);
	if (result == CUDA_SUCCESS)
		result = sim_context_of(from_handle, &from_ctx);
	return result == CUDA_SUCCESS ? copy_line(end_anywhere(to), end_anywhere(from), size,
						  stream, how | SIM_COPY_PEER)
				      : result;
}

CUresult sim_cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
			  size_t size)
{
	return copy_peer(to, to_ctx, from, from_ctx, size, NULL, 0);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
			       CUcontext from_ctx, size_t size, CUstream stream)
{
	return copy_peer(to, to_ctx, from, from_ctx, size, stream, SIM_COPY_ASYNC);
}

/* --- arrays --- */

/* The end at byte `offset` of an array. */
static CUresult end_in_array(CUarray handle, size_t offset, struct sim_end *out)
{
	struct sim_array *a;
	CUresult result = sim_array_of(handle, &a);
	if (result == CUDA_SUCCESS)
		*out = (struct sim_end){SIM_END_DEVICE, a->at + offset, a->pitch, a->height, a};
	return result;
}

static CUresult copy_to_array(CUarray handle, size_t offset, struct sim_end from, size_t size,
			      CUstream stream, unsigned how)
{
	struct sim_end to = {0};
	CUresult result = end_in_array(handle, offset, &to);
	to.pitch = 0;
	return result == CUDA_SUCCESS ? copy_line(to, from, size, stream, how) : result;
}

static CUresult copy_from_array(struct sim_end to, CUarray handle, size_t offset, size_t size,
				CUstream stream, unsigned how)
{
	struct sim_end from = {0};
	CUresult result = end_in_array(handle, offset, &from);
	from.pitch = 0;
	return result == CUDA_SUCCESS ? copy_line(to, from, size, stream, how) : result;
}

CUresult sim_cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size)
{
	return copy_to_array(to, offset, end_on_device(from), size, NULL, 0);
}

CUresult sim_cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size)
{
	return copy_from_array(end_on_device(to), from, offset, size, NULL, 0);
}

CUresult sim_cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t size)
{
	return copy_to_array(to, offset, end_on_host(from), size, NULL, 0);
}

CUresult sim_cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t size)
{
	return copy_from_array(end_on_host(to), from, offset, size, NULL, 0);
}

CUresult sim_cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t size,
				  CUstream stream)
{
	return copy_to_array(to, offset, end_on_host(from), size, stream, SIM_COPY_ASYNC);
}

CUresult sim_cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t size,
				  CUstream stream)
{
	return copy_from_array(end_on_host(to), from, offset, size, stream, SIM_COPY_ASYNC);
}

CUresult sim_cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t offset, size_t size)
{
	struct sim_end end = {0};
	CUresult result = end_in_array(from, offset, &end);
	end.pitch = 0;
	return result == CUDA_SUCCESS ? copy_to_array(to, to_offset, end, size, NULL, 0) : result;
}

/* --- two and three dimensions --- */

struct corner {
	size_t x, y, z; /* bytes, rows, planes */
};

/* One end of a copy with a descriptor. */
static CUresult end_of_type(CUmemorytype type, const void *on_host, CUdeviceptr on_device,
			    CUarray in_array, size_t pitch, size_t height, struct corner corner,
			    struct sim_end *out)
{
	CUresult result = CUDA_SUCCESS;
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		*out = end_on_host(on_host);
		break;
	case CU_MEMORYTYPE_DEVICE:
		*out = end_on_device(on_device);
		break;
	case CU_MEMORYTYPE_UNIFIED:
		*out = end_anywhere(on_device);
		break;
	case CU_MEMORYTYPE_ARRAY:
		result = end_in_array(in_array, 0, out);
		break;
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result != CUDA_SUCCESS)
		return result;
	if (type != CU_MEMORYTYPE_ARRAY) {
		out->pitch = pitch;
		out->height = height;
	}
	/* a corner may be at any address: no pointer arithmetic */
	out->at = (char *)((uintptr_t)out->at + (corner.z * out->height + corner.y) * out->pitch +
			   corner.x);
	return CUDA_SUCCESS;
}

#define END(c, side, planes, z)                                                                  \
	end_of_type((c)->side##MemoryType, (c)->side##Host, (c)->side##Device, (c)->side##Array, \
		    (c)->side##Pitch, planes,                                                    \
		    (struct corner){(c)->side##XInBytes, (c)->side##Y, z}, &side)

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, unsigned how)
{
	struct sim_end src = {0}, dst = {0};
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = END(c, src, 0, 0);
	if (result == CUDA_SUCCESS)
		result = END(c, dst, 0, 0);
	const size_t size[3] = {c->WidthInBytes, c->Height, 1};
	return result == CUDA_SUCCESS ? sim_copy(dst, src, size, stream, how) : result;
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
	return copy_2d(copy, NULL, 0);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
	return copy_2d(copy, NULL, 0);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return copy_2d(copy, stream, SIM_COPY_ASYNC);
}

/* Both ends of a box, and its size. */
#define SOLID(c, src, dst, size)                                         \
	({                                                               \
		CUresult ends_ = END(c, src, (c)->srcHeight, (c)->srcZ); \
		if (ends_ == CUDA_SUCCESS)                               \
			ends_ = END(c, dst, (c)->dstHeight, (c)->dstZ);  \
		(size)[0] = (c)->WidthInBytes;                           \
		(size)[1] = (c)->Height;                                 \
		(size)[2] = (c)->Depth;                                  \
		ends_;                                                   \
	})

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, unsigned how)
{
	struct sim_end src = {0}, dst = {0};
	size_t size[3];
	CUresult result = c ? SOLID(c, src, dst, size) : CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? sim_copy(dst, src, size, stream, how) : result;
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream stream, unsigned how)
{
	struct sim_end src = {0}, dst = {0};
	size_t size[3];
	CUresult result = c ? SOLID(c, src, dst, size) : CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? sim_copy(dst, src, size, stream, how | SIM_COPY_PEER)
				      : result;
}

CUresult sim_box_work(const CUDA_MEMCPY3D *c, CUcontext context, struct sim_work **work)
{
	struct sim_end src = {0}, dst = {0};
	struct sim_reach at, out;
	size_t size[3];
	CUresult result = c ? SOLID(c, src, dst, size) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && (!size[0] || !size[1] || !size[2]))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = sim_copy_work(dst, src, size, 0, work, &at, &out);
	if (result == CUDA_SUCCESS)
		sim_box_keep(*work, c, context);
	return result;
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
	return copy_3d(copy, NULL, 0);
}

CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return copy_3d(copy, stream, SIM_COPY_ASYNC);
}

CUresult sim_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
	return copy_3d_peer(copy, NULL, 0);
}

CUresult sim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	return copy_3d_peer(copy, stream, SIM_COPY_ASYNC);
}
