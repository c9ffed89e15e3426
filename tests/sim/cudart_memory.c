/* SPDX-License-Identifier: BSD-3-Clause */
/* The small runtime: memory and copies, by the driver entries that NVIDIA's runtime calls. */
#include "cudart.h"

/* --- allocations --- */

static CUresult device_alloc(const struct rt_calls *cu, void **out, size_t size)
{
	CUdeviceptr p = 0;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = size ? cu->cuMemAlloc(&p, size) : CUDA_SUCCESS; /* size 0: NULL */
	if (result == CUDA_SUCCESS)
		*out = (void *)p;
	return result;
}

static CUresult host_alloc(const struct rt_calls *cu, void **out, size_t size, unsigned flags)
{
	if (out && !size)
		return *out = NULL, CUDA_SUCCESS;
	return cu->cuMemHostAlloc(out, size, flags);
}

RT(cudaMalloc, (void **out, size_t size), device_alloc(cu, out, size))
RT(cudaFree, (void *p), cu->cuMemFree((CUdeviceptr)p))
RT(cudaMallocPitch, (void **out, size_t *pitch, size_t width, size_t height),
   cu->cuMemAllocPitch((CUdeviceptr *)out, pitch, width, height, 4))
RT(cudaMallocManaged, (void **out, size_t size, unsigned flags),
   cu->cuMemAllocManaged((CUdeviceptr *)out, size, flags))
RT(cudaMallocHost, (void **out, size_t size), host_alloc(cu, out, size, 0))
RT(cudaHostAlloc, (void **out, size_t size, unsigned flags), host_alloc(cu, out, size, flags))
RT(cudaFreeHost, (void *p), p ? cu->cuMemFreeHost(p) : CUDA_SUCCESS)
RT(cudaMemGetInfo, (size_t * free_bytes, size_t *total), cu->cuMemGetInfo(free_bytes, total))
RT_BOTH(cudaMallocAsync, _ptsz, (void **out, size_t size, cudaStream_t stream),
	cu->cuMemAllocAsync((CUdeviceptr *)out, size, stream))
RT_BOTH(cudaFreeAsync, _ptsz, (void *p, cudaStream_t stream),
	cu->cuMemFreeAsync((CUdeviceptr)p, stream))

static CUresult attributes(const struct rt_calls *cu, struct cudaPointerAttributes *out,
			   const void *p)
{
	unsigned type = 0, managed = 0;
	int ordinal = 0;
	CUdeviceptr on_device = 0;
	void *on_host = NULL;
	CUpointer_attribute ask[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER};
	void *answers[] = {&type, &managed, &ordinal, &on_device, &on_host};
	CUresult result = out ? cu->cuPointerGetAttributes(5, ask, answers, (CUdeviceptr)p)
			      : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	out->type = managed			   ? cudaMemoryTypeManaged
		    : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
		    : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
						   : cudaMemoryTypeUnregistered;
	out->device = ordinal;
	out->devicePointer = (void *)on_device;
	out->hostPointer = on_host;
	return CUDA_SUCCESS;
}

RT(cudaPointerGetAttributes, (struct cudaPointerAttributes * out, const void *p),
   attributes(cu, out, p))

/* --- copies and fills --- */

static CUresult copy(const struct rt_calls *cu, void *to, const void *from, size_t n,
		     enum cudaMemcpyKind kind)
{
	if ((unsigned)kind > cudaMemcpyDefault)
		return (CUresult)cudaErrorInvalidMemcpyDirection;
	if (kind == cudaMemcpyHostToDevice)
		return cu->cuMemcpyHtoD((CUdeviceptr)to, from, n);
	if (kind == cudaMemcpyDeviceToHost)
		return cu->cuMemcpyDtoH(to, (CUdeviceptr)from, n);
	return cu->cuMemcpy((CUdeviceptr)to, (CUdeviceptr)from, n);
}

static CUresult copy_async(const struct rt_calls *cu, void *to, const void *from, size_t n,
			   enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if ((unsigned)kind > cudaMemcpyDefault)
		return (CUresult)cudaErrorInvalidMemcpyDirection;
	if (kind == cudaMemcpyHostToDevice)
		return cu->cuMemcpyHtoDAsync((CUdeviceptr)to, from, n, stream);
	if (kind == cudaMemcpyDeviceToHost)
		return cu->cuMemcpyDtoHAsync(to, (CUdeviceptr)from, n, stream);
	if (kind == cudaMemcpyDeviceToDevice)
		return cu->cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, n, stream);
	return cu->cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, n, stream);
}

/* UNIFIED if the kind does not decide it. */
static CUmemorytype side(enum cudaMemcpyKind kind, int to)
{
	switch (kind) {
	case cudaMemcpyHostToHost:
		return CU_MEMORYTYPE_HOST;
	case cudaMemcpyHostToDevice:
		return to ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	case cudaMemcpyDeviceToHost:
		return to ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case cudaMemcpyDeviceToDevice:
		return CU_MEMORYTYPE_DEVICE;
	default:
		return CU_MEMORYTYPE_UNIFIED;
	}
}

static CUresult copy_flat(const struct rt_calls *cu, void *to, size_t to_pitch, const void *from,
			  size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	if (width > to_pitch || width > from_pitch)
		return (CUresult)cudaErrorInvalidPitchValue;
	CUDA_MEMCPY2D c = {.srcMemoryType = side(kind, 0),
			   .srcHost = from,
			   .srcDevice = (CUdeviceptr)from,
			   .srcPitch = from_pitch,
			   .dstMemoryType = side(kind, 1),
			   .dstHost = to,
			   .dstDevice = (CUdeviceptr)to,
			   .dstPitch = to_pitch,
			   .WidthInBytes = width,
			   .Height = height};
	return cu->cuMemcpy2DUnaligned(&c);
}

static CUresult copy_peer(const struct rt_calls *cu, void *to, int to_device, const void *from,
			  int from_device, size_t n, cudaStream_t stream, int async)
{
	CUcontext to_ctx, from_ctx = NULL;
	cudaError_t error = rt_context(to_device, &to_ctx);
	if (!error)
		error = rt_context(from_device, &from_ctx);
	if (error)
		return (CUresult)error;
	return async ? cu->cuMemcpyPeerAsync((CUdeviceptr)to, to_ctx, (CUdeviceptr)from, from_ctx,
					     n, stream)
		     : cu->cuMemcpyPeer((CUdeviceptr)to, to_ctx, (CUdeviceptr)from, from_ctx, n);
}

RT_BOTH(cudaMemcpy, _ptds, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind),
	copy(cu, to, from, n, kind))
RT_BOTH(cudaMemcpyAsync, _ptsz,
	(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream),
	copy_async(cu, to, from, n, kind, stream))
RT_BOTH(cudaMemcpy2D, _ptds,
	(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	 size_t height, enum cudaMemcpyKind kind),
	copy_flat(cu, to, to_pitch, from, from_pitch, width, height, kind))
RT(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t n),
   copy_peer(cu, to, to_device, from, from_device, n, NULL, 0))
RT(cudaMemcpyPeerAsync,
   (void *to, int to_device, const void *from, int from_device, size_t n, cudaStream_t stream),
   copy_peer(cu, to, to_device, from, from_device, n, stream, 1))
RT_BOTH(cudaMemset, _ptds, (void *p, int value, size_t n),
	cu->cuMemsetD8((CUdeviceptr)p, (unsigned char)value, n))
RT_BOTH(cudaMemsetAsync, _ptsz, (void *p, int value, size_t n, cudaStream_t stream),
	cu->cuMemsetD8Async((CUdeviceptr)p, (unsigned char)value, n, stream))
