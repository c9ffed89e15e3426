/* SPDX-License-Identifier: BSD-3-Clause */
/* The sections of a 64-bit ELF file in memory: of a cubin, or of host code. */
#ifndef GM_IMAGE_SECTIONS_H
#define GM_IMAGE_SECTIONS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

#include "image/view.h"

struct gm_sections {
	struct gm_view *view;
	Elf64_Ehdr head;
	uint64_t n;
	struct gm_view names; /* empty: sections have no names */
};

/* Does an ELF file of any kind begin here? */
bool gm_sections_begin(struct gm_view *view);

/* False: no little-endian 64-bit ELF file, or its table of sections cannot be read. `view` must
 * outlive `sections`. */
bool gm_sections_open(struct gm_sections *sections, struct gm_view *view);

/* Section `i`. False: there is none. */
bool gm_sections_get(const struct gm_sections *sections, uint64_t i, Elf64_Shdr *out);

/* The content of a section. False: the file does not contain it. */
bool gm_sections_view(const struct gm_sections *sections, const Elf64_Shdr *section,
		      struct gm_view *out);

bool gm_sections_named(const struct gm_sections *sections, const Elf64_Shdr *section,
		       const char *name);

/*
 * The string at `offset` of a table of strings; *n: its length, `most` at most. NULL: no string
 * that ends begins there. GM_STRING_MOST: longer than any name searched for.
 */
enum { GM_STRING_MOST = 64 };
const char *gm_sections_string(const struct gm_view *strings, uint64_t offset, size_t most,
			       size_t *n);

#endif
