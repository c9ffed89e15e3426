/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of copies. Each copy is checked, made reachable and counted like a call of its own. A
 * batch without a bad copy goes to the driver whole. Else it is cut before the bad copy: natively
 * the copies before it are done, and those after it are not (measured on driver 580). A batch is
 * also cut around a copy that is staged (stage.h), and around a copy between devices without access
 * to each other, which cuMemcpyPeer does. Documentation of cuMemcpyBatchAsync: "Copies within a
 * batch are not guaranteed to execute in any specific order".
 */
#include <stdlib.h>

#include "base/tick.h"
#include "shim/copy/copy2d.h"
#include "shim/copy/transfer.h"
#include "shim/foreign/foreign.h"
#include "shim/memory/device.h"
#include "shim/memory/retry.h"

#if CUDA_VERSION >= 12080

/* The attributes of copies [first, first + n): those that begin in this range, and those in force
 * at `first`. */
struct part {
	size_t first_attribute, n_attributes;
	size_t *attribute_first;
};

/* The common part of the four forms of a call. */
struct batch {
	size_t n;
	struct gm_transfer *copies;
	CUstream stream;
	bool own; /* as in struct gm_transfer */
	/* Are the call's own arguments certainly acceptable to the driver? NULL: unknown. */
	bool (*is_plain)(const struct batch *b);
	/* The driver's call for copies [first, first + n); *failed as by the driver. */
	CUresult (*call)(const struct batch *b, size_t first, size_t n, const struct part *p,
			 size_t *failed);
	/* Copies of lines: the call's own arguments. */
	CUdeviceptr *dsts, *srcs;
	size_t *sizes;
	CUmemcpyAttributes *attributes;
	size_t *attribute_first;
	size_t n_attributes;
	/* Copies of boxes. */
	CUDA_MEMCPY3D_BATCH_OP *ops;
	unsigned long long flags;
	bool silent; /* the driver does not report which copy exceeded its block */
};

static bool part_cut(const struct batch *b, size_t first, size_t n, struct part *part)
{
	size_t k = 0, end;
	while (k + 1 < b->n_attributes && b->attribute_first[k + 1] <= first)
		k++;
	for (end = k; end < b->n_attributes && b->attribute_first[end] < first + n;)
		end++;
	size_t *from = malloc((end - k + 1) * sizeof *from);
	if (!from)
		return false;
	for (size_t i = k; i < end; i++)
		from[i - k] = b->attribute_first[i] > first ? b->attribute_first[i] - first : 0;
	*part = (struct part){k, end - k, from};
	return true;
}

static CUresult batch_call(const struct batch *b, size_t first, size_t n, size_t *failed)
{
	struct part p = {0, b->n_attributes, b->attribute_first};
	bool whole = n == b->n || !b->n_attributes;
	if (!whole && !part_cut(b, first, n, &p))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = GM_SUBMITS(b->own && !b->stream ? CU_STREAM_PER_THREAD : b->stream,
				     GM_PASS(b->call(b, first, n, &p, failed)));
	if (!whole)
		free(p.attribute_first);
	return result;
}

/* Memory has become reachable, so the whole part is worth a retry: copies of a batch do not depend
 * on one another. */
static bool batch_opened(const struct batch *b, size_t first, size_t n, CUresult result)
{
	bool any = false;
	for (size_t i = first; i < first + n; i++)
		any |= gm_transfer_again(&b->copies[i], result);
	return any;
}

/* *failed is the index of the failed copy in the whole batch, or unchanged if the driver does not
 * report it. */
static CUresult batch_run_part(const struct batch *b, size_t first, size_t n, size_t *failed)
{
	if (!n)
		return CUDA_SUCCESS;
	if (first)
		*failed = SIZE_MAX;
	b->copies[first].timing = gm_timing_since(gm_tick());
	CUresult result = batch_call(b, first, n, failed);
	if (result != CUDA_SUCCESS && batch_opened(b, first, n, result))
		result = batch_call(b, first, n, failed);
	if (result != CUDA_SUCCESS && *failed != SIZE_MAX)
		*failed += first;
	for (size_t i = first; i < first + n; i++) {
		if (i > first) /* the time of the call is counted once */
			b->copies[i].timing = gm_timing_since(gm_tick());
		result = gm_transfer_end(&b->copies[i], result);
	}
	return result;
}

