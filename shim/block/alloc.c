/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/alloc.h"

#include <string.h>

#include "base/size.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/block/fill.h"
#include "shim/call.h"
#include "shim/foreign/foreign.h"
#include "shim/idle/demand.h"
#include "shim/ipc/ipc.h"
#include "shim/memory/device.h"
#include "shim/memory/lack.h"
#include "shim/memory/limit.h"
#include "shim/memory/retry.h"
#include "shim/modules.h"
#include "shim/sleep/turns.h"
#include "shim/torch/lend.h"
#include "stack/held.h"
#include "stack/stack.h"

/* One allocation call of the program. */
struct request {
	enum gm_hook_id hook;
	CUdeviceptr *out;
	size_t size;
	size_t *pitch; /* cuMemAllocPitch: output of the pitch; NULL: the rest is unused */
	size_t width, height;
	unsigned element;
	struct gm_context *context;
	struct gm_timing call;
	struct gm_stack_from from; /* of frequent calls */
	bool again; /* if the driver refuses, ask for idle memory: no pool, or GPUMEM_IPC=native */
};

/* The program's call, unchanged. */
static CUresult request_call(const struct request *q)
{
	return q->pitch ? real.cuMemAllocPitch_v2(q->out, q->pitch, q->width, q->height, q->element)
			: real.cuMemAlloc_v2(q->out, q->size);
}

static CUresult request_pass(const struct request *q)
{
	return q->again ? GM_PASS_AGAIN(GM_LACK_HERE, q->size, request_call(q))
			: GM_PASS(request_call(q));
}

/* End a timed call. Returns the moment. */
static uint64_t alloc_timed(unsigned device, struct gm_timing call)
{
	uint64_t end = gm_tick();
	gm_shim_happened_at(end);
	gm_counter_add(device, GM_C_allocate_ns, gm_timing_ns(call, end));
	return end;
}

/* Finalizers of the program may run meanwhile and make calls of their own. */
static __attribute__((noinline)) void record_add_stack(struct gm_record *record,
						       struct gm_stack_from from, uint64_t end)
{
	record->stack = gm_stack_capture(&gm_shim_inside, from);
	gm_shim_happened_at(end);
	if (record->stack && record->kind == GM_RECORD_ALLOCATE)
		gm_held_add(record->id, record->stack);
}

static void request_served(const struct request *q, const struct gm_block *b, unsigned flags)
{
	unsigned device = q->context->ordinal;
	struct gm_timing call = gm_timing_of(q->call, b->since);
	uint64_t end = call.start ? alloc_timed(device, call) : 0;
	bool driver = flags & GM_RECORD_DRIVER;
	_Atomic uint64_t *parts = gm_count_device(device);
	gm_count_in(parts, device, GM_C_allocate_calls, 1);
	gm_count_in(parts, device, GM_C_allocate_pool, !driver);
	gm_count_in(parts, device, GM_C_allocate_bytes, driver ? 0 : b->size);
	if (driver)
		gm_counter_add(device, GM_C_allocate_driver, 1);
	if (!gm_log_wants(GM_RECORD_ALLOCATE))
		return;
	struct gm_record record =
		gm_shim_record(GM_RECORD_ALLOCATE, q->hook, q->context, gm_shim_time(end),
			       gm_tick_ns(call.start, end), CUDA_SUCCESS);
	record.address = b->base;
	record.size = b->size;
	record.held = b->held;
	record.id = b->id;
	record.flags = (uint16_t)flags;
	if (gm_stack_wanted(b->size))
		record_add_stack(&record, q->from, end);
	if (!record.stack && gm_held_may(b->size))
		gm_held_drop(b->id); /* a recording that just began may have found the block */
	gm_log_put(&record);
}

static CUresult request_refused(const struct request *q, CUresult result)
{
	unsigned device = q->context->ordinal;
	struct gm_timing call = gm_timing_of(q->call, gm_tick());
	uint64_t end = alloc_timed(device, call);
	gm_counter_add(device, GM_C_allocate_calls, 1);
	gm_counter_add(device, GM_C_allocate_failed, 1);
	struct gm_record record =
		gm_shim_record(GM_RECORD_ALLOCATE_FAILED, q->hook, q->context, gm_shim_time(end),
			       gm_tick_ns(call.start, end), result);
	record.size = q->size;
	if (gm_stack_wanted(q->size))
		record_add_stack(&record, q->from, end);
	gm_log_put(&record);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		gm_lack_allocation(q->hook, q->context, q->size, record.stack);
	return result;
}

