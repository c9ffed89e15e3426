/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

#ifndef GM_LIBDIR
#define GM_LIBDIR "/usr/local/lib"
#endif

bool gm_preload_find(char *path, size_t n)
{
	static const char *const beside[] = {".libs/libgpumem.so", "libgpumem.so"};
	char self[PATH_MAX];
	const char *given = getenv("GPUMEM_LIBRARY_PATH");
	if (given && *given) {
		if (realpath(given, self)) {
			snprintf(path, n, "%s", self);
			return true;
		}
		gm_tool_error("GPUMEM_LIBRARY_PATH=%s: no such file", given);
		return false;
	}
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	self[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++) {
		snprintf(path, n, "%.*s/%s", (int)(slash - self), self, beside[i]);
		if (access(path, R_OK) == 0)
			return true;
	}
	snprintf(path, n, "%s/libgpumem.so", GM_LIBDIR);
	if (access(path, R_OK) == 0)
		return true;
	gm_tool_error("libgpumem.so is neither beside this program nor in %s: set "
		      "GPUMEM_LIBRARY_PATH",
		      GM_LIBDIR);
	return false;
}

bool gm_preload_set(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	size_t n = strlen(library) + (old ? strlen(old) : 0) + 2;
	char *value = malloc(n);
	if (strpbrk(library, ": ") || !value) {
		gm_tool_error("%s: LD_PRELOAD cannot name a file with a blank or a colon", library);
		free(value);
		return false;
	}
	snprintf(value, n, "%s%s%s", library, old && *old ? ":" : "", old ? old : "");
	setenv("LD_PRELOAD", value, 1);
	free(value);
	return true;
}

/* The file that execvp would run. */
static bool find_program(const char *command, char *path, size_t n)
{
	if (strchr(command, '/')) {
		snprintf(path, n, "%s", command);
		return access(path, X_OK) == 0;
	}
	const char *dirs = getenv("PATH");
	while (dirs) {
		size_t length = strcspn(dirs, ":");
		snprintf(path, n, "%.*s/%s", (int)length, length ? dirs : ".", command);
		if (access(path, X_OK) == 0)
			return true;
		dirs = dirs[length] ? dirs + length + 1 : NULL;
	}
	return false;
}

static const char *elf_obstacle(int fd, const Elf64_Ehdr *head)
{
	Elf64_Phdr program;
	if (head->e_ident[EI_CLASS] != ELFCLASS64)
		return "it is a 32-bit program";
	for (unsigned i = 0; i < head->e_phnum; i++) {
		off_t at = (off_t)(head->e_phoff + (uint64_t)i * head->e_phentsize);
		if (pread(fd, &program, sizeof program, at) != sizeof program)
			return NULL;
		if (program.p_type == PT_INTERP)
			return NULL;
	}
	return "it is statically linked";
}

/* The program named in the first line of a script, in place. */
static bool interpreter(char *line, const char **name)
{
	line[strcspn(line, "\n")] = '\0';
	line += 2;
	line += strspn(line, " \t");
	*name = line;
	line[strcspn(line, " \t")] = '\0';
	return *line != '\0';
}

static const char *file_obstacle(const char *path, unsigned depth)
{
	char head[4096] = {0};
	struct stat st;
	const char *why = NULL, *next;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || pread(fd, head, sizeof head - 1, 0) < 4)
		why = NULL;
	else if (st.st_mode & (S_ISUID | S_ISGID))
		why = st.st_mode & S_ISUID ? "it is set-user-ID" : "it is set-group-ID";
	else if (memcmp(head, ELFMAG, SELFMAG) == 0)
		why = elf_obstacle(fd, (const Elf64_Ehdr *)head);
	else if (head[0] == '#' && head[1] == '!' && depth < 4 && interpreter(head, &next))
		why = file_obstacle(next, depth + 1);
	if (fd >= 0)
		close(fd);
	return why;
}

const char *gm_preload_obstacle(const char *command)
{
	char path[PATH_MAX];
	return find_program(command, path, sizeof path) ? file_obstacle(path, 0) : NULL;
}
