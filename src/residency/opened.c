/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/opened.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/entries.h"
#include "base/sys.h"

#define FOLDER "/proc/self/fd"
#define MAPS "/proc/self/maps"
#define PATH_ROOM 512 /* for a path; a longer path is cut */

static const struct {
	unsigned first, last;
} majors[] = {
#define GM_HARMLESS_MAJOR(first, last) {first, last},
#define GM_HARMLESS(pattern)
#include "residency/harmless.def"
#undef GM_HARMLESS_MAJOR
#undef GM_HARMLESS
};

static const char *const patterns[] = {
#define GM_HARMLESS_MAJOR(first, last)
#define GM_HARMLESS(pattern) pattern,
#include "residency/harmless.def"
#undef GM_HARMLESS_MAJOR
#undef GM_HARMLESS
};

bool gm_opened_is_harmless(const char *path, unsigned major)
{
	for (size_t i = 0; i < sizeof majors / sizeof *majors; i++)
		if (major >= majors[i].first && major <= majors[i].last)
			return true;
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
		if (fnmatch(patterns[i], path, 0) == 0)
			return true;
	return false;
}

static bool name_set(char *name, size_t size, const char *path)
{
	snprintf(name, size, "%s", path);
	return true;
}

/* --- descriptors --- */

static bool descriptor_check(const char *number, char *name, size_t size)
{
	char link[64], path[PATH_ROOM];
	struct stat found;
	if (gm_sys_fstat(atoi(number), &found) != 0 || !S_ISCHR(found.st_mode))
		return false;
	snprintf(link, sizeof link, FOLDER "/%s", number);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return false; /* closed meanwhile */
	path[n] = '\0';
	return !gm_opened_is_harmless(path, major(found.st_rdev)) && name_set(name, size, path);
}

struct finding {
	char *name;
	size_t size;
};

static bool entry_check(void *arg, const char *number)
{
	const struct finding *found = arg;
	return descriptor_check(number, found->name, found->size);
}

static bool descriptors_check(int folder, char *name, size_t size)
{
	int found = gm_entries_visit(folder, entry_check, &(struct finding){name, size});
	return found > 0 || (found < 0 && name_set(name, size, FOLDER));
}

/* --- mappings, which keep a device open when its descriptor is closed --- */

/* Check a line of MAPS without its newline: addresses, rights, offset, device, inode, path. */
static bool mapping_check(const char *line, char *name, size_t size)
{
	const char *path = strchr(line, '/');
	return path && strncmp(path, "/dev/", 5) == 0 && !gm_opened_is_harmless(path, UINT_MAX) &&
	       name_set(name, size, path);
}

static bool mappings_check(int maps, char *name, size_t size)
{
	char line[PATH_ROOM], text[4096];
	size_t length = 0;
	ssize_t n;
	while ((n = gm_sys_read(maps, text, sizeof text)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] != '\n') {
				if (length < sizeof line - 1)
					line[length++] = text[i];
				continue;
			}
			line[length] = '\0';
			length = 0;
			if (mapping_check(line, name, size))
				return true;
		}
	return n < 0 && name_set(name, size, MAPS);
}

static bool file_check(const char *path, int flags, bool (*check)(int, char *, size_t), char *name,
		       size_t size)
{
	int fd = gm_sys_open(path, O_RDONLY | O_CLOEXEC | flags, 0);
	if (fd < 0)
		return name_set(name, size, path);
	bool found = check(fd, name, size);
	gm_sys_close(fd);
	return found;
}

bool gm_opened_find_mapped(const char *maps, char *name, size_t size)
{
	return file_check(maps, 0, mappings_check, name, size);
}

bool gm_opened_find(char *name, size_t size)
{
	return file_check(FOLDER, O_DIRECTORY, descriptors_check, name, size) ||
	       gm_opened_find_mapped(MAPS, name, size);
}