/* The driver serves the call: invalid arguments, no pool, or no memory in the pool. */
static CUresult request_from_driver(struct request *q)
{
	q->call = gm_timing_of(q->call, gm_tick());
	CUresult result = request_pass(q);
	if (!q->context)
		return result;
	if (result != CUDA_SUCCESS)
		return request_refused(q, result);
	size_t size = q->pitch ? *q->pitch * q->height : q->size;
	const struct gm_foreign f = {
		.key = *q->out,
		.space = GM_SPACE_DEVICE,
		.kind = GM_FOREIGN_DRIVER,
		.ordinal = q->context->ordinal,
		.size = size,
		.context = q->context->key,
		.id = gm_foreign_next_id(),
	};
	const struct gm_block b = {.base = f.key, .size = size, .held = size, .id = f.id};
	gm_foreign_add(&f);
	request_served(q, &b, GM_RECORD_DRIVER);
	return result;
}

/* The device has no pool, and GPUMEM_LIMIT holds nevertheless. A call that the driver will refuse
 * is not limited. `q->size`: 0 if it is not known. */
static CUresult request_without_pool(struct request *q)
{
	q->again = true;
	if (!gm_limit_is_set() || !q->context || !q->out || !q->size ||
	    gm_fence_may_allocate(&gm_shim_driver, q->context) != CUDA_SUCCESS)
		return request_from_driver(q);
	if (!gm_limit_begin((int)q->context->ordinal, gm_limit_of_driver(q->size))) {
		*q->out = 0;
		return request_refused(q, CUDA_ERROR_OUT_OF_MEMORY);
	}
	const CUresult result = request_from_driver(q);
	gm_limit_end();
	return result;
}

/* No memory of other processes helps a request beyond the device or GPUMEM_LIMIT. */
static bool request_may_fit(const struct request *q)
{
	const int ordinal = (int)q->context->ordinal;
	const bool fits =
		q->size <= gm_shim_devices[ordinal].total && gm_limit_begin(ordinal, q->size);
	if (fits)
		gm_limit_end();
	return fits;
}

/* Idle processes sleep, one after the other, until it is enough. */
static CUresult request_take_turn(const struct request *q, struct gm_pool *pool, struct gm_block *b)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	struct gm_turn turn;
	if (!gm_turns_begin(&turn, (int)q->context->ordinal, q->size, 0))
		return result;
	while (result == CUDA_ERROR_OUT_OF_MEMORY && gm_turns_await(&turn, false))
		result = gm_pool_alloc(pool, q->size, q->context->key, b);
	gm_turns_end(&turn);
	return result;
}

/* Modules make memory idle, one after the other, until it is enough; then other processes. */
static __attribute__((noinline)) CUresult request_reclaim(const struct request *q,
							  struct gm_pool *pool, struct gm_block *b)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned row = 0; result == CUDA_ERROR_OUT_OF_MEMORY &&
			       gm_modules_reclaim_next(q->context->ordinal, q->size, &row);)
		result = gm_pool_alloc(pool, q->size, q->context->key, b);
	if (result != CUDA_ERROR_OUT_OF_MEMORY || !request_may_fit(q))
		return result;
	result = gm_pool_alloc(pool, q->size, q->context->key, b); /* idle memory was returned */
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_demand_reclaim(q->context->ordinal))
		result = gm_pool_alloc(pool, q->size, q->context->key, b);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? request_take_turn(q, pool, b) : result;
}

