/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the addresses within a symbol of an ELF file. addr2line names the nearest symbol below an
 * address; in a stripped library that may be a distant symbol of another function. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/stack/symbols.h"

enum { SYMBOLS_AT_ONCE = 2048 };

static bool file_read(int fd, void *to, size_t n, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, to, n, (off_t)offset) == (ssize_t)n;
}

/* The first place from `address` on. */
static size_t place_from(const struct gm_symbols_place *places, size_t n, uint64_t address)
{
	size_t low = 0, high = n;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (places[middle].place < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void symbol_cover(const Elf64_Sym *symbol, struct gm_symbols_place *places, size_t n)
{
	const unsigned type = ELF64_ST_TYPE(symbol->st_info);
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF)
		return;
	for (size_t i = place_from(places, n, symbol->st_value);
	     i < n && places[i].place - symbol->st_value < symbol->st_size; i++)
		places[i].covered = true;
}

static void section_cover(int fd, const Elf64_Shdr *section, struct gm_symbols_place *places,
			  size_t n)
{
	static Elf64_Sym symbols[SYMBOLS_AT_ONCE];
	uint64_t rest = section->sh_size / sizeof *symbols, at = section->sh_offset;
	while (rest > 0) {
		const uint64_t some = rest < SYMBOLS_AT_ONCE ? rest : SYMBOLS_AT_ONCE;
		if (!file_read(fd, symbols, (size_t)some * sizeof *symbols, at))
			return;
		for (uint64_t i = 0; i < some; i++)
			symbol_cover(&symbols[i], places, n);
		rest -= some;
		at += some * sizeof *symbols;
	}
}

void gm_symbols_cover(const char *path, struct gm_symbols_place *places, size_t n)
{
	Elf64_Ehdr head;
	Elf64_Shdr section;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	if (file_read(fd, &head, sizeof head, 0) && !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
	    head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_shentsize == sizeof section)
		for (unsigned i = 0; i < head.e_shnum; i++)
			if (file_read(fd, &section, sizeof section,
				      head.e_shoff + i * sizeof section) &&
			    (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM))
				section_cover(fd, &section, places, n);
	close(fd);
}
