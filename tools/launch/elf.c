/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/launch/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined __x86_64__
#define MACHINE EM_X86_64
#elif defined __aarch64__
#define MACHINE EM_AARCH64
#endif

enum { TABLE_MOST = 64 << 20 }; /* limit of a table, bytes: the file is not trusted */

/* Read `size` bytes of the file and append a 0. NULL: unreadable or too long. The caller frees. */
static void *file_read(int fd, uint64_t offset, uint64_t size)
{
	char *at = size <= TABLE_MOST ? malloc(size + 1) : NULL;
	if (!at || pread(fd, at, size, (off_t)offset) != (ssize_t)size) {
		free(at);
		return NULL;
	}
	at[size] = '\0';
	return at;
}

struct file {
	int fd;
	Elf64_Ehdr head;
	Elf64_Phdr *programs;
};

static const Elf64_Phdr *file_find_program(const struct file *file, uint32_t type)
{
	for (unsigned i = 0; i < file->head.e_phnum; i++)
		if (file->programs[i].p_type == type)
			return &file->programs[i];
	return NULL;
}

/* The file offset of an address. False: no segment of the file has the address. */
static bool file_offset(const struct file *file, uint64_t address, uint64_t *offset)
{
	for (unsigned i = 0; i < file->head.e_phnum; i++) {
		const Elf64_Phdr *p = &file->programs[i];
		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz) {
			*offset = p->p_offset + (address - p->p_vaddr);
			return true;
		}
	}
	return false;
}

static const char *strings_get(const struct gm_elf *elf, uint64_t size, uint64_t at)
{
	return at < size ? elf->strings + at : "";
}

static void dynamic_read(const struct file *file, struct gm_elf *out)
{
	const Elf64_Phdr *p = file_find_program(file, PT_DYNAMIC);
	Elf64_Dyn *entries = p ? file_read(file->fd, p->p_offset, p->p_filesz) : NULL;
	uint64_t n = entries ? p->p_filesz / sizeof *entries : 0, table = 0, size = 0, offset;
	for (uint64_t i = 0; i < n && entries[i].d_tag != DT_NULL; i++) {
		if (entries[i].d_tag == DT_STRTAB)
			table = entries[i].d_un.d_ptr;
		else if (entries[i].d_tag == DT_STRSZ)
			size = entries[i].d_un.d_val;
	}
	if (file_offset(file, table, &offset))
		out->strings = file_read(file->fd, offset, size);
	for (uint64_t i = 0; out->strings && i < n && entries[i].d_tag != DT_NULL; i++) {
		const char *text = strings_get(out, size, entries[i].d_un.d_val);
		if (entries[i].d_tag == DT_NEEDED)
			(void)gm_array_push(&out->needed, text);
		else if (entries[i].d_tag == DT_RPATH)
			out->rpath = text;
		else if (entries[i].d_tag == DT_RUNPATH)
			out->runpath = text;
	}
	free(entries);
}

static bool file_has_section(const struct file *file, const char *name)
{
	const Elf64_Ehdr *head = &file->head;
	Elf64_Shdr *sections = NULL;
	char *names = NULL;
	bool found = false;
	if (head->e_shentsize == sizeof *sections && head->e_shstrndx < head->e_shnum)
		sections = file_read(file->fd, head->e_shoff, head->e_shnum * sizeof *sections);
	if (sections)
		names = file_read(file->fd, sections[head->e_shstrndx].sh_offset,
				  sections[head->e_shstrndx].sh_size);
	for (unsigned i = 0; names && i < head->e_shnum; i++)
		found |= sections[i].sh_name < sections[head->e_shstrndx].sh_size &&
			 strcmp(names + sections[i].sh_name, name) == 0;
	free(names);
	free(sections);
	return found;
}

bool gm_elf_read(int fd, struct gm_elf *out)
{
	struct file file = {.fd = fd};
	*out = (struct gm_elf){0};
	ssize_t n = pread(fd, &file.head, sizeof file.head, 0);
	if (n < (ssize_t)sizeof(Elf32_Ehdr) || memcmp(file.head.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	out->bits = file.head.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	out->machine = file.head.e_machine; /* at the same offset in both classes */
	out->ours = out->bits == 64 && out->machine == MACHINE &&
		    file.head.e_ident[EI_DATA] == ELFDATA2LSB;
	if (!out->ours)
		return true;
	if (n < (ssize_t)sizeof file.head || file.head.e_phentsize != sizeof *file.programs)
		return false;
	file.programs = file_read(fd, file.head.e_phoff, file.head.e_phnum * sizeof *file.programs);
	if (!file.programs)
		return false;
	const Elf64_Phdr *p = file_find_program(&file, PT_INTERP);
	if (p)
		out->interpreter = file_read(fd, p->p_offset, p->p_filesz);
	dynamic_read(&file, out);
	out->device_code = file_has_section(&file, ".nv_fatbin");
	free(file.programs);
	return true;
}

void gm_elf_free(struct gm_elf *elf)
{
	gm_array_free(&elf->needed);
	free(elf->interpreter);
	free(elf->strings);
}
