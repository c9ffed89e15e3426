/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"
/* clang-format off */
CUresult on_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v2 *pAllocateArray)
{
	return real.cuArray3DCreate_v2(pHandle, pAllocateArray);
}
CUresult on_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v2 *pAllocateArray)
{
	return real.cuArrayCreate_v2(pHandle, pAllocateArray);
}
CUresult on_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice_v1 dev)
{
	return real.cuCtxCreate_v2(pctx, flags, dev);
}
CUresult on_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice_v1 dev)
{
	return real.cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev);
}
CUresult on_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	return real.cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev);
}
CUresult on_cuCtxDestroy(CUcontext ctx)
{
	return real.cuCtxDestroy(ctx);
}
CUresult on_cuCtxDestroy_v2(CUcontext ctx)
{
	return real.cuCtxDestroy_v2(ctx);
}
CUresult on_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	return real.cuCtxDisablePeerAccess(peerContext);
}
CUresult on_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	return real.cuCtxEnablePeerAccess(peerContext, Flags);
}
CUresult on_cuCtxSetLimit(CUlimit limit, size_t value)
{
	return real.cuCtxSetLimit(limit, value);
}
CUresult on_cuDevicePrimaryCtxRelease(CUdevice_v1 dev)
{
	return real.cuDevicePrimaryCtxRelease(dev);
}
CUresult on_cuDevicePrimaryCtxRelease_v2(CUdevice_v1 dev)
{
	return real.cuDevicePrimaryCtxRelease_v2(dev);
}
CUresult on_cuDevicePrimaryCtxReset(CUdevice_v1 dev)
{
	return real.cuDevicePrimaryCtxReset(dev);
}
CUresult on_cuDevicePrimaryCtxReset_v2(CUdevice_v1 dev)
{
	return real.cuDevicePrimaryCtxReset_v2(dev);
}
CUresult on_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice_v1 dev)
{
	return real.cuDevicePrimaryCtxRetain(pctx, dev);
}
CUresult on_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	return real.cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}
CUresult on_cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	return real.cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
CUresult on_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	return real.cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags);
}
CUresult on_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return real.cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
}
CUresult on_cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return real.cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams);
}
CUresult on_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	return real.cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
CUresult on_cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	return real.cuGraphLaunch(hGraph, hStream);
}
CUresult on_cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return real.cuGraphLaunch_ptsz(hGraphExec, hStream);
}
CUresult on_cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	return real.cuGraphUpload(hGraph, hStream);
}
CUresult on_cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return real.cuGraphUpload_ptsz(hGraphExec, hStream);
}
CUresult on_cuInit(unsigned int Flags)
{
	return real.cuInit(Flags);
}
CUresult on_cuIpcGetMemHandle(CUipcMemHandle_v1 *pHandle, CUdeviceptr_v2 dptr)
{
	return real.cuIpcGetMemHandle(pHandle, dptr);
}
CUresult on_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	return real.cuKernelGetFunction(pFunc, kernel);
}
CUresult on_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
	return real.cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams);
}
CUresult on_cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
	return real.cuLaunchCooperativeKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams);
}
CUresult on_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
	return real.cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}
CUresult on_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	return real.cuLaunchKernelEx(config, f, kernelParams, extra);
}
CUresult on_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	return real.cuLaunchKernelEx_ptsz(config, f, kernelParams, extra);
}
CUresult on_cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
	return real.cuLaunchKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}
