/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

int gm_fd_raise(int fd)
{
	static const int lowest[] = {200, 3};
	int high = -1;
	for (size_t i = 0; high < 0 && i < sizeof lowest / sizeof *lowest; i++)
		high = fcntl(fd, F_DUPFD_CLOEXEC, lowest[i]);
	if (high < 0 && fd > STDERR_FILENO)
		return fd;
	close(fd);
	if (high < 0)
		errno = EMFILE;
	return high;
}

void gm_fd_quiet_begin(struct gm_fd_quiet *quiet)
{
	sigset_t pending;
	sigemptyset(&quiet->limit);
	sigaddset(&quiet->limit, SIGXFSZ);
	quiet->pending = !sigpending(&pending) && sigismember(&pending, SIGXFSZ) == 1;
	pthread_sigmask(SIG_BLOCK, &quiet->limit, &quiet->before);
}

void gm_fd_quiet_end(struct gm_fd_quiet *quiet, int error)
{
	static const struct timespec at_once;
	if (error == EFBIG && !quiet->pending)
		while (sigtimedwait(&quiet->limit, NULL, &at_once) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

int gm_fd_extend(int fd, uint64_t length)
{
	struct gm_fd_quiet quiet;
	gm_fd_quiet_begin(&quiet);
	int error = ftruncate(fd, (off_t)length) ? errno : 0;
	gm_fd_quiet_end(&quiet, error);
	return error;
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
