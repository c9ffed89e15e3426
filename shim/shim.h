/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the shim share. Names: on_cuX is what a caller of cuX reaches, real.cuX the
 * driver's own function of exactly that symbol.
 *
 * Life of the shim: SLEEPING until the program's cuInit has succeeded (handlers only forward: no
 * thread, file, output, allocation or driver call of ours), then ACTIVE, or OFF (GPUMEM_ENABLE=0,
 * GPUMEM_PROGRAM, a knob with GPUMEM_ON_ERROR=off, no virtual memory management: handlers only
 * forward). A forked child is SLEEPING until it calls cuInit itself.
 */
#ifndef GM_SHIM_SHIM_H
#define GM_SHIM_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/debug.h"
#include "driver/driver.h"
/* after driver.h: the types of each ABI version */
#include <cudaTypedefs.h>

/* What early toolkits of CUDA 12 lack; only pointers to these are passed on. */
#if CUDA_VERSION < 12020
typedef struct CUgraphNodeParams_st CUgraphNodeParams;
typedef CUresult(CUDAAPI *PFN_cuGraphAddNode_v12020)(CUgraphNode *, CUgraph, const CUgraphNode *,
						     size_t, CUgraphNodeParams *);
#endif
#if CUDA_VERSION < 12030
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
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
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef CUresult(CUDAAPI *PFN_cuCtxCreate_v12050)(CUcontext *, CUctxCreateParams *, unsigned int,
						  CUdevice);
#endif

#if CUDA_VERSION < 12040
typedef CUresult(CUDAAPI *PFN_cuLibraryEnumerateKernels_v12040)(CUkernel *, unsigned int,
								CUlibrary);
typedef CUresult(CUDAAPI *PFN_cuModuleEnumerateFunctions_v12040)(CUfunction *, unsigned int,
								 CUmodule);
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef CUresult(CUDAAPI *PFN_cuGreenCtxCreate_v12040)(CUgreenCtx *, CUdevResourceDesc, CUdevice,
						       unsigned int);
typedef CUresult(CUDAAPI *PFN_cuGreenCtxDestroy_v12040)(CUgreenCtx);
#endif
#if CUDA_VERSION < 12080
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP;
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

/*
 * The driver's originals of every hooked symbol, never NULL: an entry answers CUDA_ERROR_NO_DEVICE
 * until the driver was found, and then CUDA_ERROR_NOT_FOUND if that driver does not have it. Filled
 * once by resolve.c before any pointer of ours is handed out; never changes.
 */
struct gm_real {
#define GM_HOOK(symbol, type, flags, help) type symbol;
#include "driver/hooks.def"
#undef GM_HOOK
};
extern struct gm_real real;

enum gm_hook_id {
	GM_HOOK_NONE, /* record.hook counts from 1 */
#define GM_HOOK(symbol, type, flags, help) GM_HOOK_##symbol,
#include "driver/hooks.def"
#undef GM_HOOK
	GM_HOOK_END
};

enum gm_hook_flag { RETRY = 1, WAITS = 2 };

struct gm_hook {
	const char *symbol, *help;
	unsigned flags;
	void *handler;	 /* what the program gets: the exported entry, which jumps to on_<symbol> */
	void **original; /* &real.<symbol> */
};
extern const struct gm_hook gm_hooks[GM_HOOK_END]; /* row 0 is empty */

/* Every on_<symbol>, with the very type that cudaTypedefs.h gives: the compiler compares. */
#define GM_HOOK(symbol, type, flags, help) extern __typeof__(*(type)NULL) on_##symbol;
#include "driver/hooks.def"
#undef GM_HOOK

/* resolve.c: the driver's libcuda is found by what the program itself opened. Fills `real` on first
 * need; false while no driver is mapped. Makes no CUDA call. */
bool gm_resolve_ready(void);

/* False in a set-user-id program and with GPUMEM_ENABLE=0: everything is left as it is. */
bool gm_resolve_on(void);

/* The driver's own entry of any symbol, or NULL: the lookup for gm_driver_load. */
void *gm_resolve_symbol(void *unused, const char *symbol);

/* Say, at GM_MSG_DEBUG, which of the driver's calls were handed out without a hook; once each. */
void gm_resolve_report(void);

enum gm_shim_state { GM_SHIM_SLEEPING, GM_SHIM_ACTIVE, GM_SHIM_OFF };
extern _Atomic(enum gm_shim_state) gm_shim_state;
extern GM_TLS unsigned
	gm_shim_inside; /* > 0: this thread is in a call of ours, so hooks only forward */
extern struct gm_driver gm_shim_driver; /* valid from ACTIVE on */

/* First line of every handler: if (!gm_shim_enter()) return real.cuX(...); ... gm_shim_leave() on
 * the way out. */
static inline bool gm_shim_enter(void)
{
	if (GM_LIKELY(atomic_load_explicit(&gm_shim_state, memory_order_acquire) ==
			      GM_SHIM_ACTIVE &&
		      gm_shim_inside == 0)) {
		gm_shim_inside = 1;
		return true;
	}
	return false;
}
void gm_shim_leave(void); /* gm_log_poll and samples, then gm_shim_inside = 0 */

#endif
