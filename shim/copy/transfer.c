/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/copy/transfer.h"

#include "base/size.h"
#include "base/tick.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/block/memops.h"
#include "shim/context/capture.h"
#include "shim/context/peer.h"
#include "shim/memory/device.h"

#define KIND_FROM GM_MIB /* the memory of each copy from so many bytes on is queried */
#define KIND_FIRST 17	 /* of the first smaller copies of a thread one in so many, */
#define KIND_FEW 16	 /* until so many were queried; */
#define KIND_SAMPLE 251	 /* of later ones one in so many; both are primes, see GM_PACE */
#define SMALL (64 * GM_KIB)

#define SLOW 100000u /* ns: a timed call that took longer counts for itself alone */

/* Of small copies that do not wait, one in GM_PACE is timed: the times of all would take longer
 * than everything else here. A copy to the host may wait. */
static bool transfer_is_paced(const struct gm_transfer *t)
{
	return (t->flags & (GM_RECORD_ASYNC | GM_RECORD_D2H)) == GM_RECORD_ASYNC &&
	       t->bytes < SMALL && !t->batched;
}

/* Is a side within the requested size of one live block, or in no pool? */
static bool side_in_bounds(CUdeviceptr at, size_t span, struct gm_pool **pool, struct gm_block *b)
{
	if (!at || !span)
		return true;
	*pool = gm_shim_find(at, b);
	if (!*pool)
		return true;
	return b->live && at - b->base < b->size && span <= b->size - (at - b->base);
}

CUresult gm_transfer_begin(struct gm_transfer *t)
{
	t->timing = transfer_is_paced(t) ? gm_shim_call() : gm_timing_since(gm_tick());
	if (!side_in_bounds(t->dst, t->dst_span, &t->dst_pool, &t->dst_block) ||
	    !side_in_bounds(t->src, t->src_span, &t->src_pool, &t->src_block)) {
		gm_counter_add(0, GM_C_bounds_refused, 1);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!t->dst_pool || !t->src_pool)
		return CUDA_SUCCESS;
	if (t->dst_pool == t->src_pool) {
		t->flags = (t->flags & ~(unsigned)GM_RECORD_PEER) | GM_RECORD_D2D;
		return CUDA_SUCCESS;
	}
	t->flags = (t->flags & ~(unsigned)GM_RECORD_D2D) | GM_RECORD_PEER;
	unsigned dst = t->dst_block.ordinal, src = t->src_block.ordinal;
	if (!t->placed)
		t->by_peer = !gm_peer_reach(dst, src) || !gm_peer_reach(src, dst);
	return CUDA_SUCCESS;
}

/* A synchronous copy between two contexts may use the streams of either. */
void gm_transfer_submit(const struct gm_transfer *t)
{
	if ((t->placed || t->by_peer) && !(t->flags & GM_RECORD_ASYNC))
		gm_submit_begin_anywhere();
	else
		gm_submit_begin(t->own && !t->stream ? CU_STREAM_PER_THREAD : t->stream, false);
}

/* A capture does not check the target of a fill. But when the graph runs, a freed block may be
 * another one. So the result is the native one, and the fill is not in the graph. */
static bool transfer_is_dropped(const struct gm_transfer *t)
{
	const unsigned fill = GM_RECORD_MEMSET | GM_RECORD_ASYNC;
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	if ((t->flags & fill) != fill || !t->dst_pool || t->dst_block.live || !gm_capture_any())
		return false;
	CUstream stream = t->own && !t->stream ? CU_STREAM_PER_THREAD : t->stream;
	return gm_shim_driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult gm_transfer_refused(const struct gm_transfer *t)
{
	CUresult state = gm_shim_context_state();
	if (transfer_is_dropped(t))
		return CUDA_SUCCESS;
	bool named =
		t->stream && t->stream != CU_STREAM_LEGACY && t->stream != CU_STREAM_PER_THREAD;
	if (state == CUDA_SUCCESS || (state == CUDA_ERROR_INVALID_CONTEXT && named))
		return CUDA_ERROR_INVALID_VALUE;
	return state;
}

static CUcontext side_owner(struct gm_pool *pool, const struct gm_block *b, CUdeviceptr at)
{
	CUcontext handle = NULL;
	if (pool) {
		struct gm_context *owner = gm_context_find(b->context);
		return owner ? owner->handle : NULL;
	}
	gm_shim_driver.cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_CONTEXT, at);
	return handle;
}

