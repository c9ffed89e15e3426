/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cubin: an ELF file of EM_CUDA. A called function without code in it is an undefined symbol, in
 * the old ABI (7, up to CUDA 12) and the new one, with or without -G, linked or relocatable, from
 * sm_50 to sm_121.
 */
#include "cubin.h"

#include <string.h>

#include "judge.h"
#include "sections.h"

/* The position of the architecture in e_flags depends on the OS/ABI. */
enum { OSABI_OLD = 0x33, OLD_SHIFT = 0, NEW_SHIFT = 8, ARCH_MASK = 0xff };

enum { NAME_MOST = 4096 }; /* bytes of a kernel's name that are shown */

static uint32_t head_arch(const Elf64_Ehdr *head)
{
	unsigned shift = head->e_ident[EI_OSABI] == OSABI_OLD ? OLD_SHIFT : NEW_SHIFT;
	return head->e_flags >> shift & ARCH_MASK;
}

/* The table of symbols and the names in it. False: they cannot be read. */
static bool symbols_open(const struct gm_sections *sections, const Elf64_Shdr *table,
			 struct gm_view *symbols, struct gm_view *strings)
{
	Elf64_Shdr section;
	return table->sh_entsize == sizeof(Elf64_Sym) &&
	       gm_sections_view(sections, table, symbols) &&
	       gm_sections_get(sections, table->sh_link, &section) &&
	       gm_sections_view(sections, &section, strings);
}

static void symbols_judge(const struct gm_sections *sections, const Elf64_Shdr *table,
			  struct gm_image_verdict *verdict)
{
	struct gm_view symbols, strings;
	if (!symbols_open(sections, table, &symbols, &strings)) {
		gm_verdict_add(verdict, gm_verdict_lack(sections->view));
		return;
	}
	for (uint64_t i = 0; i < symbols.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;
		memcpy(&symbol, symbols.at + i * sizeof symbol, sizeof symbol);
		if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0)
			continue;
		size_t n;
		const char *name = gm_sections_string(&strings, symbol.st_name, GM_STRING_MOST, &n);
		if (name)
			gm_verdict_symbol(verdict, name, n);
		else
			gm_verdict_add(verdict, gm_verdict_lack(sections->view));
	}
}

static void part_set_head(const Elf64_Ehdr *head, struct gm_image_part *part)
{
	part->kind = head->e_type == ET_REL ? GM_IMAGE_OBJECT : GM_IMAGE_CUBIN;
	if (!part->arch)
		part->arch = head_arch(head);
}

/*
 * After the header follow .shstrtab, .strtab and .symtab, with padding between. Both tables of
 * names begin with the names of the sections. Names contain no run of zeros; the first symbol is a
 * run of zeros.
 */
enum gm_cubin_glance gm_cubin_glance(const void *at, uint64_t n, struct gm_image_part *part)
{
	static const char begin[] = "\0.shstrtab\0.strtab\0.symtab";
	static const Elf64_Sym first;
	const char *tables = (const char *)at + sizeof(Elf64_Ehdr), *end = (const char *)at + n;
	Elf64_Ehdr head;
	if (n < sizeof head + sizeof begin || memcmp(tables, begin, sizeof begin) != 0)
		return GM_CUBIN_SEARCH;
	memcpy(&head, at, sizeof head);
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_machine != EM_CUDA)
		return GM_CUBIN_SEARCH;
	const char *names = memmem(tables + 1, (size_t)(end - tables - 1), begin, sizeof begin);
	const char *symbols =
		names ? memmem(names, (size_t)(end - names), &first, sizeof first) : NULL;
	if (!symbols)
		return GM_CUBIN_MORE;
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++) {
		const char *name = gm_image_symbol_name((enum gm_image_symbol)i);
		size_t length = strlen(name) + !gm_image_symbol_is_prefix((enum gm_image_symbol)i);
		if (memmem(names, (size_t)(symbols - names) + 1, name, length))
			return GM_CUBIN_SEARCH;
	}
	part_set_head(&head, part);
	return GM_CUBIN_NONE;
}

/* The table of symbols; an ELF file has at most one. False: none. */
static bool table_find(const struct gm_sections *sections, Elf64_Shdr *out)
{
	bool found = false;
	for (uint64_t i = 0; !found && gm_sections_get(sections, i, out); i++)
		found = out->sh_type == SHT_SYMTAB;
	return found;
}

void gm_cubin_judge(struct gm_view *view, struct gm_image_part *part,
		    struct gm_image_verdict *verdict)
{
	struct gm_sections sections;
	Elf64_Shdr section;
	bool open = gm_sections_open(&sections, view),
	     old = sections.head.e_ident[EI_CLASS] == ELFCLASS32;
	if (!open || sections.head.e_machine != EM_CUDA) {
		gm_verdict_add(verdict, open || old ? GM_IMAGE_WHY_KIND : gm_verdict_lack(view));
		return;
	}
	part_set_head(&sections.head, part);
	if (table_find(&sections, &section))
		symbols_judge(&sections, &section, verdict);
	else
		gm_verdict_add(verdict, GM_IMAGE_WHY_NO_SYMBOLS);
}

void gm_cubin_kernels(struct gm_view *view, gm_image_kernel *see, void *arg)
{
	struct gm_sections sections;
	struct gm_view symbols, strings;
	Elf64_Shdr table;
	if (!gm_sections_open(&sections, view) || sections.head.e_machine != EM_CUDA ||
	    !table_find(&sections, &table) || !symbols_open(&sections, &table, &symbols, &strings))
		return;
	for (uint64_t i = 0; i < symbols.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;
		size_t n;
		memcpy(&symbol, symbols.at + i * sizeof symbol, sizeof symbol);
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
		    !(symbol.st_other & GM_CUBIN_ENTRY))
			continue;
		const char *name = gm_sections_string(&strings, symbol.st_name, NAME_MOST, &n);
		if (name)
			see(arg, name, n);
	}
}
