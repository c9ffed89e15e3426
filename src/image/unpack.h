/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompression of one piece of a container, by libraries that are opened on first need. */
#ifndef GM_IMAGE_UNPACK_H
#define GM_IMAGE_UNPACK_H

#include "image/image.h"
#include "image/view.h"

/*
 * `packed` into `size` new bytes, which the caller releases. NULL: *why says so. Any thread.
 */
void *gm_unpack(enum gm_image_packing packing, const struct gm_view *packed, uint64_t size,
		enum gm_image_why *why);

#endif
