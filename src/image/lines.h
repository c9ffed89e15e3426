/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Source lines of machine code: the section .debug_line of a cubin, as nvcc -lineinfo and -G write
 * it (DWARF 2 to 4). Any bytes are survived; each line program is read once. No lock; any thread.
 */
#ifndef GM_IMAGE_LINES_H
#define GM_IMAGE_LINES_H

#include <stddef.h>

#include "image/sections.h"

/* The line of the instruction at `at` in section number `text`. False: not known. `file` gets the
 * path that the compiler was given, or its end, of `n` bytes at most. */
bool gm_image_line(const struct gm_sections *sections, uint64_t text, uint64_t at, uint32_t *line,
		   char *file, size_t n);

#endif
