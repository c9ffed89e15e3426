/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays. Only the driver knows the memory of an array, so its elements are counted. A sparse array
 * has no memory of its own; neither has an array with deferred mapping.
 */
#include "shim/foreign/foreign.h"
#include "shim/memory/retry.h"

/* Bytes of one channel; 0: unknown, in a compressed or planar format. */
static unsigned channel_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static size_t array_product(size_t a, size_t b)
{
	size_t c;
	return __builtin_mul_overflow(a, b, &c) ? 0 : c;
}

static size_t array_extent(size_t n)
{
	return n ? n : 1;
}

/* Bytes of all levels. The number of layers or cube faces is the same at each level. NULL: 0; the
 * driver will refuse. */
static size_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	if (!d)
		return 0;
	size_t w = d->Width, h = array_extent(d->Height), z = array_extent(d->Depth), sum = 0;
	unsigned element = channel_bytes(d->Format) * d->NumChannels;
	if (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	bool flat = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	for (unsigned i = 0; i < levels; i++) {
		sum += array_product(array_product(w, h), array_product(z, element));
		if (w == 1 && h == 1 && (flat || z == 1))
			break; /* the driver makes no more levels */
		w = array_extent(w / 2);
		h = array_extent(h / 2);
		z = flat ? z : array_extent(z / 2);
	}
	return sum;
}

static void array_given(enum gm_foreign_space space, const void *handle,
			const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	gm_foreign_add_here((struct gm_foreign){
		.key = (uint64_t)handle,
		.space = space,
		.kind = GM_FOREIGN_ARRAY,
		.size = array_bytes(d, levels),
		.element = channel_bytes(d->Format) * d->NumChannels,
	});
}

static CUDA_ARRAY3D_DESCRIPTOR flat_descriptor(const CUDA_ARRAY_DESCRIPTOR *d)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = d->Width,
		.Height = d->Height,
		.Format = d->Format,
		.NumChannels = d->NumChannels,
	};
}

static size_t flat_bytes(const CUDA_ARRAY_DESCRIPTOR *d)
{
	const CUDA_ARRAY3D_DESCRIPTOR solid = d ? flat_descriptor(d) : (CUDA_ARRAY3D_DESCRIPTOR){0};
	return array_bytes(&solid, 1);
}

static void flat_given(const void *handle, const CUDA_ARRAY_DESCRIPTOR *d)
{
	const CUDA_ARRAY3D_DESCRIPTOR solid = flat_descriptor(d);
	array_given(GM_SPACE_ARRAY, handle, &solid, 1);
}

/* Is an array refused whatever its size? Captures forbid arrays, as they forbid cuMemAlloc. */
static bool driver_refuses(void)
{
	CUresult ignored;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	return !context || gm_fence_may_allocate(&gm_shim_driver, context) != CUDA_SUCCESS;
}

/* A call that the driver will refuse is not limited. */
static bool array_begin(const void *out, const void *d, size_t bytes)
{
	return !out || !d || driver_refuses() || gm_limit_begin(GM_LACK_HERE, bytes);
}

#define TAKES(symbol, bytes, parameters, arguments, after)                                   \
	GM_TAKES_WITHIN(symbol, GM_LACK_HERE, bytes, array_begin(out, d, bytes), parameters, \
			arguments, after)
TAKES(cuArrayCreate_v2, flat_bytes(d), (CUarray * out, const CUDA_ARRAY_DESCRIPTOR *d), (out, d),
      flat_given(*out, d))
TAKES(cuArray3DCreate_v2, array_bytes(d, 1), (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR *d),
      (out, d), array_given(GM_SPACE_ARRAY, *out, d, 1))
TAKES(cuMipmappedArrayCreate, array_bytes(d, levels),
      (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels), (out, d, levels),
      array_given(GM_SPACE_MIPMAP, *out, d, levels))
GM_GIVES_UP(cuArrayDestroy, (CUarray array), (array), GM_SPACE_ARRAY, array)
GM_GIVES_UP(cuMipmappedArrayDestroy, (CUmipmappedArray array), (array), GM_SPACE_MIPMAP, array)
