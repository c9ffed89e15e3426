/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A range of memory that is read by offset, never beyond its end. If the end is unknown, each
 * access first checks that the bytes are mapped in the process. Not thread-safe.
 */
#ifndef GM_IMAGE_VIEW_H
#define GM_IMAGE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct gm_view {
	const unsigned char *at;
	uint64_t size; /* of an open view: the bytes known to be mapped */
	bool open;     /* its end is unknown */
};

/* `size` 0: unknown. */
struct gm_view gm_view_of(const void *at, uint64_t size);

/* `n` bytes at `offset`, unaligned. NULL: some of them are missing. */
const void *gm_view_get(struct gm_view *view, uint64_t offset, uint64_t n);

/* Copy `n` bytes. False: some of them are missing, and `to` is unchanged. */
bool gm_view_copy(struct gm_view *view, uint64_t offset, void *to, uint64_t n);

/* A part of the view. False: some of its bytes are missing. */
bool gm_view_part(struct gm_view *view, uint64_t offset, uint64_t n, struct gm_view *part);

/* The length before the first 0. False: the end comes first. */
bool gm_view_text(struct gm_view *view, uint64_t *length);

#endif
