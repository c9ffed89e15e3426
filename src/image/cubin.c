/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cubin: an ELF file of EM_CUDA. What it calls and has not is an undefined symbol, in the old ABI
 * (7, up to CUDA 12) and in the new one, with or without -G, linked or relocatable, from sm_50 to
 * sm_121.
 */
#include <string.h>

#include "judge.h"
#include "sections.h"

/* Where e_flags have the architecture depends on who is named as the system. */
enum { OSABI_OLD = 0x33, OLD_SHIFT = 0, NEW_SHIFT = 8, ARCH_MASK = 0xff };

static uint32_t arch_of(const Elf64_Ehdr *head)
{
	unsigned shift = head->e_ident[EI_OSABI] == OSABI_OLD ? OLD_SHIFT : NEW_SHIFT;
	return head->e_flags >> shift & ARCH_MASK;
}

static void judge_symbols(const struct gm_sections *sections, const Elf64_Shdr *table,
			  struct gm_image_verdict *verdict)
{
	Elf64_Shdr section;
	struct gm_view symbols, strings;
	if (table->sh_entsize != sizeof(Elf64_Sym) ||
	    !gm_sections_view(sections, table, &symbols) ||
	    !gm_sections_get(sections, table->sh_link, &section) ||
	    !gm_sections_view(sections, &section, &strings)) {
		gm_verdict_add(verdict, gm_verdict_lack(sections->view));
		return;
	}
	for (uint64_t i = 0; i < symbols.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;
		memcpy(&symbol, symbols.at + i * sizeof symbol, sizeof symbol);
		if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0)
			continue;
		const char *name = gm_sections_string(&strings, symbol.st_name);
		if (name)
			gm_verdict_symbol(verdict, name, strlen(name));
		else
			gm_verdict_add(verdict, gm_verdict_lack(sections->view));
	}
}

void gm_cubin_judge(struct gm_view *view, struct gm_image_part *part,
		    struct gm_image_verdict *verdict)
{
	struct gm_sections sections;
	Elf64_Shdr section;
	bool found = false;
	bool open = gm_sections_open(&sections, view),
	     old = sections.head.e_ident[EI_CLASS] == ELFCLASS32;
	if (!open || sections.head.e_machine != EM_CUDA) {
		gm_verdict_add(verdict, open || old ? GM_IMAGE_WHY_KIND : gm_verdict_lack(view));
		return;
	}
	part->kind = sections.head.e_type == ET_REL ? GM_IMAGE_OBJECT : GM_IMAGE_CUBIN;
	if (!part->arch)
		part->arch = arch_of(&sections.head);
	for (uint64_t i = 0; gm_sections_get(&sections, i, &section); i++)
		if (section.sh_type == SHT_SYMTAB) {
			found = true;
			judge_symbols(&sections, &section, verdict);
		}
	if (!found)
		gm_verdict_add(verdict, GM_IMAGE_WHY_NO_SYMBOLS);
}
