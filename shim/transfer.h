/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all copies and memsets have in common. In a pool a copy that runs past its block would
 * silently hit the neighbour, so each is checked against requested sizes, as the driver does
 * natively; memory of two devices is made reachable; calls, bytes and time are counted.
 */
#ifndef GM_SHIM_TRANSFER_H
#define GM_SHIM_TRANSFER_H

#include "handlers.h"

struct gm_transfer {
	enum gm_hook_id hook;
	unsigned flags;		   /* enum gm_record_flag */
	CUdeviceptr dst, src;	   /* first byte touched, on whatever side; 0: none, or an array */
	size_t dst_span, src_span; /* from there to one past the last; SIZE_MAX: overflow */
	size_t bytes;
	CUstream stream;	  /* of an asynchronous one */
	bool own;		  /* the default stream is the thread's own: _ptds, _ptsz */
	bool placed;		  /* the call itself names the contexts of both sides */
	const CUDA_MEMCPY3D *box; /* not linear: the copy as it stands */

	/* gm_transfer_begin */
	uint64_t start;
	struct gm_pool *dst_pool, *src_pool;
	struct gm_block dst_block, src_block;
	bool by_peer; /* two devices that cannot reach each other */
	bool opened;  /* gm_transfer_again has had its try */
};

/* copy2d.c: what a copy of a box touches and moves; it keeps `box`. */
struct gm_transfer gm_transfer_of_box(const CUDA_MEMCPY3D *box);
/* SIZE_MAX when it overflows. */
size_t gm_transfer_product(size_t a, size_t b);

/* CUDA_ERROR_INVALID_VALUE when the driver must not see the call. */
CUresult gm_transfer_begin(struct gm_transfer *t);

/* In place of the driver's call when t->by_peer. */
CUresult gm_transfer_by_peer(const struct gm_transfer *t);

/* True if a call that failed with `result` is to be made once more, memory having been made
 * reachable meanwhile. */
bool gm_transfer_again(struct gm_transfer *t, CUresult result);

/* Count and record; returns what the program gets. */
CUresult gm_transfer_end(const struct gm_transfer *t, CUresult result);

/* Check, `call` or what stands for it, count: its value is what the program gets. */
#define GM_TRANSFER_RUN(t, call)                                                                 \
	({                                                                                       \
		CUresult result_ = gm_transfer_begin(t);                                         \
		if (result_ == CUDA_SUCCESS)                                                     \
			do                                                                       \
				result_ = (t)->by_peer ? gm_transfer_by_peer(t) : GM_PASS(call); \
			while (GM_UNLIKELY(result_ != CUDA_SUCCESS) &&                           \
			       gm_transfer_again(t, result_));                                   \
		gm_transfer_end(t, result_);                                                     \
	})

/* A handler; what follows the arguments initialises struct gm_transfer. */
#define GM_TRANSFER(symbol, parameters, arguments, ...)                         \
	CUresult on_##symbol parameters                                         \
	{                                                                       \
		if (!gm_shim_enter())                                           \
			return real.symbol arguments;                           \
		struct gm_transfer t = {.hook = GM_HOOK_##symbol, __VA_ARGS__}; \
		CUresult result = GM_TRANSFER_RUN(&t, real.symbol arguments);   \
		gm_shim_leave();                                                \
		return result;                                                  \
	}

/* A synchronous one with its _ptds twin, an asynchronous one (parameter `stream`) with its _ptsz
 * twin. */
#define GM_TRANSFERS(symbol, parameters, arguments, ...)                      \
	GM_TRANSFER(symbol, parameters, arguments, .own = false, __VA_ARGS__) \
	GM_TRANSFER(symbol##_ptds, parameters, arguments, .own = true, __VA_ARGS__)
#define GM_TRANSFERS_ASYNC(symbol, parameters, arguments, ...)                                  \
	GM_TRANSFER(symbol, parameters, arguments, .own = false, .stream = stream, __VA_ARGS__) \
	GM_TRANSFER(symbol##_ptsz, parameters, arguments, .own = true, .stream = stream,        \
		    __VA_ARGS__)

#endif