/* Run a copy that the driver must not see: it is refused, or made by another call. */
static CUresult batch_run_alone(const struct batch *b, size_t i, CUresult refused, size_t *failed)
{
	struct gm_transfer *t = &b->copies[i];
	CUresult result = gm_transfer_end(t, refused == CUDA_SUCCESS ? gm_transfer_by_peer(t)
								     : gm_transfer_refused(t));
	*failed = result == CUDA_SUCCESS || b->silent ? SIZE_MAX : i;
	return result;
}

/* False: the copy stays in the next part. */
static bool batch_stage(const struct batch *b, size_t i, size_t *failed)
{
	struct gm_transfer *t = &b->copies[i];
	t->come = true;
	t->timing = gm_timing_since(gm_tick());
	bool ordered = gm_order_is_on();
	if (ordered)
		gm_transfer_submit(t);
	/* The stream may wait by now, for work that used the memory before. */
	bool staged = (!ordered || gm_stage_has_come(b->stream)) && gm_stage_copy(t);
	gm_transfer_submitted(ordered);
	if (staged) {
		gm_transfer_end(t, CUDA_SUCCESS);
		*failed = SIZE_MAX;
	}
	return staged;
}

/* May copies of the batch be staged? The driver must see arguments that it refuses before any
 * copy. */
static bool batch_may_stage(const struct batch *b)
{
	bool large = false;
	for (size_t i = 0; i < b->n; i++)
		large |= gm_stage_wants(b->copies[i].bytes);
	return large && b->is_plain && b->is_plain(b) && gm_stage_has_come(b->stream);
}

static CUresult batch_run(const struct batch *b, size_t *failed)
{
	size_t first = 0;
	bool may_stage = batch_may_stage(b);
	for (size_t i = 0; i < b->n; i++) {
		struct gm_transfer *t = &b->copies[i];
		t->batched = true;
		CUresult refused = gm_transfer_begin(t), result;
		bool alone = refused != CUDA_SUCCESS || t->by_peer;
		if (!alone && !(may_stage && gm_stage_wants(t->bytes)))
			continue;
		result = batch_run_part(b, first, i - first, failed);
		if (result == CUDA_SUCCESS && alone)
			result = batch_run_alone(b, i, refused, failed);
		if (result != CUDA_SUCCESS)
			return result;
		first = alone || batch_stage(b, i, failed) ? i + 1 : i;
	}
	return batch_run_part(b, first, b->n - first, failed);
}

static bool order_is_plain(CUmemcpySrcAccessOrder order)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static bool hint_is_plain(const CUmemLocation *hint)
{
	return !hint->type || hint->type == CU_MEM_LOCATION_TYPE_HOST ||
	       (hint->type == CU_MEM_LOCATION_TYPE_DEVICE && hint->id >= 0 &&
		(unsigned)hint->id < gm_shim_n_devices);
}

/* --- lines --- */

static bool lines_are_plain(const struct batch *b)
{
	bool plain = b->n_attributes <= b->n && !b->attribute_first[0];
	for (size_t i = 0; i < b->n_attributes && plain; i++) {
		const CUmemcpyAttributes *a = &b->attributes[i];
		plain = order_is_plain(a->srcAccessOrder) && hint_is_plain(&a->srcLocHint) &&
			hint_is_plain(&a->dstLocHint) &&
			a->flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE &&
			b->attribute_first[i] < b->n &&
			(!i || b->attribute_first[i] > b->attribute_first[i - 1]);
	}
	for (size_t i = 0; i < b->n && plain; i++)
		plain = b->dsts[i] && b->srcs[i] && b->sizes[i];
	return plain;
}

static CUresult lines_run(struct batch *b, const struct gm_transfer *like, size_t *failed)
{
	b->copies = calloc(b->n, sizeof *b->copies);
	if (!b->copies)
		return batch_call(b, 0, b->n, failed);
	for (size_t i = 0; i < b->n; i++) {
		b->copies[i] = *like;
		b->copies[i].dst = b->dsts[i];
		b->copies[i].src = b->srcs[i];
		b->copies[i].dst_span = b->copies[i].src_span = b->copies[i].bytes = b->sizes[i];
	}
	CUresult result = batch_run(b, failed);
	free(b->copies);
	return result;
}

/* A call with an argument that the driver refuses is passed on unchanged. */
#define CALL_LINES(symbol, ...)                                                            \
	static CUresult call_##symbol(const struct batch *b, size_t first, size_t n,       \
				      const struct part *p, size_t *failed)                \
	{                                                                                  \
		(void)failed;                                                              \
		return real.symbol(b->dsts + first, b->srcs + first, b->sizes + first, n,  \
				   b->attributes + p->first_attribute, p->attribute_first, \
				   p->n_attributes, __VA_ARGS__);                          \
	}