CUresult on_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return real.cuLibraryGetGlobal(dptr, bytes, library, name);
}
CUresult on_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	return real.cuLibraryGetModule(pMod, library);
}
CUresult on_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions, void** libraryOptionValues, unsigned int numLibraryOptions)
{
	return real.cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions);
}
CUresult on_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)
{
	return real.cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions);
}
CUresult on_cuMemAllocAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	return real.cuMemAllocAsync(dptr, bytesize, hStream);
}
CUresult on_cuMemAllocAsync_ptsz(CUdeviceptr_v2 *dptr, size_t bytesize, CUstream hStream)
{
	return real.cuMemAllocAsync_ptsz(dptr, bytesize, hStream);
}
CUresult on_cuMemAllocFromPoolAsync(CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	return real.cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream);
}
CUresult on_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	return real.cuMemAllocFromPoolAsync_ptsz(dptr, bytesize, pool, hStream);
}
CUresult on_cuMemAllocManaged(CUdeviceptr_v2 *dptr, size_t bytesize, unsigned int flags)
{
	return real.cuMemAllocManaged(dptr, bytesize, flags);
}
CUresult on_cuMemAllocPitch_v2(CUdeviceptr_v2 *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
	return real.cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
}
CUresult on_cuMemAlloc_v2(CUdeviceptr_v2 *dptr, size_t bytesize)
{
	return real.cuMemAlloc_v2(dptr, bytesize);
}
CUresult on_cuMemCreate(CUmemGenericAllocationHandle_v1 *handle, size_t size, const CUmemAllocationProp_v1 *prop, unsigned long long flags)
{
	return real.cuMemCreate(handle, size, prop, flags);
}
CUresult on_cuMemFreeAsync(CUdeviceptr_v2 dptr, CUstream hStream)
{
	return real.cuMemFreeAsync(dptr, hStream);
}
CUresult on_cuMemFreeAsync_ptsz(CUdeviceptr_v2 dptr, CUstream hStream)
{
	return real.cuMemFreeAsync_ptsz(dptr, hStream);
}
CUresult on_cuMemFree_v2(CUdeviceptr_v2 dptr)
{
	return real.cuMemFree_v2(dptr);
}
CUresult on_cuMemGetAddressRange_v2(CUdeviceptr_v2 *pbase, size_t *psize, CUdeviceptr_v2 dptr)
{
	return real.cuMemGetAddressRange_v2(pbase, psize, dptr);
}
CUresult on_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType, unsigned long long flags)
{
	return real.cuMemGetHandleForAddressRange(handle, dptr, size, handleType, flags);
}
CUresult on_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	return real.cuMemGetInfo_v2(free, total);
}
CUresult on_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps_v1 *poolProps)
{
	return real.cuMemPoolCreate(pool, poolProps);
}
CUresult on_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle_v1 *handle, void *addr)
{
	return real.cuMemRetainAllocationHandle(handle, addr);
}
CUresult on_cuMemcpy(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount)
{
	return real.cuMemcpy(dst, src, ByteCount);
}
CUresult on_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D_v2 *pCopy, CUstream hStream)
{
	return real.cuMemcpy2DAsync_v2(pCopy, hStream);
}
CUresult on_cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D_v2 *pCopy, CUstream hStream)
{
	return real.cuMemcpy2DAsync_v2_ptsz(pCopy, hStream);
}
CUresult on_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D_v2 *pCopy)
{
	return real.cuMemcpy2DUnaligned_v2(pCopy);
}
CUresult on_cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D_v2 *pCopy)
{
	return real.cuMemcpy2DUnaligned_v2_ptds(pCopy);
}
CUresult on_cuMemcpy2D_v2(const CUDA_MEMCPY2D_v2 *pCopy)
{
	return real.cuMemcpy2D_v2(pCopy);
}
CUresult on_cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D_v2 *pCopy)
{
	return real.cuMemcpy2D_v2_ptds(pCopy);
}
CUresult on_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D_v2 *pCopy, CUstream hStream)
{
	return real.cuMemcpy3DAsync_v2(pCopy, hStream);
}
CUresult on_cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D_v2 *pCopy, CUstream hStream)
{
	return real.cuMemcpy3DAsync_v2_ptsz(pCopy, hStream);
}
CUresult on_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER_v1 *pCopy)
{
	return real.cuMemcpy3DPeer(pCopy);
}
CUresult on_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream hStream)
{
	return real.cuMemcpy3DPeerAsync(pCopy, hStream);
}
CUresult on_cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream hStream)
{
	return real.cuMemcpy3DPeerAsync_ptsz(pCopy, hStream);
}
CUresult on_cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER_v1 *pCopy)
{
	return real.cuMemcpy3DPeer_ptds(pCopy);
}
CUresult on_cuMemcpy3D_v2(const CUDA_MEMCPY3D_v2 *pCopy)
{
	return real.cuMemcpy3D_v2(pCopy);
}
CUresult on_cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D_v2 *pCopy)
{
	return real.cuMemcpy3D_v2_ptds(pCopy);
}
CUresult on_cuMemcpyAsync(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyAsync(dst, src, ByteCount, hStream);
}
CUresult on_cuMemcpyAsync_ptsz(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyAsync_ptsz(dst, src, ByteCount, hStream);
}
CUresult on_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return real.cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}
CUresult on_cuMemcpyAtoA_v2_ptds(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return real.cuMemcpyAtoA_v2_ptds(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}
CUresult on_cuMemcpyAtoD_v2(CUdeviceptr_v2 dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return real.cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount);
}
CUresult on_cuMemcpyAtoD_v2_ptds(CUdeviceptr_v2 dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return real.cuMemcpyAtoD_v2_ptds(dstDevice, srcArray, srcOffset, ByteCount);
}
CUresult on_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, hStream);
}
CUresult on_cuMemcpyAtoHAsync_v2_ptsz(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyAtoHAsync_v2_ptsz(dstHost, srcArray, srcOffset, ByteCount, hStream);
}
CUresult on_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return real.cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount);
}
CUresult on_cuMemcpyAtoH_v2_ptds(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return real.cuMemcpyAtoH_v2_ptds(dstHost, srcArray, srcOffset, ByteCount);
}
CUresult on_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr_v2 srcDevice, size_t ByteCount)
{
	return real.cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount);
}
CUresult on_cuMemcpyDtoA_v2_ptds(CUarray dstArray, size_t dstOffset, CUdeviceptr_v2 srcDevice, size_t ByteCount)
{
	return real.cuMemcpyDtoA_v2_ptds(dstArray, dstOffset, srcDevice, ByteCount);
}
CUresult on_cuMemcpyDtoDAsync_v2(CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}
CUresult on_cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyDtoDAsync_v2_ptsz(dstDevice, srcDevice, ByteCount, hStream);
}
CUresult on_cuMemcpyDtoD_v2(CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice, size_t ByteCount)
{
	return real.cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}
