/* SPDX-License-Identifier: BSD-3-Clause */
/* Verdicts of PTX text. */
#ifndef GM_IMAGE_PTX_H
#define GM_IMAGE_PTX_H

#include "image/image.h"
#include "image/view.h"

/* Judge PTX text, up to its first 0 or the end. `part` gets its kind, and its architecture
 * unless it has one. */
void gm_ptx_judge(struct gm_view *view, struct gm_image_part *part,
		  struct gm_image_verdict *verdict);

/* Name the kernels of PTX text: `see` with `arg`, for each. */
void gm_ptx_kernels(struct gm_view *view, gm_image_kernel *see, void *arg);

/* Does text that may be PTX begin here? */
bool gm_ptx_begins(struct gm_view *view);

#endif
