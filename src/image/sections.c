/* SPDX-License-Identifier: BSD-3-Clause */
#include "sections.h"

#include <string.h>

bool gm_sections_begin(struct gm_view *view)
{
	const void *magic = gm_view_get(view, 0, SELFMAG);
	return magic && memcmp(magic, ELFMAG, SELFMAG) == 0;
}

/* Section counts that are too large for the header are in section 0. */
static bool sections_count(struct gm_sections *sections, uint64_t *names)
{
	Elf64_Shdr first = {0};
	const Elf64_Ehdr *head = &sections->head;
	if (head->e_shoff == 0 || head->e_shentsize != sizeof first)
		return false;
	if (head->e_shnum == 0 || head->e_shstrndx == SHN_XINDEX)
		if (!gm_view_copy(sections->view, head->e_shoff, &first, sizeof first))
			return false;
	sections->n = head->e_shnum ? head->e_shnum : first.sh_size;
	*names = head->e_shstrndx == SHN_XINDEX ? first.sh_link : head->e_shstrndx;
	uint64_t size;
	return !__builtin_mul_overflow(sections->n, sizeof first, &size) &&
	       gm_view_get(sections->view, head->e_shoff, size);
}

bool gm_sections_open(struct gm_sections *sections, struct gm_view *view)
{
	Elf64_Ehdr *head = &sections->head;
	Elf64_Shdr section;
	uint64_t names;
	*sections = (struct gm_sections){.view = view};
	if (!gm_sections_begin(view) || !gm_view_copy(view, 0, head, sizeof *head))
		return false;
	if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB ||
	    !sections_count(sections, &names))
		return false;
	if (!gm_sections_get(sections, names, &section) ||
	    !gm_sections_view(sections, &section, &sections->names))
		sections->names = (struct gm_view){0};
	return true;
}

bool gm_sections_get(const struct gm_sections *sections, uint64_t i, Elf64_Shdr *out)
{
	return i < sections->n &&
	       gm_view_copy(sections->view, sections->head.e_shoff + i * sizeof *out, out,
			    sizeof *out);
}

bool gm_sections_view(const struct gm_sections *sections, const Elf64_Shdr *section,
		      struct gm_view *out)
{
	return section->sh_type != SHT_NOBITS &&
	       gm_view_part(sections->view, section->sh_offset, section->sh_size, out);
}

bool gm_sections_named(const struct gm_sections *sections, const Elf64_Shdr *section,
		       const char *name)
{
	size_t n;
	const char *text =
		gm_sections_string(&sections->names, section->sh_name, GM_STRING_MOST, &n);
	return text && n == strlen(name) && memcmp(text, name, n) == 0;
}

/* The search for the end is bounded: a table without zeros would be read whole for each symbol. */
const char *gm_sections_string(const struct gm_view *strings, uint64_t offset, size_t most,
			       size_t *n)
{
	if (offset >= strings->size)
		return NULL;
	const char *text = (const char *)strings->at + offset;
	uint64_t rest = strings->size - offset;
	const char *end = memchr(text, 0, rest < most ? rest : most);
	if (!end && rest < most)
		return NULL;
	*n = end ? (size_t)(end - text) : most;
	return text;
}
