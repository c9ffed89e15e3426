/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that only wait or ask: the first place where a program, and so we, hear of a fault on the
 * device. What they answer is looked at and passed on.
 */
#include "handlers.h"

#define HEARS(symbol, parameters, arguments)             \
	CUresult on_##symbol parameters                  \
	{                                                \
		CUresult result = real.symbol arguments; \
		gm_fence_suspect(result);                \
		return result;                           \
	}

HEARS(cuCtxSynchronize, (void), ())
HEARS(cuCtxSynchronize_v2, (CUcontext context), (context))
HEARS(cuEventQuery, (CUevent event), (event))
HEARS(cuEventSynchronize, (CUevent event), (event))
HEARS(cuStreamQuery, (CUstream stream), (stream))
HEARS(cuStreamQuery_ptsz, (CUstream stream), (stream))
HEARS(cuStreamSynchronize, (CUstream stream), (stream))
HEARS(cuStreamSynchronize_ptsz, (CUstream stream), (stream))
