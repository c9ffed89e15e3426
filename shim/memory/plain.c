/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that have no other handler, and may lack memory. To add one, add a row to hooks.def, and a
 * line below: the symbol and the types of its parameters.
 */
#include "shim/memory/retry.h"
#include "shim/sleep/rest.h"

/* P2(int, char *) is `int a, char *b`, N2 is `a, b`. */
#define P1(A) A a
#define P2(A, B) P1(A), B b
#define P3(A, B, C) P2(A, B), C c
#define P4(A, B, C, D) P3(A, B, C), D d
#define P5(A, B, C, D, E) P4(A, B, C, D), E e
#define P6(A, B, C, D, E, F) P5(A, B, C, D, E), F f
#define P7(A, B, C, D, E, F, G) P6(A, B, C, D, E, F), G g
#define P8(A, B, C, D, E, F, G, H) P7(A, B, C, D, E, F, G), H h
#define N1 a
#define N2 N1, b
#define N3 N2, c
#define N4 N3, d
#define N5 N4, e
#define N6 N5, f
#define N7 N6, g
#define N8 N7, h

#define COUNT(...) COUNT_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define COUNT_(A, B, C, D, E, F, G, H, n, ...) n
#define JOIN(a, b) JOIN_(a, b)
#define JOIN_(a, b) a##b

#define PLAIN(how, symbol, ...)                                         \
	PLAIN_(how, symbol, (JOIN(P, COUNT(__VA_ARGS__))(__VA_ARGS__)), \
	       (JOIN(N, COUNT(__VA_ARGS__))))
#define PLAIN_(how, symbol, parameters, arguments)                           \
	CUresult on_##symbol parameters                                      \
	{                                                                    \
		return GM_GATED(symbol, how(symbol, real.symbol arguments)); \
	}

/* With RETRY in hooks.def: takes device memory. */
#define RETRIES(symbol, ...) PLAIN(GM_RETRY_UNGUARDED, symbol, __VA_ARGS__)
RETRIES(cuEventCreate, CUevent *, unsigned)
RETRIES(cuFuncLoad, CUfunction)
RETRIES(cuGraphUpload, CUgraphExec, CUstream)
RETRIES(cuGraphUpload_ptsz, CUgraphExec, CUstream)
RETRIES(cuGreenCtxStreamCreate, CUstream *, CUgreenCtx, unsigned, int)
RETRIES(cuLibraryGetGlobal, CUdeviceptr *, size_t *, CUlibrary, const char *)
RETRIES(cuModuleGetGlobal_v2, CUdeviceptr *, size_t *, CUmodule, const char *)
RETRIES(cuStreamCreate, CUstream *, unsigned)
RETRIES(cuStreamCreateWithPriority, CUstream *, unsigned, int)

/* The same as REPORTS; afterwards the process shares something with others. */
#define SHARES(symbol, ...) PLAIN(SHARED, symbol, __VA_ARGS__)
#define SHARED(symbol, call)                 \
	({                                   \
		gm_rest_share();             \
		GM_REPORTED(symbol, (call)); \
	})
SHARES(cuImportExternalSemaphore, CUexternalSemaphore *,
       const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *)
SHARES(cuIpcGetEventHandle, CUipcEventHandle *, CUevent)
SHARES(cuIpcOpenEventHandle, CUevent *, CUipcEventHandle)
SHARES(cuMemPoolExportPointer, CUmemPoolPtrExportData *, CUdeviceptr)
SHARES(cuMemPoolExportToShareableHandle, void *, CUmemoryPool, CUmemAllocationHandleType,
       unsigned long long)
SHARES(cuMemPoolImportFromShareableHandle, CUmemoryPool *, void *, CUmemAllocationHandleType,
       unsigned long long)
SHARES(cuMemPoolImportPointer, CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *)
SHARES(cuMulticastCreate, CUmemGenericAllocationHandle *, const CUmulticastObjectProp *)

