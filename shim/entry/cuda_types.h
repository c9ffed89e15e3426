/* SPDX-License-Identifier: BSD-3-Clause */
/* The types of every function in driver/hooks.def, for all toolkits. */
#ifndef GM_SHIM_ENTRY_CUDA_TYPES_H
#define GM_SHIM_ENTRY_CUDA_TYPES_H

#include "driver/driver.h"
/* after driver.h: the types of each ABI version */
#include <cudaTypedefs.h>

/* Missing from older toolkits. */
#if CUDA_VERSION < 12020
typedef CUresult(CUDAAPI *PFN_cuGraphAddNode_v12020)(CUgraphNode *, CUgraph, const CUgraphNode *,
						     size_t, CUgraphNodeParams *);
typedef CUresult(CUDAAPI *PFN_cuGraphNodeSetParams_v12020)(CUgraphNode, CUgraphNodeParams *);
typedef CUresult(CUDAAPI *PFN_cuGraphExecNodeSetParams_v12020)(CUgraphExec, CUgraphNode,
							       CUgraphNodeParams *);
#endif
#if CUDA_VERSION < 12020
typedef CUresult(CUDAAPI *PFN_cuMemPrefetchAsync_v12020)(CUdeviceptr, size_t, CUmemLocation,
							 unsigned int, CUstream);
typedef PFN_cuMemPrefetchAsync_v12020 PFN_cuMemPrefetchAsync_v12020_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemAdvise_v12020)(CUdeviceptr, size_t, CUmem_advise, CUmemLocation);
#endif
#if CUDA_VERSION < 12010
typedef struct CUmulticastObjectProp_st CUmulticastObjectProp;
typedef CUresult(CUDAAPI *PFN_cuMulticastCreate_v12010)(CUmemGenericAllocationHandle *,
							const CUmulticastObjectProp *);
typedef CUresult(CUDAAPI *PFN_cuMulticastAddDevice_v12010)(CUmemGenericAllocationHandle, CUdevice);
typedef CUresult(CUDAAPI *PFN_cuMulticastBindMem_v12010)(CUmemGenericAllocationHandle, size_t,
							 CUmemGenericAllocationHandle, size_t,
							 size_t, unsigned long long);
typedef CUresult(CUDAAPI *PFN_cuMulticastBindAddr_v12010)(CUmemGenericAllocationHandle, size_t,
							  CUdeviceptr, size_t, unsigned long long);
#endif
#if CUDA_VERSION < 12030
typedef CUresult(CUDAAPI *PFN_cuStreamBeginCaptureToGraph_v12030)(CUstream, CUgraph,
								  const CUgraphNode *,
								  const CUgraphEdgeData *, size_t,
								  CUstreamCaptureMode);
typedef PFN_cuStreamBeginCaptureToGraph_v12030 PFN_cuStreamBeginCaptureToGraph_v12030_ptsz;
typedef CUresult(CUDAAPI *PFN_cuGraphAddNode_v12030)(CUgraphNode *, CUgraph, const CUgraphNode *,
						     const CUgraphEdgeData *, size_t,
						     CUgraphNodeParams *);
#endif
#if CUDA_VERSION < 12050
typedef CUresult(CUDAAPI *PFN_cuGreenCtxStreamCreate_v12050)(CUstream *, CUgreenCtx, unsigned int,
							     int);
typedef CUresult(CUDAAPI *PFN_cuCtxCreate_v12050)(CUcontext *, CUctxCreateParams *, unsigned int,
						  CUdevice);
#endif

#if CUDA_VERSION < 12040
typedef CUresult(CUDAAPI *PFN_cuFuncLoad_v12040)(CUfunction);
typedef CUresult(CUDAAPI *PFN_cuLibraryEnumerateKernels_v12040)(CUkernel *, unsigned int,
								CUlibrary);
typedef CUresult(CUDAAPI *PFN_cuModuleEnumerateFunctions_v12040)(CUfunction *, unsigned int,
								 CUmodule);
typedef CUresult(CUDAAPI *PFN_cuGreenCtxCreate_v12040)(CUgreenCtx *, CUdevResourceDesc, CUdevice,
						       unsigned int);
typedef CUresult(CUDAAPI *PFN_cuGreenCtxDestroy_v12040)(CUgreenCtx);
#endif
#if CUDA_VERSION < 12080
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
typedef CUresult(CUDAAPI *PFN_cuMemBatchDecompressAsync_v12060)(CUmemDecompressParams *, size_t,
								unsigned int, size_t *, CUstream);
typedef PFN_cuMemBatchDecompressAsync_v12060 PFN_cuMemBatchDecompressAsync_v12060_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpyBatchAsync_v12080)(CUdeviceptr *, CUdeviceptr *, size_t *,
							 size_t, CUmemcpyAttributes *, size_t *,
							 size_t, size_t *, CUstream);
