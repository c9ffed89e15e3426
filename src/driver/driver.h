/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one door to CUDA: a struct of the driver's entry points (calls.def). The real driver, the
 * simulated one (sim.h) and the accountant (null.h) fill the same struct, so that everything above
 * runs on any of them.
 *
 * Preconditions that hold for every caller of these pointers, on top of the CUDA manual:
 *  - cuInit has succeeded in this process, and the process was not forked since;
 *  - no lock of ours is held, except GM_RANK_CAPTURE around a call that cannot wait for the GPU;
 *  - the thread's capture mode is exchanged to RELAXED around whatever is not part of answering
 *    like the native call (gm_driver_quiet_begin/end), and no legacy stream is used;
 *  - cuMemMap takes offset 0 and a whole handle; cuMemSetAccess a wholly mapped range; unmapping
 *    waits for nothing, so the caller has fenced;
 *  - cuCtxRecordEvent and cuCtxSynchronize invalidate every open stream capture of the context,
 *    whatever the mode (measured on driver 580): only pool/fence.c calls them.
 */
#ifndef GM_DRIVER_DRIVER_H
#define GM_DRIVER_DRIVER_H

#include <stdbool.h>

/* cuda.h renames cuMemAlloc to cuMemAlloc_v2 and so on by macros; we name exported symbols. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

/* Types that older toolkits lack; only pointers to them are passed. */
#if CUDA_VERSION < 12040
typedef struct CUgreenCtx_st *CUgreenCtx;
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
 * unspecified). Makes no driver call; `version` stays 0 until gm_driver_ask_version.
 */
const char *gm_driver_load(struct gm_driver *driver, void *(*lookup)(void *arg, const char *symbol),
			   void *arg);

/* cuDriverGetVersion into driver->version; OPTIONAL calls that are newer become NULL. */
CUresult gm_driver_ask_version(struct gm_driver *driver);

/* The symbolic name of a result ("CUDA_ERROR_OUT_OF_MEMORY"); never NULL. */
const char *gm_driver_error(const struct gm_driver *driver, CUresult result);

/* Exchange the calling thread's stream capture mode to RELAXED and back; they nest. */
CUstreamCaptureMode gm_driver_quiet_begin(const struct gm_driver *driver);
void gm_driver_quiet_end(const struct gm_driver *driver, CUstreamCaptureMode before);

#endif
