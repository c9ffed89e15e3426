/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/fd.h"

#include <fcntl.h>
#include <unistd.h>

#define LOWEST 200

int gm_fd_raise(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

bool gm_fd_identify(int fd, struct gm_fd_identity *out)
{
	struct stat st;
	if (fstat(fd, &st))
		return false;
	out->device = st.st_dev;
	out->inode = st.st_ino;
	return true;
}

bool gm_fd_is(int fd, const struct gm_fd_identity *identity)
{
	struct gm_fd_identity now;
	return gm_fd_identify(fd, &now) && now.device == identity->device &&
	       now.inode == identity->inode;
}
