/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of copies. Each copy is checked, made reachable and counted like one that was called by
 * itself. A batch whose copies are all fine goes on as it is; else it is cut: natively the copies
 * before a bad one are done, and those after it are not (measured on driver 580), and one between
 * devices that cannot reach each other is done by cuMemcpyPeer.
 */
#include <stdlib.h>

#include "foreign.h"
#include "transfer.h"

#if CUDA_VERSION >= 12080

/* The attributes of the part: those that begin in it, and the one that already holds at its start.
 */
struct part {
	size_t first_attribute, n_attributes;
	size_t *attribute_first;
};

/* What all four forms of a call have in common. */
struct batch {
	size_t n;
	struct gm_transfer *copies;
	CUstream stream;
	/* The driver's call for copies [first, first + n); *failed as the driver's is. */
	CUresult (*run)(const struct batch *b, size_t first, size_t n, const struct part *p,
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
	bool silent; /* the driver does not say which one left its block */
};

static bool cut(const struct batch *b, size_t first, size_t n, struct part *part)
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

static CUresult run(const struct batch *b, size_t first, size_t n, size_t *failed)
{
	struct part p = {0, b->n_attributes, b->attribute_first};
	bool whole = n == b->n || !b->n_attributes;
	if (!whole && !cut(b, first, n, &p))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = GM_PASS(b->run(b, first, n, &p, failed));
	if (!whole)
		free(p.attribute_first);
	return result;
}

/* Made once more, whole: copies of a batch do not depend on one another. */
static bool opened(const struct batch *b, size_t first, size_t n, CUresult result)
{
	bool any = false;
	for (size_t i = first; i < first + n; i++)
		any |= gm_transfer_again(&b->copies[i], result);
	return any;
}

/* Where it failed, as the driver says it or leaves it unsaid, but counted from the first of all. */
static CUresult run_part(const struct batch *b, size_t first, size_t n, size_t *failed)
{
	if (!n)
		return CUDA_SUCCESS;
	if (first)
		*failed = SIZE_MAX;
	CUresult result = run(b, first, n, failed);
	if (result != CUDA_SUCCESS && opened(b, first, n, result))
		result = run(b, first, n, failed);
	if (result != CUDA_SUCCESS && *failed != SIZE_MAX)
		*failed += first;
	for (size_t i = first; i < first + n; i++) {
		if (i > first) /* the time of the call is counted once */
			b->copies[i].start = gm_clock_ns();
		result = gm_transfer_end(&b->copies[i], result);
	}
	return result;
}

static CUresult run_all(const struct batch *b, size_t *failed)
{
	size_t first = 0;
	for (size_t i = 0; i < b->n; i++) {
		struct gm_transfer *t = &b->copies[i];
		CUresult refused = gm_transfer_begin(t), result;
		if (refused == CUDA_SUCCESS && !t->by_peer)
			continue;
		result = run_part(b, first, i - first, failed);
		if (result == CUDA_SUCCESS) {
			*failed = b->silent ? SIZE_MAX : i;
			result = gm_transfer_end(t, refused == CUDA_SUCCESS ? gm_transfer_by_peer(t)
									    : refused);
		}
		if (result != CUDA_SUCCESS)
			return result;
		first = i + 1;
	}
	return run_part(b, first, b->n - first, failed);
}

/* --- lines --- */

static CUresult run_lines(struct batch *b, const struct gm_transfer *like, size_t *failed)
{
	b->copies = calloc(b->n, sizeof *b->copies);
	if (!b->copies)
		return run(b, 0, b->n, failed);
	for (size_t i = 0; i < b->n; i++) {
		b->copies[i] = *like;
		b->copies[i].dst = b->dsts[i];
		b->copies[i].src = b->srcs[i];
		b->copies[i].dst_span = b->copies[i].src_span = b->copies[i].bytes = b->sizes[i];
	}
	CUresult result = run_all(b, failed);
	free(b->copies);
	return result;
}

/* What the driver itself refuses goes to it as it is. */
#define RUN_LINES(symbol, ...)                                                             \
	static CUresult run_##symbol(const struct batch *b, size_t first, size_t n,        \
				     const struct part *p, size_t *failed)                 \
	{                                                                                  \
		(void)failed;                                                              \
		return real.symbol(b->dsts + first, b->srcs + first, b->sizes + first, n,  \
				   b->attributes + p->first_attribute, p->attribute_first, \
				   p->n_attributes, __VA_ARGS__);                          \
	}
#define LINE_BATCH(symbol, own_stream, parameters, arguments, look, where)                      \
	CUresult on_##symbol parameters                                                         \
	{                                                                                       \
		size_t at = look;                                                               \
		bool odd = !dsts || !srcs || !sizes || !n || !attributes || !attribute_first || \
			   !n_attributes;                                                       \
		if (odd || !gm_shim_enter())                                                    \
			return real.symbol arguments;                                           \
		struct batch b = {.n = n,                                                       \
				  .stream = stream,                                             \
				  .run = run_##symbol,                                          \
				  .dsts = dsts,                                                 \
				  .srcs = srcs,                                                 \
				  .sizes = sizes,                                               \
				  .attributes = attributes,                                     \
				  .attribute_first = attribute_first,                           \
				  .n_attributes = n_attributes};                                \
		const struct gm_transfer like = {.hook = GM_HOOK_##symbol,                      \
						 .flags = GM_RECORD_ASYNC,                      \
						 .stream = stream,                              \
						 .own = own_stream};                            \
		CUresult result = run_lines(&b, &like, &at);                                    \
		where;                                                                          \
		gm_shim_leave();                                                                \
		return result;                                                                  \
	}

/* What the program finds there when the driver says nothing is what it left there. */
#define LOOK_WHERE (failed ? *failed : SIZE_MAX)
#define TELL_WHERE                    \
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

