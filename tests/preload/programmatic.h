/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of kernels that may start before earlier work of their stream has ended. */
#ifndef GM_TESTS_PRELOAD_PROGRAMMATIC_H
#define GM_TESTS_PRELOAD_PROGRAMMATIC_H

#include "program.h"

static void launch_with(CUfunction function, CUstream stream, void **params,
			CUlaunchAttribute attribute)
{
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream,
				 .attrs = &attribute,
				 .numAttrs = 1};
	MUST(cuLaunchKernelEx(&config, function, params, NULL));
}

static inline void launch_ahead(CUfunction function, CUstream stream, void **params)
{
	launch_with(function, stream, params,
		    (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
					.value.programmaticStreamSerializationAllowed = 1});
}

#endif
