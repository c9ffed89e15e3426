/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of rectangles and boxes, fills of rectangles. */
#ifndef GM_SHIM_COPY_COPY2D_H
#define GM_SHIM_COPY_COPY2D_H

#include "shim/copy/transfer.h"

/* The copy of a box. The caller still owns the box, which must outlive the result. */
struct gm_transfer gm_transfer_of_box(const CUDA_MEMCPY3D *box);
/* The fill of `rows` rows, `pitch` bytes apart, of n elements of `step` bytes. */
struct gm_transfer gm_transfer_of_fill(CUdeviceptr at, size_t pitch, size_t step, size_t n,
				       size_t rows);
/* a * b; SIZE_MAX: overflow. */
size_t gm_transfer_product(size_t a, size_t b);

#endif
