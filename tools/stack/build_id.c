/* SPDX-License-Identifier: BSD-3-Clause */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/stack/symbols.h"

enum { HEADERS_MOST = 128, SEGMENT_MOST = 65536 };

static bool file_read(int fd, void *to, size_t n, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, to, n, (off_t)offset) == (ssize_t)n;
}

/* Search one segment of notes. */
static size_t id_search(const char *at, size_t n, uint8_t *id, size_t room)
{
	while (n >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *head = (const void *)at;
		size_t name = ((size_t)head->n_namesz + 3) & ~(size_t)3;
		size_t body = ((size_t)head->n_descsz + 3) & ~(size_t)3;
		at += sizeof *head;
		n -= sizeof *head;
		if (name > n || body > n - name)
			return 0;
		if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 &&
		    !memcmp(at, "GNU", 4)) {
			size_t length = head->n_descsz < room ? head->n_descsz : room;
			memcpy(id, at + name, length);
			return length;
		}
		at += name + body;
		n -= name + body;
	}
	return 0;
}

static size_t segment_search(int fd, const Elf64_Phdr *segment, uint8_t *id, size_t room)
{
	size_t n = segment->p_filesz < SEGMENT_MOST ? (size_t)segment->p_filesz : SEGMENT_MOST;
	char *bytes = segment->p_type == PT_NOTE ? malloc(n + 1) : NULL;
	size_t length = 0;
	if (bytes && file_read(fd, bytes, n, segment->p_offset))
		length = id_search(bytes, n, id, room);
	free(bytes);
	return length;
}

static size_t elf_search(int fd, uint8_t *id, size_t room)
{
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	size_t length = 0;
	if (!file_read(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof segment)
		return 0;
	for (unsigned i = 0; !length && i < head.e_phnum && i < HEADERS_MOST; i++)
		if (file_read(fd, &segment, sizeof segment, head.e_phoff + i * sizeof segment))
			length = segment_search(fd, &segment, id, room);
	return length;
}

size_t gm_build_id_read(const char *path, uint8_t *id, size_t room)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t length = 0;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		length = elf_search(fd, id, room);
	if (fd >= 0)
		close(fd);
	return length;
}
