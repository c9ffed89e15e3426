/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that only wait or ask: the first place where a program, and so we, hear of a fault on the
 * device. What they answer is looked at and passed on. Once work was waited for, device heaps can
 * be read.
 */
#include "handlers.h"
#include "inkernel.h"

#define HEARS(symbol, parameters, arguments)             \
	CUresult on_##symbol parameters                  \
	{                                                \
		CUresult result = real.symbol arguments; \
		gm_fence_suspect(result);                \
		return result;                           \
	}
#define WAITED(symbol, parameters, arguments)            \
	CUresult on_##symbol parameters                  \
	{                                                \
		CUresult result = real.symbol arguments; \
		gm_fence_suspect(result);                \
		if (gm_inkernel_has_news())              \
			gm_inkernel_look_now();          \
		return result;                           \
	}

WAITED(cuCtxSynchronize, (void), ())
WAITED(cuCtxSynchronize_v2, (CUcontext context), (context))
HEARS(cuEventQuery, (CUevent event), (event))
WAITED(cuEventSynchronize, (CUevent event), (event))
HEARS(cuStreamQuery, (CUstream stream), (stream))
HEARS(cuStreamQuery_ptsz, (CUstream stream), (stream))
WAITED(cuStreamSynchronize, (CUstream stream), (stream))
WAITED(cuStreamSynchronize_ptsz, (CUstream stream), (stream))