static CUDA_MEMCPY3D_PEER box_with_contexts(const CUDA_MEMCPY3D *c, CUcontext dst, CUcontext src)
{
	return (CUDA_MEMCPY3D_PEER){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcZ = c->srcZ,
		.srcLOD = c->srcLOD,
		.srcMemoryType = c->srcMemoryType,
		.srcDevice = c->srcDevice,
		.srcContext = src,
		.srcPitch = c->srcPitch,
		.srcHeight = c->srcHeight,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstZ = c->dstZ,
		.dstLOD = c->dstLOD,
		.dstMemoryType = c->dstMemoryType,
		.dstDevice = c->dstDevice,
		.dstContext = dst,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstHeight,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = c->Depth,
	};
}

CUresult gm_transfer_by_peer(const struct gm_transfer *t)
{
	CUcontext dst = side_owner(t->dst_pool, &t->dst_block, t->dst);
	CUcontext src = side_owner(t->src_pool, &t->src_block, t->src);
	CUstream stream = t->own && !t->stream ? CU_STREAM_PER_THREAD : t->stream;
	if (t->box) {
		CUDA_MEMCPY3D_PEER box = box_with_contexts(t->box, dst, src);
		if (t->flags & GM_RECORD_ASYNC)
			return real.cuMemcpy3DPeerAsync(&box, stream);
		return t->own ? real.cuMemcpy3DPeer_ptds(&box) : real.cuMemcpy3DPeer(&box);
	}
	if (t->flags & GM_RECORD_ASYNC)
		return real.cuMemcpyPeerAsync(t->dst, dst, t->src, src, t->bytes, stream);
	return t->own ? real.cuMemcpyPeer_ptds(t->dst, dst, t->src, src, t->bytes)
		      : real.cuMemcpyPeer(t->dst, dst, t->src, src, t->bytes);
}

/* The device of memory outside the pools, or -1. */
static int address_device(CUdeviceptr at)
{
	int ordinal = -1;
	if (!at || gm_shim_driver.cuPointerGetAttribute(
			   &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) != CUDA_SUCCESS)
		return -1;
	return ordinal;
}

/*
 * One side is in a pool, and the current context or the other side belongs to another device:
 * natively that works. The check follows the failure, because a check before would cost every
 * copy.
 */
bool gm_transfer_again(struct gm_transfer *t, CUresult result)
{
	CUresult ignored;
	bool ours = t->dst_pool || t->src_pool;
	if (result != CUDA_ERROR_INVALID_VALUE || !ours || gm_shim_n_devices < 2 || t->by_peer ||
	    t->placed || t->opened)
		return false;
	t->opened = true;
	struct gm_context *current = gm_context_current(&gm_shim_driver, &ignored);
	unsigned owner = t->dst_pool ? t->dst_block.ordinal : t->src_block.ordinal;
	int other = t->dst_pool && t->src_pool ? (int)t->src_block.ordinal
					       : address_device(t->dst_pool ? t->src : t->dst);
	bool foreign = other >= 0 && (unsigned)other != owner;
	bool elsewhere = current && current->ordinal != owner;
	if (foreign && !gm_peer_reach(owner, (unsigned)other))
		t->by_peer = true;
	if (elsewhere)
		gm_peer_reach(owner, current->ordinal);
	return foreign || elsewhere;
}

/* Add to the counters of a kind of copy: calls, bytes, time. Inlined, so that the place of each
 * counter is a constant. `parts` is the thread's (log/count.h). */
static inline __attribute__((always_inline)) void
kind_count(_Atomic uint64_t *parts, enum gm_counter calls, uint64_t n, uint64_t bytes, uint64_t ns)
{
	gm_count_in(parts, 0, calls, n);
	gm_count_in(parts, 0, calls + 1, n * bytes);
	gm_count_in(parts, 0, calls + 2, n * ns);
}

static void calls_count(_Atomic uint64_t *parts, const struct gm_transfer *t, uint64_t ns)
{
	if (t->flags & GM_RECORD_MEMSET)
		kind_count(parts, GM_C_memset_calls, 1, t->bytes, ns);
	else if (t->flags & GM_RECORD_PEER)
		kind_count(parts, GM_C_copy_peer_calls, 1, t->bytes, ns);
	else if (t->flags & GM_RECORD_H2D)
		kind_count(parts, GM_C_copy_h2d_calls, 1, t->bytes, ns);
	else if (t->flags & GM_RECORD_D2H)
		kind_count(parts, GM_C_copy_d2h_calls, 1, t->bytes, ns);
	else if (t->flags & GM_RECORD_D2D)
		kind_count(parts, GM_C_copy_d2d_calls, 1, t->bytes, ns);
	else
		kind_count(parts, GM_C_copy_other_calls, 1, t->bytes, ns);
}

/* The driver is queried for the kind of host memory, which takes a microsecond. A copy that is
 * queried counts for those since the one before. */
