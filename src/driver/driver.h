/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only access to CUDA: a struct of the driver's entry points (calls.def). The real driver, the
 * simulated one (sim.h) and the accounting one (null.h) fill the same struct, so that all code
 * above runs on any of them.
 *
 * pre, for every call through these pointers, in addition to the CUDA manual:
 *  - cuInit has succeeded in this process, and the process was not forked since;
 *  - no lock is held, except GM_LOCK_RANK_CAPTURE around a call that cannot wait for the GPU;
 *  - the thread's capture mode is RELAXED (gm_driver_quiet_begin/end) around every call that the
 *    native call would not make; only src/copy uses a legacy stream, in place of a native call that
 *    uses it;
 *  - cuMemMap takes offset 0 and a whole handle, cuMemSetAccess a wholly mapped range; unmapping
 *    does not wait, so the caller has fenced;
 *  - cuCtxRecordEvent and cuCtxSynchronize invalidate every open stream capture of the context,
 *    whatever the mode (measured on driver 580): only context/fence.c calls them.
 */
#ifndef GM_DRIVER_DRIVER_H
#define GM_DRIVER_DRIVER_H

#include <stdbool.h>

/* cuda.h renames cuMemAlloc to cuMemAlloc_v2 and so on by macros; this code uses exported names. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

/* Types that older toolkits lack; only pointers to them are passed. */
#if CUDA_VERSION < 12020
typedef struct CUgraphNodeParams_st CUgraphNodeParams;
#endif
#if CUDA_VERSION < 12030
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
#endif
#if CUDA_VERSION < 12040
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResource_st CUdevResource;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef int CUdevResourceType;
#endif
#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
#endif
#if CUDA_VERSION < 12080
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP;
#endif
#if CUDA_VERSION < 13020
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
#endif
#if CUDA_VERSION < 13030
typedef cuuint32_t CUlogicalEndpointId;
typedef void (*CUgraphRecaptureCallback)(void); /* with other parameters; we never call it */
#endif

struct gm_driver {
#define GM_CALL(presence, since, symbol, proto) CUresult(CUDAAPI *symbol) proto;
#include "driver/calls.def"
#undef GM_CALL
	int version; /* cuDriverGetVersion: 12050 for CUDA 12.5; 0 until known */
};

/*
 * Fill *driver from `lookup(arg, symbol)`, which returns the entry point of an exported symbol or
 * NULL. Returns NULL, or the name of the first NEEDED call that is missing (*driver is then
 * unspecified). Makes no driver call; `version` is 0 until gm_driver_query_version.
 */
const char *gm_driver_load(struct gm_driver *driver, void *(*lookup)(void *arg, const char *symbol),
			   void *arg);

/* Set driver->version by cuDriverGetVersion, and OPTIONAL calls newer than it to NULL. */
CUresult gm_driver_query_version(struct gm_driver *driver);

/* The symbolic name of a result ("CUDA_ERROR_OUT_OF_MEMORY"); never NULL. */
const char *gm_driver_error(const struct gm_driver *driver, CUresult result);

/* Set the calling thread's stream capture mode to RELAXED, and restore it. Calls nest. In between,
 * the thread cannot be cancelled. */
CUstreamCaptureMode gm_driver_quiet_begin(const struct gm_driver *driver);
void gm_driver_quiet_end(const struct gm_driver *driver, CUstreamCaptureMode before);

#endif
