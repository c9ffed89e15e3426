/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel shows a user that this user namespace does not map as the overflow user. In a
 * namespace that does not map all users, that number is everybody's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "rpc/wire.h"

#define OVERFLOW_USER 65534u /* the kernel's default */

/* The start of a file, or "". */
static void file_read(const char *path, char text[1024])
{
	ssize_t n = -1;
	int fd = gm_sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		do
			n = gm_sys_read(fd, text, 1023);
		while (n < 0 && errno == EINTR);
		gm_sys_close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
}

static unsigned long overflow_user(void)
{
	char text[1024];
	file_read("/proc/sys/kernel/overflowuid", text);
	return *text ? strtoul(text, NULL, 10) : OVERFLOW_USER;
}

/* The namespace of the machine has one line: "0 0 4294967295". */
static bool all_users_are_mapped(void)
{
	char text[1024], *at;
	file_read("/proc/self/uid_map", text);
	strtoul(text, &at, 10);
	strtoul(at, &at, 10);
	return strtoul(at, NULL, 10) == UINT32_MAX;
}

bool gm_rpc_user_is_known(void)
{
	return geteuid() != overflow_user() || all_users_are_mapped();
}
