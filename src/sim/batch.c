/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of copies, made one after the other up to the first refused copy. For boxes, all
 * descriptions are checked before the first copy, and only a bad description is reported by number
 * (measured on driver 580).
 */
#include "sim/copy.h"

#if CUDA_VERSION >= 12080

static struct sim_end address_end(CUdeviceptr address)
{
	return (struct sim_end){.kind = SIM_END_ANY, .at = (char *)address};
}

static bool order_is_valid(CUmemcpySrcAccessOrder order)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static bool attributes_are_valid(const CUmemcpyAttributes *attributes, const size_t *first,
				 size_t n, size_t count)
{
	if (!attributes || !first || !n || n > count || first[0])
		return false;
	for (size_t i = 0; i < n; i++)
		if (!order_is_valid(attributes[i].srcAccessOrder) || first[i] >= count ||
		    (i && first[i] <= first[i - 1]))
			return false;
	return true;
}

CUresult sim_cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
				CUmemcpyAttributes *attributes, size_t *first, size_t n,
				size_t *failed, CUstream stream)
{
	if (failed)
		*failed = SIZE_MAX;
	if (!to || !from || !sizes || !count || !attributes_are_valid(attributes, first, n, count))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		const size_t size[3] = {sizes[i], 1, 1};
		CUresult result = sizes[i] ? sim_copy(address_end(to[i]), address_end(from[i]),
						      size, stream, SIM_COPY_ASYNC)
					   : CUDA_ERROR_INVALID_VALUE;
		if (result != CUDA_SUCCESS) {
			if (failed)
				*failed = i;
			return result;
		}
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
				   CUmemcpyAttributes *attributes, size_t *first, size_t n,
				   CUstream stream)
{
	return sim_cuMemcpyBatchAsync(to, from, sizes, count, attributes, first, n, NULL, stream);
}

/* --- boxes --- */

static const struct sim_array *operand_array(const CUmemcpy3DOperand *operand)
{
	struct sim_array *array = NULL;
	if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
		sim_array_of(operand->op.array.array, &array);
	return array;
}

static CUresult operand_end(const CUmemcpy3DOperand *operand, size_t element,
			    const CUextent3D *extent, struct sim_end *out)
{
	const struct sim_array *array = operand_array(operand);
	if (array) {
		const CUoffset3D *o = &operand->op.array.offset;
		*out = (struct sim_end){SIM_END_DEVICE, array->at, array->pitch, array->height,
					array};
		out->at += (o->z * array->height + o->y) * array->pitch + o->x * element;
		return CUDA_SUCCESS;
	}
	if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return CUDA_ERROR_INVALID_VALUE;
	size_t row = operand->op.ptr.rowLength, rows = operand->op.ptr.layerHeight;
	if ((row && row < extent->width) || (rows && rows < extent->height))
		return CUDA_ERROR_INVALID_VALUE;
	*out = address_end(operand->op.ptr.ptr);
	out->pitch = (row ? row : extent->width) * element;
	out->height = rows ? rows : extent->height;
	return CUDA_SUCCESS;
}

struct box {
	struct sim_end to, from;
	size_t size[3];
};

static CUresult operation_box(const CUDA_MEMCPY3D_BATCH_OP *op, struct box *box)
{
	const struct sim_array *src = operand_array(&op->src), *dst = operand_array(&op->dst);
	size_t element = src ? src->element : dst ? dst->element : 1;
	box->size[0] = op->extent.width * element;
	box->size[1] = op->extent.height;
	box->size[2] = op->extent.depth;
	if (!box->size[0] || !box->size[1] || !box->size[2] ||
	    !order_is_valid(op->srcAccessOrder) || (src && dst && src->element != dst->element))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = operand_end(&op->dst, element, &op->extent, &box->to);
	return result == CUDA_SUCCESS ? operand_end(&op->src, element, &op->extent, &box->from)
				      : result;
}

CUresult sim_cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
				  unsigned long long flags, CUstream stream)
{
	if (failed)
		*failed = SIZE_MAX;
	if (!count || !ops || flags)
		return CUDA_ERROR_INVALID_VALUE;
	struct box box;
	for (size_t i = 0; i < count; i++)
		if (operation_box(&ops[i], &box) != CUDA_SUCCESS) {
			if (failed)
				*failed = i;
			return CUDA_ERROR_INVALID_VALUE;
		}
	for (size_t i = 0; i < count; i++) {
		operation_box(&ops[i], &box);
		CUresult result = sim_copy(box.to, box.from, box.size, stream, SIM_COPY_ASYNC);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
				     unsigned long long flags, CUstream stream)
{
	return sim_cuMemcpy3DBatchAsync(count, ops, NULL, flags, stream);
}

/* --- one copy with attributes (13.2): a batch of one, by its documentation --- */

CUresult sim_cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
					 CUmemcpyAttributes *attributes, CUstream stream)
{
	size_t first = 0;
	return sim_cuMemcpyBatchAsync(&to, &from, &size, 1, attributes, &first, 1, NULL, stream);
}

CUresult sim_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
					   CUstream stream)
{
	return sim_cuMemcpy3DBatchAsync(1, op, NULL, flags, stream);
}

#else

/* This toolkit does not declare the contents of a batch. */
CUresult sim_cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
				CUmemcpyAttributes *attributes, size_t *first, size_t n,
				size_t *failed, CUstream stream)
{
	(void)to, (void)from, (void)sizes, (void)count, (void)attributes, (void)first, (void)n;
	(void)failed, (void)stream;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
				   CUmemcpyAttributes *attributes, size_t *first, size_t n,
				   CUstream stream)
{
	return sim_cuMemcpyBatchAsync(to, from, sizes, count, attributes, first, n, NULL, stream);
}

CUresult sim_cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
				  unsigned long long flags, CUstream stream)
{
	(void)count, (void)ops, (void)failed, (void)flags, (void)stream;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
				     unsigned long long flags, CUstream stream)
{
	return sim_cuMemcpy3DBatchAsync(count, ops, NULL, flags, stream);
}

CUresult sim_cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
					 CUmemcpyAttributes *attributes, CUstream stream)
{
	(void)to, (void)from, (void)size, (void)attributes, (void)stream;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
					   CUstream stream)
{
	(void)op, (void)flags, (void)stream;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#endif