#define HAS_LINES (dsts && srcs && sizes && n && attributes && attribute_first && n_attributes)
#define LINE_BATCH(symbol, own_stream, parameters, arguments, before, after)             \
	GM_HANDLER_IF(HAS_LINES, symbol, parameters, arguments, ({                       \
			      size_t at = before;                                        \
			      struct batch b = {.n = n,                                  \
						.stream = stream,                        \
						.own = own_stream,                       \
						.is_plain = lines_are_plain,             \
						.call = call_##symbol,                   \
						.dsts = dsts,                            \
						.srcs = srcs,                            \
						.sizes = sizes,                          \
						.attributes = attributes,                \
						.attribute_first = attribute_first,      \
						.n_attributes = n_attributes};           \
			      const struct gm_transfer like = {.hook = GM_HOOK_##symbol, \
							       .flags = GM_RECORD_ASYNC, \
							       .stream = stream,         \
							       .own = own_stream};       \
			      CUresult done = lines_run(&b, &like, &at);                 \
			      after;                                                     \
			      done;                                                      \
		      }))

/* If the driver writes no index, the program's value stays. */
#define READ_FAILED (failed ? *failed : SIZE_MAX)
#define WRITE_FAILED                  \
	do                            \
		if (failed)           \
			*failed = at; \
	while (0)
#define PARAMETERS_V1                                                                    \
	(CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t n,               \
	 CUmemcpyAttributes * attributes, size_t * attribute_first, size_t n_attributes, \
	 size_t * failed, CUstream stream)
#define ARGUMENTS_V1 \
	(dsts, srcs, sizes, n, attributes, attribute_first, n_attributes, failed, stream)
#define PARAMETERS_V2                                                                    \
	(CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t n,               \
	 CUmemcpyAttributes * attributes, size_t * attribute_first, size_t n_attributes, \
	 CUstream stream)
#define ARGUMENTS_V2 (dsts, srcs, sizes, n, attributes, attribute_first, n_attributes, stream)

CALL_LINES(cuMemcpyBatchAsync, failed, b->stream)
LINE_BATCH(cuMemcpyBatchAsync, false, PARAMETERS_V1, ARGUMENTS_V1, READ_FAILED, WRITE_FAILED)
CALL_LINES(cuMemcpyBatchAsync_ptsz, failed, b->stream)
LINE_BATCH(cuMemcpyBatchAsync_ptsz, true, PARAMETERS_V1, ARGUMENTS_V1, READ_FAILED, WRITE_FAILED)
CALL_LINES(cuMemcpyBatchAsync_v2, b->stream)
LINE_BATCH(cuMemcpyBatchAsync_v2, false, PARAMETERS_V2, ARGUMENTS_V2, SIZE_MAX, (void)at)
CALL_LINES(cuMemcpyBatchAsync_v2_ptsz, b->stream)
LINE_BATCH(cuMemcpyBatchAsync_v2_ptsz, true, PARAMETERS_V2, ARGUMENTS_V2, SIZE_MAX, (void)at)

/* --- boxes --- */

/* Bytes of an element: 1 between two pointers, else the array's; 0: an unknown array, for which
 * only the driver can check the copy. */
static unsigned operation_element(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	struct gm_foreign f = {.element = 0};
	const CUmemcpy3DOperand *array = op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY	? &op->src
					 : op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? &op->dst
											: NULL;
	if (!array)
		return 1;
	gm_foreign_find(GM_SPACE_ARRAY, (uint64_t)array->op.array.array, &f);
	return f.element;
}

static CUDA_MEMCPY3D operation_box(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	size_t element = operation_element(op), width = op->extent.width,
	       height = op->extent.height;
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .WidthInBytes = gm_transfer_product(width, element),
			   .Height = height,
			   .Depth = op->extent.depth};
#define SIDE(side)                                                                           \
	if (op->side.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {                                 \
		c.side##Array = op->side.op.array.array;                                     \
		c.side##XInBytes = gm_transfer_product(op->side.op.array.offset.x, element); \
		c.side##Y = op->side.op.array.offset.y;                                      \
		c.side##Z = op->side.op.array.offset.z;                                      \
	} else {                                                                             \
		size_t row = op->side.op.ptr.rowLength ? op->side.op.ptr.rowLength : width;  \
		size_t rows = op->side.op.ptr.layerHeight;                                   \
		c.side##MemoryType = CU_MEMORYTYPE_UNIFIED;                                  \
		c.side##Device = op->side.op.ptr.ptr;                                        \
		c.side##Pitch = gm_transfer_product(row, element);                           \
		c.side##Height = rows ? rows : height;                                       \
	}
	SIDE(src)
	SIDE(dst)
#undef SIDE
	return c;
}