CUresult on_cuMemcpyDtoD_v2_ptds(CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice, size_t ByteCount)
{
	return real.cuMemcpyDtoD_v2_ptds(dstDevice, srcDevice, ByteCount);
}
CUresult on_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr_v2 srcDevice, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream);
}
CUresult on_cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr_v2 srcDevice, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyDtoHAsync_v2_ptsz(dstHost, srcDevice, ByteCount, hStream);
}
CUresult on_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr_v2 srcDevice, size_t ByteCount)
{
	return real.cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
}
CUresult on_cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr_v2 srcDevice, size_t ByteCount)
{
	return real.cuMemcpyDtoH_v2_ptds(dstHost, srcDevice, ByteCount);
}
CUresult on_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, hStream);
}
CUresult on_cuMemcpyHtoAAsync_v2_ptsz(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyHtoAAsync_v2_ptsz(dstArray, dstOffset, srcHost, ByteCount, hStream);
}
CUresult on_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	return real.cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount);
}
CUresult on_cuMemcpyHtoA_v2_ptds(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	return real.cuMemcpyHtoA_v2_ptds(dstArray, dstOffset, srcHost, ByteCount);
}
CUresult on_cuMemcpyHtoDAsync_v2(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream);
}
CUresult on_cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyHtoDAsync_v2_ptsz(dstDevice, srcHost, ByteCount, hStream);
}
CUresult on_cuMemcpyHtoD_v2(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount)
{
	return real.cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
}
CUresult on_cuMemcpyHtoD_v2_ptds(CUdeviceptr_v2 dstDevice, const void *srcHost, size_t ByteCount)
{
	return real.cuMemcpyHtoD_v2_ptds(dstDevice, srcHost, ByteCount);
}
CUresult on_cuMemcpyPeer(CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount)
{
	return real.cuMemcpyPeer(dstDevice, dstContext, srcDevice, srcContext, ByteCount);
}
CUresult on_cuMemcpyPeerAsync(CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream);
}
CUresult on_cuMemcpyPeerAsync_ptsz(CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	return real.cuMemcpyPeerAsync_ptsz(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream);
}
CUresult on_cuMemcpyPeer_ptds(CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount)
{
	return real.cuMemcpyPeer_ptds(dstDevice, dstContext, srcDevice, srcContext, ByteCount);
}
CUresult on_cuMemcpy_ptds(CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount)
{
	return real.cuMemcpy_ptds(dst, src, ByteCount);
}
CUresult on_cuMemsetD16Async(CUdeviceptr_v2 dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return real.cuMemsetD16Async(dstDevice, us, N, hStream);
}
CUresult on_cuMemsetD16Async_ptsz(CUdeviceptr_v2 dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return real.cuMemsetD16Async_ptsz(dstDevice, us, N, hStream);
}
CUresult on_cuMemsetD16_v2(CUdeviceptr_v2 dstDevice, unsigned short us, size_t N)
{
	return real.cuMemsetD16_v2(dstDevice, us, N);
}
CUresult on_cuMemsetD16_v2_ptds(CUdeviceptr_v2 dstDevice, unsigned short us, size_t N)
{
	return real.cuMemsetD16_v2_ptds(dstDevice, us, N);
}
CUresult on_cuMemsetD2D16Async(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream)
{
	return real.cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, hStream);
}
CUresult on_cuMemsetD2D16Async_ptsz(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream)
{
	return real.cuMemsetD2D16Async_ptsz(dstDevice, dstPitch, us, Width, Height, hStream);
}
CUresult on_cuMemsetD2D16_v2(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
	return real.cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width, Height);
}
CUresult on_cuMemsetD2D16_v2_ptds(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
	return real.cuMemsetD2D16_v2_ptds(dstDevice, dstPitch, us, Width, Height);
}
CUresult on_cuMemsetD2D32Async(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream)
{
	return real.cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, hStream);
}
CUresult on_cuMemsetD2D32Async_ptsz(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream)
{
	return real.cuMemsetD2D32Async_ptsz(dstDevice, dstPitch, ui, Width, Height, hStream);
}
CUresult on_cuMemsetD2D32_v2(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
	return real.cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width, Height);
}
CUresult on_cuMemsetD2D32_v2_ptds(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
	return real.cuMemsetD2D32_v2_ptds(dstDevice, dstPitch, ui, Width, Height);
}
CUresult on_cuMemsetD2D8Async(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream)
{
	return real.cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, hStream);
}
CUresult on_cuMemsetD2D8Async_ptsz(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream)
{
	return real.cuMemsetD2D8Async_ptsz(dstDevice, dstPitch, uc, Width, Height, hStream);
}
CUresult on_cuMemsetD2D8_v2(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
	return real.cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height);
}
CUresult on_cuMemsetD2D8_v2_ptds(CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
	return real.cuMemsetD2D8_v2_ptds(dstDevice, dstPitch, uc, Width, Height);
}
CUresult on_cuMemsetD32Async(CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return real.cuMemsetD32Async(dstDevice, ui, N, hStream);
}
CUresult on_cuMemsetD32Async_ptsz(CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return real.cuMemsetD32Async_ptsz(dstDevice, ui, N, hStream);
}
CUresult on_cuMemsetD32_v2(CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N)
{
	return real.cuMemsetD32_v2(dstDevice, ui, N);
}
CUresult on_cuMemsetD32_v2_ptds(CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N)
{
	return real.cuMemsetD32_v2_ptds(dstDevice, ui, N);
}
CUresult on_cuMemsetD8Async(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return real.cuMemsetD8Async(dstDevice, uc, N, hStream);
}
CUresult on_cuMemsetD8Async_ptsz(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return real.cuMemsetD8Async_ptsz(dstDevice, uc, N, hStream);
}
CUresult on_cuMemsetD8_v2(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N)
{
	return real.cuMemsetD8_v2(dstDevice, uc, N);
}
CUresult on_cuMemsetD8_v2_ptds(CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N)
{
	return real.cuMemsetD8_v2_ptds(dstDevice, uc, N);
}
CUresult on_cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v2 *pMipmappedArrayDesc, unsigned int numMipmapLevels)
{
	return real.cuMipmappedArrayCreate(pHandle, pMipmappedArrayDesc, numMipmapLevels);
}
CUresult on_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	return real.cuModuleGetFunction(hfunc, hmod, name);
}
CUresult on_cuModuleLoad(CUmodule *module, const char *fname)
{
	return real.cuModuleLoad(module, fname);
}
CUresult on_cuModuleLoadData(CUmodule *module, const void *image)
{
	return real.cuModuleLoadData(module, image);
}
CUresult on_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	return real.cuModuleLoadDataEx(module, image, numOptions, options, optionValues);
}
CUresult on_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return real.cuModuleLoadFatBinary(module, fatCubin);
}
CUresult on_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr_v2 ptr)
{
	return real.cuPointerGetAttribute(data, attribute, ptr);
}
CUresult on_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr_v2 ptr)
{
	return real.cuPointerGetAttributes(numAttributes, attributes, data, ptr);
}
CUresult on_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr_v2 ptr)
{
	return real.cuPointerSetAttribute(value, attribute, ptr);
}
CUresult on_cuStreamBeginCapture(CUstream hStream)
{
	return real.cuStreamBeginCapture(hStream);
}
CUresult on_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
	return real.cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
}
CUresult on_cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
	return real.cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
}
CUresult on_cuStreamBeginCapture_ptsz(CUstream hStream)
{
	return real.cuStreamBeginCapture_ptsz(hStream);
}
CUresult on_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	return real.cuStreamBeginCapture_v2(hStream, mode);
}
CUresult on_cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	return real.cuStreamBeginCapture_v2_ptsz(hStream, mode);
}
CUresult on_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return real.cuStreamCreate(phStream, Flags);
}
CUresult on_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	return real.cuStreamCreateWithPriority(phStream, flags, priority);
}
CUresult on_cuStreamDestroy(CUstream hStream)
{
	return real.cuStreamDestroy(hStream);
}
CUresult on_cuStreamDestroy_v2(CUstream hStream)
{
	return real.cuStreamDestroy_v2(hStream);
}
CUresult on_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	return real.cuStreamEndCapture(hStream, phGraph);
}
CUresult on_cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	return real.cuStreamEndCapture_ptsz(hStream, phGraph);
}
