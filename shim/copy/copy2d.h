/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of rectangles and boxes. */
#ifndef GM_SHIM_COPY_COPY2D_H
#define GM_SHIM_COPY_COPY2D_H

#include "shim/copy/transfer.h"

/* The copy of a box, which stays the caller's and must outlive the result. */
struct gm_transfer gm_transfer_of_box(const CUDA_MEMCPY3D *box);
/* a * b; SIZE_MAX: it overflows. */
size_t gm_transfer_product(size_t a, size_t b);

#endif
