/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors inside somebody else's program: out of the way of the numbers it counts on, and
 * never trusted to be still ours, because a program may close (and open) whatever number it likes.
 */
#ifndef GM_LOG_FD_H
#define GM_LOG_FD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* The same file under a number of at least 200 if there is one, close-on-exec; `fd` is closed then.
 * Never one of the standard three, which the program may have closed and still write to: -1, EMFILE
 * and `fd` closed, if no other is free. */
int gm_fd_raise(int fd);

/*
 * A file that grows beyond RLIMIT_FSIZE sends SIGXFSZ to the thread: between these two it waits,
 * and is taken away if the call between them answered EFBIG.
 */
struct gm_fd_quiet {
	sigset_t before, limit;
	bool pending;
};
void gm_fd_quiet_begin(struct gm_fd_quiet *quiet);
void gm_fd_quiet_end(struct gm_fd_quiet *quiet, int error);

/* Set a file's length, without that signal. Returns 0 or an errno. */
int gm_fd_extend(int fd, uint64_t length);

/* What a descriptor is, to recognise it by. */
struct gm_fd_identity {
	dev_t device;
	ino_t inode;
};

/* False if `fd` is not open. */
bool gm_fd_identify(int fd, struct gm_fd_identity *out);

/* True if `fd` is open on that very file. */
bool gm_fd_is(int fd, const struct gm_fd_identity *identity);

#endif
