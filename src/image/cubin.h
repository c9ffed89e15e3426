/* SPDX-License-Identifier: BSD-3-Clause */
/* Verdicts of cubins. */
#ifndef GM_IMAGE_CUBIN_H
#define GM_IMAGE_CUBIN_H

#include "image/image.h"
#include "image/view.h"

/* Judge a cubin. `part` gets its kind, and its architecture unless it has one. */
void gm_cubin_judge(struct gm_view *view, struct gm_image_part *part,
		    struct gm_image_verdict *verdict);

enum { GM_CUBIN_ENTRY = 0x10 }; /* st_other of a function: the host can launch it */

/* Name the kernels of a cubin: `see` with `arg`, for each. */
void gm_cubin_kernels(struct gm_view *view, gm_image_kernel *see, void *arg);

/*
 * Judge a cubin by its first `n` bytes. nvcc and nvlink put the names of all symbols at the front,
 * so these bytes suffice for a no. MORE: more bytes are needed; SEARCH: the whole cubin must be
 * judged.
 */
enum gm_cubin_glance { GM_CUBIN_NONE, GM_CUBIN_MORE, GM_CUBIN_SEARCH };
enum gm_cubin_glance gm_cubin_glance(const void *at, uint64_t n, struct gm_image_part *part);

#endif
