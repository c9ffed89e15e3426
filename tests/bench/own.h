/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's own functions. A preload may interpose on dlsym, so they are found in the symbol
 * table of the driver's file.
 */
#ifndef GM_TESTS_BENCH_OWN_H
#define GM_TESTS_BENCH_OWN_H

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct own_wanted {
	const char *name;
	void *found;
};

/* Finds an exported symbol of the file at `image`, loaded at `base`; NULL: no such symbol. */
static void *own_symbol(const char *image, uintptr_t base, const char *name)
{
	const ElfW(Ehdr) *head = (const void *)image;
	const ElfW(Shdr) *sections = (const void *)(image + head->e_shoff);
	for (unsigned i = 0; i < head->e_shnum; i++) {
		const ElfW(Shdr) *section = &sections[i];
		if (section->sh_type != SHT_DYNSYM)
			continue;
		const char *names = image + sections[section->sh_link].sh_offset;
		const ElfW(Sym) *symbols = (const void *)(image + section->sh_offset);
		for (size_t n = 0; n < section->sh_size / sizeof *symbols; n++)
			if (symbols[n].st_value && !strcmp(names + symbols[n].st_name, name))
				return (void *)(base + symbols[n].st_value);
	}
	return NULL;
}

static int own_search(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	struct own_wanted *wanted = arg;
	struct stat file;
	(void)size;
	if (!slash || strncmp(slash + 1, "libcuda.so", strlen("libcuda.so")) != 0)
		return 0;
	int fd = open(info->dlpi_name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &file) != 0)
		return 1;
	void *image = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (image == MAP_FAILED)
		return 1;
	wanted->found = own_symbol(image, info->dlpi_addr, wanted->name);
	munmap(image, (size_t)file.st_size);
	return 1;
}

/* The function that the loaded driver exports by this name; NULL: none. */
static void *own_find(const char *name)
{
	struct own_wanted wanted = {.name = name};
	dl_iterate_phdr(own_search, &wanted);
	return wanted.found;
}

#endif
