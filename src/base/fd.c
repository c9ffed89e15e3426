/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/thread.h"

int gm_fd_raise(int fd)
{
	static const int lowest[] = {200, 3};
	int high = -1;
	for (size_t i = 0; high < 0 && i < sizeof lowest / sizeof *lowest; i++)
		high = gm_sys_fcntl(fd, F_DUPFD_CLOEXEC, lowest[i]);
	if (high < 0 && fd > STDERR_FILENO)
		return fd;
	gm_sys_close(fd);
	if (high < 0)
		errno = EMFILE;
	return high;
}

void gm_fd_quiet_begin(struct gm_fd_quiet *quiet)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGXFSZ);
	sigaddset(&signals, SIGPIPE);
	sigaddset(&signals, SIGTTOU);
	gm_thread_hold_cancel(); /* posix_fallocate may read and write: a cancellation point */
	if (sigpending(&quiet->pending))
		sigemptyset(&quiet->pending);
	gm_sys_mask(SIG_BLOCK, &signals, &quiet->before);
}

void gm_fd_quiet_end(struct gm_fd_quiet *quiet, int error)
{
	int sent = error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
	sigset_t taken;
	if (sent && !sigismember(&quiet->pending, sent)) {
		sigemptyset(&taken);
		sigaddset(&taken, sent);
		while (gm_sys_take_signal(&taken) < 0 && errno == EINTR)
			;
	}
	gm_sys_mask(SIG_SETMASK, &quiet->before, NULL);
	gm_thread_let_cancel();
}

int gm_fd_extend(int fd, uint64_t length)
{
	struct gm_fd_quiet quiet;
	gm_fd_quiet_begin(&quiet);
	int error;
	do
		error = gm_sys_ftruncate(fd, length) ? errno : 0;
	while (error == EINTR);
	gm_fd_quiet_end(&quiet, error);
	return error;
}

bool gm_fd_identify(int fd, struct gm_fd_identity *out)
{
	struct stat st;
	if (gm_sys_fstat(fd, &st))
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
