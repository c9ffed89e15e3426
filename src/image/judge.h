/* SPDX-License-Identifier: BSD-3-Clause */
/* Combines the findings of the readers of cubins, PTX and containers into a verdict. */
#ifndef GM_IMAGE_JUDGE_H
#define GM_IMAGE_JUDGE_H

#include "image/image.h"
#include "image/view.h"

/* Start with a no. */
void gm_verdict_begin(struct gm_image_verdict *verdict);

/* Add a reason. A yes outweighs an unknown, an unknown outweighs a no; of equals the first
 * stays. */
void gm_verdict_add(struct gm_image_verdict *verdict, enum gm_image_why why);

/* Does the symbol stand for all names that begin with its name? */
bool gm_image_symbol_is_prefix(enum gm_image_symbol symbol);

/* Add a called function, by its name of `n` bytes; ignored if it is not in symbols.def. */
void gm_verdict_symbol(struct gm_image_verdict *verdict, const char *name, size_t n);

void gm_verdict_arch(struct gm_image_verdict *verdict, uint32_t arch);

/* Add all findings of `part`. */
void gm_verdict_merge(struct gm_image_verdict *verdict, const struct gm_image_verdict *part);

/* The reason for bytes that cannot be read. */
enum gm_image_why gm_verdict_lack(const struct gm_view *view);

#endif
