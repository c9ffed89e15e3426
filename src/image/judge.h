/* SPDX-License-Identifier: BSD-3-Clause */
/* What the readers of each format share: how what they find becomes a verdict. */
#ifndef GM_IMAGE_JUDGE_H
#define GM_IMAGE_JUDGE_H

#include "image/image.h"
#include "image/view.h"

/* Begin with a no that nothing speaks for yet. */
void gm_verdict_begin(struct gm_image_verdict *verdict);

/* One more reason. A yes outweighs an unknown, and that a no; of equals the first stays. */
void gm_verdict_add(struct gm_image_verdict *verdict, enum gm_image_why why);

/* The name, of `n` bytes, of a function that is called; nothing if it is no allocator's. */
void gm_verdict_symbol(struct gm_image_verdict *verdict, const char *name, size_t n);

void gm_verdict_arch(struct gm_image_verdict *verdict, uint32_t arch);

/* All that `part` found. */
void gm_verdict_merge(struct gm_image_verdict *verdict, const struct gm_image_verdict *part);

/* Why bytes are not there. */
enum gm_image_why gm_verdict_lack(const struct gm_view *view);

/* A cubin; `part` gets its kind, and its architecture unless it has one. */
void gm_cubin_judge(struct gm_view *view, struct gm_image_part *part,
		    struct gm_image_verdict *verdict);

/* PTX text, up to its first 0 or the end; likewise. */
void gm_ptx_judge(struct gm_view *view, struct gm_image_part *part,
		  struct gm_image_verdict *verdict);

/* Does text begin there that may be PTX? */
bool gm_ptx_begins(struct gm_view *view);

#endif