static bool operand_is_valid(const CUmemcpy3DOperand *o, const CUextent3D *extent)
{
	size_t row = o->op.ptr.rowLength, rows = o->op.ptr.layerHeight;
	return o->type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
	       ((!row || row >= extent->width) && (!rows || rows >= extent->height));
}

/* The driver checks every description before it does any copy. */
static bool boxes_are_valid(const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		const CUDA_MEMCPY3D_BATCH_OP *op = &b->ops[i];
		if (!op->extent.width || !op->extent.height || !op->extent.depth ||
		    !operand_is_valid(&op->src, &op->extent) ||
		    !operand_is_valid(&op->dst, &op->extent))
			return false;
	}
	return true;
}

/* The driver checks more for arrays, so they are not plain. */
static bool operand_is_plain(const CUmemcpy3DOperand *o)
{
	return o->type == CU_MEMCPY_OPERAND_TYPE_POINTER && o->op.ptr.ptr &&
	       hint_is_plain(&o->op.ptr.locHint);
}

static bool boxes_are_plain(const struct batch *b)
{
	bool plain = !b->flags;
	for (size_t i = 0; i < b->n && plain; i++) {
		const CUDA_MEMCPY3D_BATCH_OP *op = &b->ops[i];
		plain = order_is_plain(op->srcAccessOrder) && operand_is_plain(&op->src) &&
			operand_is_plain(&op->dst) &&
			op->flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
	}
	return plain;
}

static CUresult boxes_run(struct batch *b, const struct gm_transfer *like, size_t *failed)
{
	if (!boxes_are_valid(b))
		return batch_call(b, 0, b->n, failed);
	CUDA_MEMCPY3D *boxes = calloc(b->n, sizeof *boxes);
	b->copies = calloc(b->n, sizeof *b->copies);
	if (!boxes || !b->copies) {
		free(boxes);
		free(b->copies);
		return batch_call(b, 0, b->n, failed);
	}
	for (size_t i = 0; i < b->n; i++) {
		boxes[i] = operation_box(&b->ops[i]);
		b->copies[i] = gm_transfer_of_box(&boxes[i]);
		b->copies[i].hook = like->hook;
		b->copies[i].flags |= like->flags;
		b->copies[i].stream = like->stream;
		b->copies[i].own = like->own;
	}
	CUresult result = batch_run(b, failed);
	free(boxes);
	free(b->copies);
	return result;
}

#define CALL_BOXES(symbol, ...)                                                      \
	static CUresult call_##symbol(const struct batch *b, size_t first, size_t n, \
				      const struct part *p, size_t *failed)          \
	{                                                                            \
		(void)p;                                                             \
		(void)failed;                                                        \
		return real.symbol(n, b->ops + first, __VA_ARGS__);                  \
	}
#define BOX_BATCH(symbol, own_stream, count, plain, parameters, arguments, before, after) \
	GM_HANDLER_IF((count) && ops, symbol, parameters, arguments, ({                   \
			      size_t at = before;                                         \
			      struct batch b = {.n = (count),                             \
						.stream = stream,                         \
						.own = own_stream,                        \
						.is_plain = plain,                        \
						.call = call_##symbol,                    \
						.ops = ops,                               \
						.flags = flags,                           \
						.silent = true};                          \
			      const struct gm_transfer like = {.hook = GM_HOOK_##symbol,  \
							       .flags = GM_RECORD_ASYNC,  \
							       .stream = stream,          \
							       .own = own_stream};        \
			      CUresult done = boxes_run(&b, &like, &at);                  \
			      after;                                                      \
			      done;                                                       \
		      }))

#define BOX_PARAMETERS_V1                                                                   \
	(size_t n, CUDA_MEMCPY3D_BATCH_OP * ops, size_t * failed, unsigned long long flags, \
	 CUstream stream)
#define BOX_ARGUMENTS_V1 (n, ops, failed, flags, stream)
#define BOX_PARAMETERS_V2 \
	(size_t n, CUDA_MEMCPY3D_BATCH_OP * ops, unsigned long long flags, CUstream stream)
#define BOX_ARGUMENTS_V2 (n, ops, flags, stream)

CALL_BOXES(cuMemcpy3DBatchAsync, failed, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync, false, n, boxes_are_plain, BOX_PARAMETERS_V1, BOX_ARGUMENTS_V1,
	  READ_FAILED, WRITE_FAILED)
