/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated driver, with its lock left out of the calls that a warm pair makes, which answer as
 * fast as possible, and with linear copies that do nothing: otherwise the measurement would be of
 * that lock. Valid for a program that makes one context current in each thread, once, and leaves
 * the GPU idle.
 */
#include <cuda.h>

/* Entries of the simulated driver (sim/exports.c). */
CUresult entry_cuCtxGetCurrent(CUcontext *out);
CUresult entry_cuCtxGetId(CUcontext handle, unsigned long long *out);

#define OWN static __thread __attribute__((tls_model("initial-exec")))

OWN CUcontext current;
OWN unsigned long long id;

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out)
{
	CUresult result = current ? CUDA_SUCCESS : entry_cuCtxGetCurrent(&current);
	*out = current;
	return result;
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *out)
{
	CUresult result = id ? CUDA_SUCCESS : entry_cuCtxGetId(handle, &id);
	*out = id;
	return result;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	OWN CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode before = now;
	now = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext context, CUevent event)
{
	(void)context, (void)event;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
	(void)to, (void)from, (void)n;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
	(void)to, (void)from, (void)n;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream)
{
	(void)to, (void)from, (void)n, (void)stream;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream)
{
	(void)to, (void)from, (void)n, (void)stream;
	return CUDA_SUCCESS;
}