static CUresult request_find(struct request *q, struct gm_pool *pool, struct gm_block *b)
{
	if (GM_UNLIKELY(gm_ipc_is_native(q->size))) {
		q->again = true;
		b->since = 0;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = gm_pool_alloc(pool, q->size, q->context->key, b);
	return GM_UNLIKELY(result == CUDA_ERROR_OUT_OF_MEMORY) ? request_reclaim(q, pool, b)
							       : result;
}

/* The pool has no memory for the request. */
static __attribute__((noinline)) CUresult request_not_found(struct request *q, uint64_t since,
							    CUresult result)
{
	if (since)
		q->call = gm_timing_of(q->call, since);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		gm_shim_pool_failed(q->context->ordinal, result);
	const int ordinal = (int)q->context->ordinal;
	if (!gm_limit_begin(ordinal, gm_limit_of_driver(q->size))) {
		*q->out = 0;
		return request_refused(q, CUDA_ERROR_OUT_OF_MEMORY);
	}
	q->pitch = NULL; /* the pitch is known: the driver only allocates the bytes */
	result = request_from_driver(q);
	gm_limit_end();
	return result;
}

static CUresult request_from_pool(struct request *q, struct gm_pool *pool)
{
	struct gm_block b;
	CUresult result = gm_fence_may_allocate(&gm_shim_driver, q->context);
	if (GM_UNLIKELY(result != CUDA_SUCCESS)) {
		*q->out = 0; /* as natively */
		return request_refused(q, result);
	}
	result = request_find(q, pool, &b);
	if (GM_UNLIKELY(result != CUDA_SUCCESS))
		return request_not_found(q, b.since, result);
	gm_fill(q->context, &b);
	*q->out = b.base;
	request_served(q, &b, 0);
	if (gm_lend_is_on())
		gm_lend_made(&b);
	return result;
}

CUresult gm_shim_serve(struct gm_context *context, size_t size, struct gm_block *out)
{
	const struct request q = {.size = size, .context = context, .call = gm_shim_call()};
	CUresult result =
		gm_pool_alloc(gm_shim_pool_if_any(context->ordinal), size, context->key, out);
	if (result == CUDA_SUCCESS) {
		gm_fill(context, out);
		request_served(&q, out, 0);
	}
	return result;
}

CUresult gm_shim_refused(struct gm_context *context, size_t size, uint64_t start, CUresult result)
{
	const struct request q = {.size = size, .context = context, .call = gm_timing_since(start)};
	return request_refused(&q, result);
}

static CUresult alloc_bytes(CUdeviceptr *out, size_t size, struct gm_stack_from from)
{
	CUresult ignored;
	struct request q = {
		.hook = GM_HOOK_cuMemAlloc_v2,
		.out = out,
		.size = size,
		.call = gm_shim_call(),
		.from = from,
		.context = gm_context_current(&gm_shim_driver, &ignored),
	};
	struct gm_pool *pool = q.context && out && size ? gm_shim_pool(q.context->ordinal) : NULL;
	return pool ? request_from_pool(&q, pool) : request_without_pool(&q);
}

/* A call that the driver will refuse needs no memory, and wakes no process. */
CUresult on_cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
	if (!gm_shim_enter())
		return real.cuMemAlloc_v2(out, size);
	const struct gm_stack_from from = GM_STACK_FROM;
	CUresult result = out && size ? GM_GATED(cuMemAlloc_v2, alloc_bytes(out, size, from))
				      : alloc_bytes(out, size, from);
	gm_shim_leave();
	return result;
}

/* The driver's rule: rows begin at multiples of the texture alignment. False: the driver must check
 * the arguments. */
static bool request_pitch(const struct request *q, size_t *pitch)
{
	if (!q->context || !q->out || !q->pitch || !q->width || !q->height)
		return false;
	if (q->element != 4 && q->element != 8 && q->element != 16)
		return false;
	size_t step = gm_shim_devices[q->context->ordinal].pitch;
	if (!step || step & (step - 1) || q->width > SIZE_MAX - step)
		return false;
	*pitch = gm_round_up(q->width, step);
	return true;
}

/* Does the error end the native call before it writes a pitch? A sticky error does; an error of a
 * capture, or a lack of memory, does not. */
static bool error_comes_before(CUresult result)
{
	return result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY &&
	       result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult request_rows(struct request *q)
{
	size_t pitch, *out = q->pitch;
	if (!request_pitch(q, &pitch)) /* the size is not known */
		return request_without_pool(q);
	struct gm_pool *pool = gm_shim_pool(q->context->ordinal);
	if (__builtin_mul_overflow(pitch, q->height, &q->size)) {
		q->size = SIZE_MAX;
		return request_from_driver(q);
	}
	CUresult result = pool ? request_from_pool(q, pool) : request_without_pool(q);
	*out = error_comes_before(result) ? 0 : pitch;
	return result;
}

static CUresult alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
			    unsigned element)
{
	CUresult ignored;
	struct request q = {
		.hook = GM_HOOK_cuMemAllocPitch_v2,
		.out = out,
		.pitch = pitch,
		.width = width,
		.height = height,
		.element = element,
		.call = gm_shim_call(),
		.context = gm_context_current(&gm_shim_driver, &ignored),
	};
	return request_rows(&q);
}

GM_HANDLER(cuMemAllocPitch_v2,
	   (CUdeviceptr * out, size_t *pitch, size_t width, size_t height, unsigned element),
	   (out, pitch, width, height, element), alloc_pitch(out, pitch, width, height, element))
