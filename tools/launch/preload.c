/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/launch/preload.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/tool.h"

#ifndef GM_LIBDIR
#define GM_LIBDIR "/usr/local/lib"
#endif

enum { SCRIPTS_MOST = 4 }; /* the kernel's limit */

/* Open a file and read its first bytes, terminated. -1: it cannot be read. */
static int head_open(const char *path, char *head, size_t n, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t got = -1;
	if (fd >= 0 && fstat(fd, st) == 0)
		got = pread(fd, head, n - 1, 0);
	head[got > 0 ? got : 0] = '\0';
	if (got >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool file_is_elf(const char *path)
{
	char head[SELFMAG + 1];
	struct stat st;
	int fd = head_open(path, head, sizeof head, &st);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && memcmp(head, ELFMAG, SELFMAG) == 0;
}

/* Replace a path by its folder; "" is the root. */
static void folder_leave(char *path)
{
	char *slash = strrchr(path, '/');
	*(slash ? slash : path) = '\0';
}

bool gm_preload_find(char *path, size_t n)
{
	/* Relative to this program: in a build, in the same folder, as installed by packages. */
	static const struct {
		unsigned up; /* folders */
		const char *name;
	} places[] = {{0, ".libs/libgpumem.so"},
		      {0, "libgpumem.so"},
		      {1, "lib/libgpumem.so"},
		      {1, "lib64/libgpumem.so"}};
	char self[PATH_MAX];
	const char *given = getenv("GPUMEM_LIBRARY_PATH");
	if (given && *given) {
		bool there = realpath(given, self);
		snprintf(path, n, "%s", self);
		if (there && file_is_elf(self))
			return true;
		gm_tool_error("GPUMEM_LIBRARY_PATH=%s: %s", given,
			      there ? "not a library" : "no such file");
		return false;
	}
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	self[length > 0 ? length : 0] = '\0';
	for (size_t i = 0, up = 0; i < sizeof places / sizeof *places; i++) {
		for (; up <= places[i].up; up++)
			folder_leave(self);
		snprintf(path, n, "%s/%s", self, places[i].name);
		if (access(path, R_OK) == 0)
			return true;
	}
	snprintf(path, n, "%s/libgpumem.so", GM_LIBDIR);
	if (access(path, R_OK) == 0)
		return true;
	gm_tool_error("libgpumem.so is neither beside this program, nor in ../lib, nor in %s: set "
		      "GPUMEM_LIBRARY_PATH",
		      GM_LIBDIR);
	return false;
}

static bool name_is_ours(const char *path, size_t n)
{
	static const char ours[] = "libgpumem.so";
	const size_t length = sizeof ours - 1;
	return n >= length && memcmp(path + n - length, ours, length) == 0 &&
	       (n == length || path[n - length - 1] == '/');
}

bool gm_preload_set(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *value = malloc(strlen(library) + (old ? strlen(old) : 0) + 2);
	size_t at = 0;
	if (strpbrk(library, ": ") || !value) {
		gm_tool_error("%s: LD_PRELOAD cannot name a file with a blank or a colon", library);
		free(value);
		return false;
	}
	while (old && *old) {
		size_t n = strcspn(old, ": ");
		if (n && !name_is_ours(old, n)) {
			memcpy(value + at, old, n);
			at += n;
			value[at++] = ':';
		}
		old += n + (old[n] != '\0');
	}
	strcpy(value + at, library);
	setenv("LD_PRELOAD", value, 1);
	free(value);
	return true;
}

bool gm_preload_resolve(const char *command, char *path, size_t n)
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
	return "it is statically linked; link it dynamically (the CUDA runtime may stay static)";
}

/* The interpreter in the first line of a script, in place; NULL: no script. */
static const char *script_interpreter(char *head)
{
	if (head[0] != '#' || head[1] != '!')
		return NULL;
	head += 2;
	head[strcspn(head, "\n")] = '\0';
	head += strspn(head, " \t");
	head[strcspn(head, " \t")] = '\0';
	return *head ? head : NULL;
}

/* The loader ignores LD_PRELOAD for programs with more rights than their user. */
const char *gm_preload_rights(int fd, const struct stat *st)
{
	if (st->st_mode & S_ISUID && st->st_uid != getuid())
		return "it is set-user-ID";
	if (st->st_mode & S_ISGID && st->st_mode & S_IXGRP && st->st_gid != getgid())
		return "it is set-group-ID";
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "it has file capabilities";
	return NULL;
}

static const char *file_obstacle(const char *path, unsigned depth)
{
	union {
		char text[4096];
		Elf64_Ehdr elf;
	} head = {0};
	struct stat st;
	const char *next, *why = NULL;
	int fd = head_open(path, head.text, sizeof head.text, &st);
	if (fd < 0)
		return NULL;
	/* A script runs with the rights of its interpreter; its own mode bits have no effect. */
	if (memcmp(head.text, ELFMAG, SELFMAG) == 0) {
		why = gm_preload_rights(fd, &st);
		if (!why)
			why = elf_obstacle(fd, &head.elf);
	} else if ((next = script_interpreter(head.text)) && depth < SCRIPTS_MOST)
		why = file_obstacle(next, depth + 1);
	close(fd);
	return why;
}

const char *gm_preload_obstacle(const char *command)
{
	char path[PATH_MAX];
	return gm_preload_resolve(command, path, sizeof path) ? file_obstacle(path, 0) : NULL;
}

bool gm_preload_interpreter_missing(const char *command, char *missing, size_t n)
{
	char path[PATH_MAX], head[4096];
	struct stat st;
	int fd = gm_preload_resolve(command, path, sizeof path)
			 ? head_open(path, head, sizeof head, &st)
			 : -1;
	const char *name = fd >= 0 ? script_interpreter(head) : NULL;
	if (fd >= 0)
		close(fd);
	if (!name || access(name, F_OK) == 0)
		return false;
	snprintf(missing, n, "%s", name);
	return true;
}
