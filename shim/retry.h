/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the program that take device memory. None may fail because of the pools' idle memory:
 * that memory is returned to the driver, and the call is retried.
 */
#ifndef GM_SHIM_RETRY_H
#define GM_SHIM_RETRY_H

#include "shim/call.h"

/* True: a call that failed with `result` is worth a retry: it lacked device memory, and the pools
 * had some to return to the driver. Inside of gm_shim_enter; may wait for the GPU. */
bool gm_retry(CUresult result);

/* GM_PASS, with that retry. */
#define GM_PASS_RETRY(call)                                \
	({                                                 \
		CUresult tried_ = GM_PASS(call);           \
		gm_retry(tried_) ? GM_PASS(call) : tried_; \
	})

/* The same outside of gm_shim_enter: the guard is put up only if the first try fails. */
#define GM_RETRY_UNGUARDED(call)                                                          \
	({                                                                                \
		CUresult tried_ = (call);                                                 \
		if (GM_UNLIKELY(tried_ == CUDA_ERROR_OUT_OF_MEMORY) && gm_shim_enter()) { \
			if (gm_retry(tried_))                                             \
				tried_ = GM_PASS(call);                                   \
			gm_shim_leave();                                                  \
		}                                                                         \
		tried_;                                                                   \
	})

/* A handler of a call that takes memory; `after` is evaluated on success. */
#define GM_TAKES(symbol, parameters, arguments, after)                             \
	GM_HANDLER(symbol, parameters, arguments, ({                               \
			   CUresult taken_ = GM_PASS_RETRY(real.symbol arguments); \
			   if (taken_ == CUDA_SUCCESS)                             \
				   after;                                          \
			   taken_;                                                 \
		   }))

#endif
