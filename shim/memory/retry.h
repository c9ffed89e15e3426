/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the program that take device memory. None may fail because of the pools' idle memory:
 * that memory is returned to the driver, and the call is retried.
 */
#ifndef GM_SHIM_MEMORY_RETRY_H
#define GM_SHIM_MEMORY_RETRY_H

#include "shim/call.h"
#include "shim/memory/lack.h"
#include "shim/memory/limit.h"

/*
 * True: a call that failed with `result` is worth a retry: it lacked memory at `where` (an ordinal,
 * or a GM_LACK_*), and the pools of this process had some to return to the driver, or, if they had
 * none, those of other processes on that device, which are not asked for memory of the host; or
 * another process has fallen asleep (shim/sleep/turns.h). `bytes`: asked for; 0: unknown. *since: 0
 * at first; time of the first such wait. Inside of gm_shim_enter; may wait for the GPU, and for
 * other processes (shim/idle/demand.h).
 */
bool gm_retry(CUresult result, int where, uint64_t bytes, uint64_t *since);

/* At most: for memory of this process, then for that of others, then for those that sleep. */
#define GM_RETRIES 18

/* GM_PASS, with such retries. `where` is evaluated only after a lack of memory. */
#define GM_PASS_AGAIN(where, bytes, call)                                                      \
	({                                                                                     \
		CUresult tried_ = GM_PASS(call);                                               \
		uint64_t since_ = 0;                                                           \
		for (unsigned tries_ = 0;                                                      \
		     GM_UNLIKELY(tried_ == CUDA_ERROR_OUT_OF_MEMORY) && tries_ < GM_RETRIES && \
		     gm_retry(tried_, where, bytes, &since_);                                  \
		     tries_++)                                                                 \
			tried_ = GM_PASS(call);                                                \
		tried_;                                                                        \
	})

/* The same; a lack of memory is reported (shim/memory/lack.h). `bytes` is evaluated then only. In
 * the handler of `symbol`. */
#define GM_PASS_RETRY(symbol, where, bytes, call)                   \
	({                                                          \
		CUresult last_ = GM_PASS_AGAIN(where, bytes, call); \
		if (GM_UNLIKELY(last_ == CUDA_ERROR_OUT_OF_MEMORY)) \
			gm_lack(GM_HOOK_##symbol, where, bytes);    \
		last_;                                              \
	})

/* The same outside of gm_shim_enter: the guard is put up only if the first try fails. */
#define GM_RETRY_UNGUARDED(symbol, call)                                                        \
	({                                                                                      \
		CUresult tried_ = (call);                                                       \
		if (GM_UNLIKELY(tried_ == CUDA_ERROR_OUT_OF_MEMORY) && gm_shim_enter()) {       \
			uint64_t since_ = 0;                                                    \
			for (unsigned tries_ = 0;                                               \
			     tries_ < GM_RETRIES && gm_retry(tried_, GM_LACK_HERE, 0, &since_); \
			     tries_++)                                                          \
				tried_ = GM_PASS(call);                                         \
			if (tried_ == CUDA_ERROR_OUT_OF_MEMORY)                                 \
				gm_lack(GM_HOOK_##symbol, GM_LACK_HERE, 0);                     \
			gm_shim_leave();                                                        \
		}                                                                               \
		tried_;                                                                         \
	})

/* Outside of gm_shim_enter: a lack of memory of a call that is not retried is reported. */
#define GM_REPORTED_AT(symbol, where, bytes, call)                                        \
	({                                                                                \
		CUresult tried_ = (call);                                                 \
		if (GM_UNLIKELY(tried_ == CUDA_ERROR_OUT_OF_MEMORY) && gm_shim_enter()) { \
			gm_lack(GM_HOOK_##symbol, where, bytes);                          \
			gm_shim_leave();                                                  \
		}                                                                         \
		tried_;                                                                   \
	})
#define GM_REPORTED(symbol, call) GM_REPORTED_AT(symbol, GM_LACK_HERE, 0, call)

/* A handler of a call that takes memory; `after` is evaluated on success. */
#define GM_TAKES(symbol, where, bytes, parameters, arguments, after)                           \
	GM_HANDLER(symbol, parameters, arguments, ({                                           \
			   CUresult taken_ =                                                   \
				   GM_PASS_RETRY(symbol, where, bytes, real.symbol arguments); \
			   if (taken_ == CUDA_SUCCESS)                                         \
				   after;                                                      \
			   taken_;                                                             \
		   }))

/* The same within GPUMEM_LIMIT (limit.h). `begin`: gm_limit_begin of the call, evaluated only with
 * a limit. */
#define GM_TAKES_WITHIN(symbol, where, bytes, begin, parameters, arguments, after) \
	GM_HANDLER(symbol, parameters, arguments, ({                               \
			   CUresult taken_ = CUDA_ERROR_OUT_OF_MEMORY;             \
			   if (!gm_limit_is_set() || (begin))                      \
				   taken_ = GM_PASS_RETRY(symbol, where, bytes,    \
							  real.symbol arguments);  \
			   else                                                    \
				   gm_lack(GM_HOOK_##symbol, where, bytes);        \
			   if (taken_ == CUDA_SUCCESS)                             \
				   after;                                          \
			   gm_limit_end();                                         \
			   taken_;                                                 \
		   }))

#endif