RUN_LINES(cuMemcpyBatchAsync, failed, b->stream)
LINE_BATCH(cuMemcpyBatchAsync, false, PARAMETERS_V1, ARGUMENTS_V1, LOOK_WHERE, TELL_WHERE)
RUN_LINES(cuMemcpyBatchAsync_ptsz, failed, b->stream)
LINE_BATCH(cuMemcpyBatchAsync_ptsz, true, PARAMETERS_V1, ARGUMENTS_V1, LOOK_WHERE, TELL_WHERE)
RUN_LINES(cuMemcpyBatchAsync_v2, b->stream)
LINE_BATCH(cuMemcpyBatchAsync_v2, false, PARAMETERS_V2, ARGUMENTS_V2, SIZE_MAX, (void)at)
RUN_LINES(cuMemcpyBatchAsync_v2_ptsz, b->stream)
LINE_BATCH(cuMemcpyBatchAsync_v2_ptsz, true, PARAMETERS_V2, ARGUMENTS_V2, SIZE_MAX, (void)at)

/* --- boxes --- */

/* Elements are bytes between two pointers, else those of the array; 0: an array that we do not
 * know, so that only the driver can judge the copy. */
static unsigned element_of(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	struct gm_foreign f = {.element = 0};
	const CUmemcpy3DOperand *array = op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY	? &op->src
					 : op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? &op->dst
											: NULL;
	if (!array)
		return 1;
	gm_foreign_look(GM_SPACE_ARRAY, (uint64_t)array->op.array.array, &f);
	return f.element;
}

static CUDA_MEMCPY3D box_of(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	size_t element = element_of(op), width = op->extent.width, height = op->extent.height;
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

/* The driver looks at every description before it does any copy. */
static bool all_are_valid(const struct batch *b)
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

static CUresult run_boxes(struct batch *b, const struct gm_transfer *like, size_t *failed)
{
	if (!all_are_valid(b))
		return run(b, 0, b->n, failed);
	CUDA_MEMCPY3D *boxes = calloc(b->n, sizeof *boxes);
	b->copies = calloc(b->n, sizeof *b->copies);
	if (!boxes || !b->copies) {
		free(boxes);
		free(b->copies);
		return run(b, 0, b->n, failed);
	}
	for (size_t i = 0; i < b->n; i++) {
		boxes[i] = box_of(&b->ops[i]);
		b->copies[i] = gm_transfer_of_box(&boxes[i]);
		b->copies[i].hook = like->hook;
		b->copies[i].flags |= like->flags;
		b->copies[i].stream = like->stream;
		b->copies[i].own = like->own;
	}
	CUresult result = run_all(b, failed);
	free(boxes);
	free(b->copies);
	return result;
}

#define RUN_BOXES(symbol, ...)                                                      \
	static CUresult run_##symbol(const struct batch *b, size_t first, size_t n, \
				     const struct part *p, size_t *failed)          \
	{                                                                           \
		(void)p;                                                            \
		(void)failed;                                                       \
		return real.symbol(n, b->ops + first, __VA_ARGS__);                 \
	}
#define BOX_BATCH(symbol, own_stream, parameters, arguments, look, where)  \
	CUresult on_##symbol parameters                                    \
	{                                                                  \
		size_t at = look;                                          \
		if (!n || !ops || !gm_shim_enter())                        \
			return real.symbol arguments;                      \
		struct batch b = {.n = n,                                  \
				  .stream = stream,                        \
				  .run = run_##symbol,                     \
				  .ops = ops,                              \
				  .flags = flags,                          \
				  .silent = true};                         \
		const struct gm_transfer like = {.hook = GM_HOOK_##symbol, \
						 .flags = GM_RECORD_ASYNC, \
						 .stream = stream,         \
						 .own = own_stream};       \
		CUresult result = run_boxes(&b, &like, &at);               \
		where;                                                     \
		gm_shim_leave();                                           \
		return result;                                             \
	}

#define BOX_PARAMETERS_V1                                                                   \
	(size_t n, CUDA_MEMCPY3D_BATCH_OP * ops, size_t * failed, unsigned long long flags, \
	 CUstream stream)
#define BOX_ARGUMENTS_V1 (n, ops, failed, flags, stream)
#define BOX_PARAMETERS_V2 \
	(size_t n, CUDA_MEMCPY3D_BATCH_OP * ops, unsigned long long flags, CUstream stream)
#define BOX_ARGUMENTS_V2 (n, ops, flags, stream)

RUN_BOXES(cuMemcpy3DBatchAsync, failed, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync, false, BOX_PARAMETERS_V1, BOX_ARGUMENTS_V1, LOOK_WHERE, TELL_WHERE)
RUN_BOXES(cuMemcpy3DBatchAsync_ptsz, failed, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync_ptsz, true, BOX_PARAMETERS_V1, BOX_ARGUMENTS_V1, LOOK_WHERE,
	  TELL_WHERE)
RUN_BOXES(cuMemcpy3DBatchAsync_v2, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync_v2, false, BOX_PARAMETERS_V2, BOX_ARGUMENTS_V2, SIZE_MAX, (void)at)
RUN_BOXES(cuMemcpy3DBatchAsync_v2_ptsz, b->flags, b->stream)
BOX_BATCH(cuMemcpy3DBatchAsync_v2_ptsz, true, BOX_PARAMETERS_V2, BOX_ARGUMENTS_V2, SIZE_MAX,
	  (void)at)

#else

/* A toolkit that does not know what is in a batch: passed on. */
#define PASSES(symbol, parameters, arguments) \
	CUresult on_##symbol parameters       \
	{                                     \
		return real.symbol arguments; \
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
#endif