typedef CUresult(CUDAAPI *PFN_cuMemcpy3DBatchAsync_v12080)(size_t, CUDA_MEMCPY3D_BATCH_OP *,
							   size_t *, unsigned long long, CUstream);
typedef PFN_cuMemcpyBatchAsync_v12080 PFN_cuMemcpyBatchAsync_v12080_ptsz;
typedef PFN_cuMemcpy3DBatchAsync_v12080 PFN_cuMemcpy3DBatchAsync_v12080_ptsz;
#endif
#if CUDA_VERSION < 13000
typedef CUresult(CUDAAPI *PFN_cuCtxSynchronize_v13000)(CUcontext);
typedef CUresult(CUDAAPI *PFN_cuMemcpyBatchAsync_v13000)(CUdeviceptr *, CUdeviceptr *, size_t *,
							 size_t, CUmemcpyAttributes *, size_t *,
							 size_t, CUstream);
typedef CUresult(CUDAAPI *PFN_cuMemcpy3DBatchAsync_v13000)(size_t, CUDA_MEMCPY3D_BATCH_OP *,
							   unsigned long long, CUstream);
typedef PFN_cuMemcpyBatchAsync_v13000 PFN_cuMemcpyBatchAsync_v13000_ptsz;
typedef PFN_cuMemcpy3DBatchAsync_v13000 PFN_cuMemcpy3DBatchAsync_v13000_ptsz;
#endif
#if CUDA_VERSION < 13010
typedef CUresult(CUDAAPI *PFN_cuMulticastBindMem_v13010)(CUmemGenericAllocationHandle, CUdevice,
							 size_t, CUmemGenericAllocationHandle,
							 size_t, size_t, unsigned long long);
typedef CUresult(CUDAAPI *PFN_cuMulticastBindAddr_v13010)(CUmemGenericAllocationHandle, CUdevice,
							  size_t, CUdeviceptr, size_t,
							  unsigned long long);
typedef CUresult(CUDAAPI *PFN_cuLaunchHostFunc_v13010)(CUstream, CUhostFn, void *, unsigned);
typedef PFN_cuLaunchHostFunc_v13010 PFN_cuLaunchHostFunc_v13010_ptsz;
#endif
#if CUDA_VERSION < 13020
typedef CUresult(CUDAAPI *PFN_cuStreamBeginCaptureToCig_v13010)(CUstream,
								CUstreamCigCaptureParams *);
typedef CUresult(CUDAAPI *PFN_cuStreamEndCaptureToCig_v13010)(CUstream);
typedef PFN_cuStreamBeginCaptureToCig_v13010 PFN_cuStreamBeginCaptureToCig_v13010_ptsz;
typedef PFN_cuStreamEndCaptureToCig_v13010 PFN_cuStreamEndCaptureToCig_v13010_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpyWithAttributesAsync_v13020)(CUdeviceptr, CUdeviceptr, size_t,
								  CUmemcpyAttributes *, CUstream);
typedef CUresult(CUDAAPI *PFN_cuMemcpy3DWithAttributesAsync_v13020)(CUDA_MEMCPY3D_BATCH_OP *,
								    unsigned long long, CUstream);
typedef PFN_cuMemcpyWithAttributesAsync_v13020 PFN_cuMemcpyWithAttributesAsync_v13020_ptsz;
typedef PFN_cuMemcpy3DWithAttributesAsync_v13020 PFN_cuMemcpy3DWithAttributesAsync_v13020_ptsz;
#endif
#if CUDA_VERSION < 13030
typedef CUresult(CUDAAPI *PFN_cuLogicalEndpointBindAddr_v13030)(CUlogicalEndpointId, CUdevice,
								cuuint64_t, void *, cuuint64_t,
								unsigned long long);
typedef CUresult(CUDAAPI *PFN_cuStreamBeginRecaptureToGraph_v13030)(CUstream, CUstreamCaptureMode,
								    CUgraph,
								    CUgraphRecaptureCallback,
								    void *);
typedef PFN_cuStreamBeginRecaptureToGraph_v13030 PFN_cuStreamBeginRecaptureToGraph_v13030_ptsz;
#endif
#if CUDA_VERSION < 13040
typedef PFN_cuGraphAddNode_v12030 PFN_cuGraphAddNode_v13040;
typedef PFN_cuGraphNodeSetParams_v12020 PFN_cuGraphNodeSetParams_v13040;
typedef CUresult(CUDAAPI *PFN_cuMemGetLocationInfo_v13040)(CUdeviceptr, size_t, size_t, size_t,
							   CUmemLocation *);
#endif

#endif
