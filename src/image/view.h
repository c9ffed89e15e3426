/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stretch of memory that is read by offset, never beyond its end. Of one whose end nobody told,
 * what is asked for is first looked up among the mappings of the process: as far as headers lead,
 * and no further.
 */
#ifndef GM_IMAGE_VIEW_H
#define GM_IMAGE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct gm_view {
	const unsigned char *at;
	uint64_t size; /* of an open one, what was found mapped so far */
	bool open;     /* its end is unknown */
};

/* `size` 0: unknown. */
struct gm_view gm_view_of(const void *at, uint64_t size);

/* `n` bytes from `offset` on, not aligned; NULL: they are not there. */
const void *gm_view_get(struct gm_view *view, uint64_t offset, uint64_t n);

/* Copy them. False: they are not there, and `to` is untouched. */
bool gm_view_copy(struct gm_view *view, uint64_t offset, void *to, uint64_t n);

/* A part of it, which ends there. False: it is not there. */
bool gm_view_part(struct gm_view *view, uint64_t offset, uint64_t n, struct gm_view *part);

/* The bytes before the first 0. False: it ends first. */
bool gm_view_text(struct gm_view *view, uint64_t *length);

#endif