CALL_BOXES(cuMemcpy3DBatchAsync_ptsz, failed, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync_ptsz, true, n, boxes_are_plain, BOX_PARAMETERS_V1, BOX_ARGUMENTS_V1,
	  READ_FAILED, WRITE_FAILED)
CALL_BOXES(cuMemcpy3DBatchAsync_v2, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync_v2, false, n, boxes_are_plain, BOX_PARAMETERS_V2, BOX_ARGUMENTS_V2,
	  SIZE_MAX, (void)at)
CALL_BOXES(cuMemcpy3DBatchAsync_v2_ptsz, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync_v2_ptsz, true, n, boxes_are_plain, BOX_PARAMETERS_V2,
	  BOX_ARGUMENTS_V2, SIZE_MAX, (void)at)

/* One box with attributes: a batch of one. */
#define CALL_BOX(symbol)                                                             \
	static CUresult call_##symbol(const struct batch *b, size_t first, size_t n, \
				      const struct part *p, size_t *failed)          \
	{                                                                            \
		(void)n;                                                             \
		(void)p;                                                             \
		(void)failed;                                                        \
		return real.symbol(b->ops + first, b->flags, b->stream);             \
	}
#define BOX_PARAMETERS_ONE (CUDA_MEMCPY3D_BATCH_OP * ops, unsigned long long flags, CUstream stream)
#define BOX_ARGUMENTS_ONE (ops, flags, stream)
CALL_BOX(cuMemcpy3DWithAttributesAsync)
BOX_BATCH(cuMemcpy3DWithAttributesAsync, false, 1, NULL, BOX_PARAMETERS_ONE, BOX_ARGUMENTS_ONE,
	  SIZE_MAX, (void)at)
CALL_BOX(cuMemcpy3DWithAttributesAsync_ptsz)
BOX_BATCH(cuMemcpy3DWithAttributesAsync_ptsz, true, 1, NULL, BOX_PARAMETERS_ONE, BOX_ARGUMENTS_ONE,
	  SIZE_MAX, (void)at)

#else

/* This toolkit does not declare the contents of a batch: the call is passed on. */
#define PASSES(symbol, parameters, arguments)                                        \
	CUresult on_##symbol parameters                                              \
	{                                                                            \
		return GM_REPORTED(symbol, GM_GATED(symbol, real.symbol arguments)); \
	}
#define LINES_V1(symbol)                                                                        \
	PASSES(symbol,                                                                          \
	       (CUdeviceptr * d, CUdeviceptr * s, size_t * z, size_t n, CUmemcpyAttributes * a, \
		size_t * i, size_t m, size_t * failed, CUstream stream),                        \
	       (d, s, z, n, a, i, m, failed, stream))
#define LINES_V2(symbol)                                                                        \
	PASSES(symbol,                                                                          \
	       (CUdeviceptr * d, CUdeviceptr * s, size_t * z, size_t n, CUmemcpyAttributes * a, \
		size_t * i, size_t m, CUstream stream),                                         \
	       (d, s, z, n, a, i, m, stream))
#define BOXES_V1(symbol)                                                                           \
	PASSES(symbol,                                                                             \
	       (size_t n, CUDA_MEMCPY3D_BATCH_OP * ops, size_t * failed, unsigned long long flags, \
		CUstream stream),                                                                  \
	       (n, ops, failed, flags, stream))
#define BOXES_V2(symbol)                                                          \
	PASSES(symbol,                                                            \
	       (size_t n, CUDA_MEMCPY3D_BATCH_OP * ops, unsigned long long flags, \
		CUstream stream),                                                 \
	       (n, ops, flags, stream))
LINES_V1(cuMemcpyBatchAsync)
LINES_V1(cuMemcpyBatchAsync_ptsz)
LINES_V2(cuMemcpyBatchAsync_v2)
LINES_V2(cuMemcpyBatchAsync_v2_ptsz)
BOXES_V1(cuMemcpy3DBatchAsync)
BOXES_V1(cuMemcpy3DBatchAsync_ptsz)
BOXES_V2(cuMemcpy3DBatchAsync_v2)
BOXES_V2(cuMemcpy3DBatchAsync_v2_ptsz)
#define BOX_ONE(symbol)                                                                          \
	PASSES(symbol, (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream stream), \
	       (op, flags, stream))
BOX_ONE(cuMemcpy3DWithAttributesAsync)
BOX_ONE(cuMemcpy3DWithAttributesAsync_ptsz)
#endif
