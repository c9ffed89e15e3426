/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of all copies and memsets. Each is checked against the requested sizes of its
 * blocks, as by the driver natively: past its block a copy would silently write to the next one.
 * Then memory of two devices is made reachable, and calls, bytes and time are counted. Any thread,
 * inside of gm_shim_enter, no lock held.
 */
#ifndef GM_SHIM_COPY_TRANSFER_H
#define GM_SHIM_COPY_TRANSFER_H

#include "pool/pool.h"
#include "shim/call.h"
#include "shim/context/submit.h"
#include "shim/copy/stage.h"

struct gm_transfer {
	enum gm_hook_id hook;
	unsigned flags;		   /* enum gm_record_flag */
	CUdeviceptr dst, src;	   /* first byte touched, of host or device; 0: none, or an array */
	size_t dst_span, src_span; /* from there to one past the last; SIZE_MAX: overflow */
	size_t bytes;
	CUstream stream;	  /* of an asynchronous transfer */
	bool own;		  /* _ptds, _ptsz: the default stream is the thread's own */
	bool placed;		  /* the call names the contexts of both sides */
	bool attributed;	  /* the call has attributes */
	bool batched;		  /* of a batch, whose call is timed */
	bool come;		  /* of a batch: see gm_stage_has_come */
	const CUDA_MEMCPY3D *box; /* NULL: a linear copy */

	/* set by gm_transfer_begin */
	struct gm_timing timing;
	struct gm_pool *dst_pool, *src_pool;
	struct gm_block dst_block, src_block;
	bool by_peer; /* between two devices that cannot reach each other */
	bool opened;  /* gm_transfer_again has run, which it does once */
	bool staged;  /* done by gm_stage_copy */
};

/* CUDA_ERROR_INVALID_VALUE: the driver must not see the call. */
CUresult gm_transfer_begin(struct gm_transfer *t);

/* The program's result in that case. The driver checks the context first; a named stream has its
 * own context. Nodes of graphs do not need this. */
CUresult gm_transfer_refused(const struct gm_transfer *t);

/* The driver's call in place of the program's, if t->by_peer. */
CUresult gm_transfer_by_peer(const struct gm_transfer *t);

/* True: retry the call, which failed with `result`: memory has become reachable. */
bool gm_transfer_again(struct gm_transfer *t, CUresult result);

/* Count and record; returns the program's result. */
CUresult gm_transfer_end(const struct gm_transfer *t, CUresult result);

/* Before and after the driver's call: report its streams to the order of streams. */
void gm_transfer_submit(const struct gm_transfer *t);
static inline void gm_transfer_submitted(bool ordered)
{
	if (ordered)
		gm_submit_end();
}

/* Check, make `call` or its substitute, and count; the value is the program's result. */
#define GM_TRANSFER_RUN(t, call)                                                          \
	({                                                                                \
		CUresult moved_ = gm_transfer_begin(t);                                   \
		bool ordered_ = moved_ == CUDA_SUCCESS && gm_order_is_on();               \
		if (ordered_)                                                             \
			gm_transfer_submit(t);                                            \
		if (moved_ == CUDA_SUCCESS)                                               \
			do                                                                \
				moved_ = (t)->by_peer ? gm_transfer_by_peer(t)            \
					 : gm_stage_wants((t)->bytes) && gm_stage_copy(t) \
						 ? CUDA_SUCCESS                           \
						 : GM_PASS(call);                         \
			while (GM_UNLIKELY(moved_ != CUDA_SUCCESS) &&                     \
			       gm_transfer_again(t, moved_));                             \
		else                                                                      \
			moved_ = gm_transfer_refused(t);                                  \
		gm_transfer_submitted(ordered_);                                          \
		gm_transfer_end(t, moved_);                                               \
	})

/* A handler; the rest of the macro's arguments initialises struct gm_transfer. */
#define GM_TRANSFER(symbol, parameters, arguments, ...)                                     \
	GM_HANDLER(symbol, parameters, arguments, ({                                        \
			   struct gm_transfer t_ = {.hook = GM_HOOK_##symbol, __VA_ARGS__}; \
			   GM_TRANSFER_RUN(&t_, real.symbol arguments);                     \
		   }))

/* A synchronous transfer with its _ptds twin, and an asynchronous one (parameter `stream`) with its
 * _ptsz twin. */
#define GM_TRANSFERS(symbol, parameters, arguments, ...)                      \
	GM_TRANSFER(symbol, parameters, arguments, .own = false, __VA_ARGS__) \
	GM_TRANSFER(symbol##_ptds, parameters, arguments, .own = true, __VA_ARGS__)
#define GM_TRANSFERS_ASYNC(symbol, parameters, arguments, ...)                                  \
	GM_TRANSFER(symbol, parameters, arguments, .own = false, .stream = stream, __VA_ARGS__) \
	GM_TRANSFER(symbol##_ptsz, parameters, arguments, .own = true, .stream = stream,        \
		    __VA_ARGS__)

#endif