static void transfer_count_kind(_Atomic uint64_t *parts, const struct gm_transfer *t, uint64_t ns)
{
	static GM_TLS struct {
		unsigned since, queried;
	} small[2];
	bool to_device = t->flags & GM_RECORD_H2D;
	if (t->staged) {
		kind_count(parts,
			   to_device ? GM_C_copy_h2d_staged_calls : GM_C_copy_d2h_staged_calls, 1,
			   t->bytes, ns);
		return;
	}
	bool each = t->bytes >= KIND_FROM;
	unsigned counts = 1;
	if (!each) {
		unsigned *since = &small[to_device].since, *queried = &small[to_device].queried;
		*since += t->timing.calls; /* 0: not timed */
		if (!t->timing.calls || *since < (*queried < KIND_FEW ? KIND_FIRST : KIND_SAMPLE))
			return;
		counts = *since;
		*since = 0;
		*queried += *queried < KIND_FEW;
	}
	if (gm_stage_is_pageable(to_device ? t->src : t->dst))
		kind_count(parts,
			   to_device ? GM_C_copy_h2d_pageable_calls : GM_C_copy_d2h_pageable_calls,
			   counts, t->bytes, ns);
}

/* `ns`: time of the call; 0: it is not timed. */
static void transfer_count(const struct gm_transfer *t, uint64_t ns)
{
	_Atomic uint64_t *parts = gm_count_parts(gm_count_row(0, GM_C_copy_h2d_calls));
	calls_count(parts, t, ns < SLOW ? ns * t->timing.calls : ns);
	if (t->flags & GM_RECORD_MEMSET)
		return;
	if (t->bytes < SMALL)
		gm_count_in(parts, 0, GM_C_copy_small_calls, 1);
	if (!(t->flags & GM_RECORD_ASYNC) || t->staged)
		gm_count_in(parts, 0, GM_C_copy_wait_ns, ns);
	if (t->flags & (GM_RECORD_H2D | GM_RECORD_D2H))
		transfer_count_kind(parts, t, ns);
}

static void transfer_record(const struct gm_transfer *t, uint64_t end, uint64_t ns)
{
	struct gm_record r =
		gm_shim_record(GM_RECORD_COPY, t->hook, NULL, gm_shim_time(end), ns, CUDA_SUCCESS);
	const struct gm_block *b = t->dst_pool ? &t->dst_block : &t->src_block;
	if (t->dst_pool || t->src_pool) {
		r.context = (uint32_t)b->context;
		r.device = (uint8_t)b->ordinal;
	}
	r.address = t->dst;
	r.size = t->bytes;
	r.held = t->src;
	r.flags = (uint16_t)t->flags;
	gm_log_put(&r);
}

/*
 * The driver returns from a synchronous copy of pageable memory before the last DMA has ended.
 * Beside staged copies that takes longer than natively, because DMA shares the link. A program that
 * next reads the memory in a non-blocking stream relies on the native time, so such copies wait.
 */
static bool transfer_is_outrun(const struct gm_transfer *t)
{
	return t->dst_pool && !t->src_pool && !t->staged && t->bytes > SMALL &&
	       !(t->flags & (GM_RECORD_MEMSET | GM_RECORD_ASYNC)) && gm_stage_is_used() &&
	       !gm_capture_any();
}

/* A synchronous transfer of memory with SYNC_MEMOPS must be complete on return. */
static CUresult transfer_wait(const struct gm_transfer *t)
{
	if (GM_UNLIKELY(transfer_is_outrun(t)))
		return gm_shim_driver.cuStreamSynchronize(t->own ? CU_STREAM_PER_THREAD : NULL);
	if (t->flags & GM_RECORD_ASYNC)
		return CUDA_SUCCESS;
	if (!(t->dst_pool && gm_memops_get(t->dst_block.id)) &&
	    !(t->src_pool && gm_memops_get(t->src_block.id))) {
		if (!(t->flags & (GM_RECORD_H2D | GM_RECORD_D2H))) /* these have waited */
			gm_memops_submitted();
		return CUDA_SUCCESS;
	}
	return gm_shim_driver.cuStreamSynchronize(t->own ? CU_STREAM_PER_THREAD : NULL);
}

CUresult gm_transfer_end(const struct gm_transfer *t, CUresult result)
{
	if (result == CUDA_SUCCESS)
		result = transfer_wait(t);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t end = 0, ns = 0;
	if (t->timing.start) {
		end = gm_tick();
		ns = gm_tick_ns(t->timing.start, end);
		if (transfer_is_paced(t))
			gm_shim_happened_at(end);
		else
			gm_shim_timed(end);
	}
	transfer_count(t, ns);
	if (GM_UNLIKELY(gm_log_wants(GM_RECORD_COPY)))
		transfer_record(t, end, ns);
	return result;
}
