/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that only wait or query. They are the first to report a fault on the device, so their
 * results are read (gm_fence_suspect) and passed on. After a wait device heaps can be read. The
 * handlers need no guard: they call nothing of ours around the driver's call, unless it lacked
 * memory.
 */
#include "context/fence.h"
#include "shim/entry/hooks.h"
#include "shim/kernel/inkernel_log.h"
#include "shim/memory/retry.h"

#define HEARS(symbol, parameters, arguments)                                  \
	CUresult on_##symbol parameters                                       \
	{                                                                     \
		CUresult result = GM_REPORTED(symbol, real.symbol arguments); \
		gm_fence_suspect(result);                                     \
		return result;                                                \
	}
#define WAITED(symbol, parameters, arguments)                                 \
	CUresult on_##symbol parameters                                       \
	{                                                                     \
		CUresult result = GM_REPORTED(symbol, real.symbol arguments); \
		gm_fence_suspect(result);                                     \
		if (gm_inkernel_has_news())                                   \
			gm_inkernel_sample_now();                             \
		return result;                                                \
	}

WAITED(cuCtxSynchronize, (void), ())
WAITED(cuCtxSynchronize_v2, (CUcontext context), (context))
HEARS(cuEventQuery, (CUevent event), (event))
WAITED(cuEventSynchronize, (CUevent event), (event))
HEARS(cuStreamQuery, (CUstream stream), (stream))
HEARS(cuStreamQuery_ptsz, (CUstream stream), (stream))
WAITED(cuStreamSynchronize, (CUstream stream), (stream))
WAITED(cuStreamSynchronize_ptsz, (CUstream stream), (stream))
