/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompression of one entry of a container, by libraries that are opened when first needed. Any
 * thread. */
#ifndef GM_IMAGE_UNPACK_H
#define GM_IMAGE_UNPACK_H

#include "image/image.h"
#include "image/view.h"

/*
 * Decompress `packed` into `size` bytes that the caller frees. NULL: *why has the reason.
 */
void *gm_unpack(enum gm_image_packing packing, const struct gm_view *packed, uint64_t size,
		enum gm_image_why *why);

/* Decompress only the first `n` bytes, fewer than all, into `to`. False: not possible. */
bool gm_unpack_some(enum gm_image_packing packing, const struct gm_view *packed, void *to,
		    uint64_t n);

#endif
