/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"

/* As in linux/dirent.h, for which the C library has no header. */
struct entry {
	uint64_t inode, next;
	uint16_t length;
	unsigned char type;
	char name[];
};

int gm_entries_visit(int folder, bool (*visit)(void *arg, const char *name), void *arg)
{
	_Alignas(8) char entries[4096];
	long n;
	while ((n = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
		for (long at = 0; at < n;) {
			const struct entry *entry = (const struct entry *)(entries + at);
			if (entry->name[0] != '.' && visit(arg, entry->name))
				return 1;
			at += entry->length;
		}
	return n < 0 ? -1 : 0;
}

static bool begins(void *beginning, const char *name)
{
	return strncmp(name, beginning, strlen(beginning)) == 0;
}

bool gm_entries_lack(const char *folder, const char *beginning)
{
	const int before = errno;
	int fd = gm_sys_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	bool lacks = fd < 0 && errno == ENOENT;
	if (fd >= 0) {
		lacks = gm_entries_visit(fd, begins, (void *)beginning) == 0;
		gm_sys_close(fd);
	}
	errno = before;
	return lacks;
}