/* A lack of memory is reported, and idle memory would not help. */
#define REPORTS(symbol, ...) PLAIN(GM_REPORTED, symbol, __VA_ARGS__)
REPORTS(cuEventRecord, CUevent, CUstream)
REPORTS(cuEventRecordWithFlags, CUevent, CUstream, unsigned)
REPORTS(cuEventRecordWithFlags_ptsz, CUevent, CUstream, unsigned)
REPORTS(cuEventRecord_ptsz, CUevent, CUstream)
REPORTS(cuGraphAddBatchMemOpNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
REPORTS(cuGraphAddChildGraphNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)
REPORTS(cuGraphAddEmptyNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t)
REPORTS(cuGraphAddEventRecordNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)
REPORTS(cuGraphAddEventWaitNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)
REPORTS(cuGraphAddExternalSemaphoresSignalNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1 *)
REPORTS(cuGraphAddExternalSemaphoresWaitNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	const CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1 *)
REPORTS(cuGraphAddHostNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	const CUDA_HOST_NODE_PARAMS_v1 *)
REPORTS(cuGraphAddKernelNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	const CUDA_KERNEL_NODE_PARAMS_v1 *)
REPORTS(cuGraphAddKernelNode_v2, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	const CUDA_KERNEL_NODE_PARAMS_v2 *)
REPORTS(cuGraphBatchMemOpNodeSetParams, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
REPORTS(cuGraphClone, CUgraph *, CUgraph)
REPORTS(cuGraphCreate, CUgraph *, unsigned)
REPORTS(cuGraphEventRecordNodeSetEvent, CUgraphNode, CUevent)
REPORTS(cuGraphEventWaitNodeSetEvent, CUgraphNode, CUevent)
REPORTS(cuGraphExternalSemaphoresSignalNodeSetParams, CUgraphNode,
	const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1 *)
REPORTS(cuGraphExternalSemaphoresWaitNodeSetParams, CUgraphNode,
	const CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1 *)
REPORTS(cuGraphKernelNodeSetParams, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)
REPORTS(cuGraphKernelNodeSetParams_v2, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v2 *)
REPORTS(cuKernelSetAttribute, CUfunction_attribute, int, CUkernel, CUdevice)
REPORTS(cuKernelSetCacheConfig, CUkernel, CUfunc_cache, CUdevice)
REPORTS(cuLibraryGetManaged, CUdeviceptr *, size_t *, CUlibrary, const char *)
REPORTS(cuLinkAddData, CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned,
	CUjit_option *, void **)
REPORTS(cuLinkAddData_v2, CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned,
	CUjit_option *, void **)
REPORTS(cuLinkAddFile, CUlinkState, CUjitInputType, const char *, unsigned, CUjit_option *, void **)
REPORTS(cuLinkAddFile_v2, CUlinkState, CUjitInputType, const char *, unsigned, CUjit_option *,
	void **)
REPORTS(cuLinkComplete, CUlinkState, void **, size_t *)
REPORTS(cuLinkCreate, unsigned, CUjit_option *, void **, CUlinkState *)
REPORTS(cuLinkCreate_v2, unsigned, CUjit_option *, void **, CUlinkState *)
REPORTS(cuMemAdvise, CUdeviceptr, size_t, CUmem_advise, CUdevice)
REPORTS(cuMemAdvise_v2, CUdeviceptr, size_t, CUmem_advise, CUmemLocation)
REPORTS(cuMemPoolSetAccess, CUmemoryPool, const CUmemAccessDesc *, size_t)
REPORTS(cuMemPrefetchAsync, CUdeviceptr, size_t, CUdevice, CUstream)
REPORTS(cuMemPrefetchAsync_ptsz, CUdeviceptr, size_t, CUdevice, CUstream)
REPORTS(cuMemPrefetchAsync_v2, CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream)
REPORTS(cuMemPrefetchAsync_v2_ptsz, CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream)
REPORTS(cuMulticastAddDevice, CUmemGenericAllocationHandle, CUdevice)
REPORTS(cuStreamWaitEvent, CUstream, CUevent, unsigned)
REPORTS(cuStreamWaitEvent_ptsz, CUstream, CUevent, unsigned)
REPORTS(cuSurfObjectCreate, CUsurfObject *, const CUDA_RESOURCE_DESC *)
REPORTS(cuUserObjectCreate, CUuserObject *, void *, CUhostFn, unsigned, unsigned)

/* Lacks addresses, which no device has. */
CUresult on_cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr at,
				unsigned long long flags)
{
	return GM_REPORTED_AT(cuMemAddressReserve, GM_LACK_HOST, size,
			      real.cuMemAddressReserve(out, size, alignment, at, flags));
}
