/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors inside a foreign program. They keep clear of the numbers that the program
 * expects, and ownership is checked before use: the program may close any number and open another
 * file under it.
 */
#ifndef GM_BASE_FD_H
#define GM_BASE_FD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Duplicate `fd` to a free number of at least 200 (else at least 3), close-on-exec, and close `fd`.
 * Never returns 0 to 2: the program may have closed them and still write to them. If no other
 * number is free: -1, errno EMFILE, `fd` closed. */
int gm_fd_raise(int fd);

/*
 * A write may raise a signal: SIGXFSZ beyond RLIMIT_FSIZE, SIGPIPE without a reader, SIGTTOU (to
 * the whole job) where a terminal stops background writers. begin blocks the three in the calling
 * thread. end discards SIGXFSZ if the call between failed with EFBIG, SIGPIPE if with EPIPE, and
 * unblocks. Every begin needs an end on the same thread; in between, the thread cannot be
 * cancelled.
 */
struct gm_fd_quiet {
	sigset_t before, pending;
};
void gm_fd_quiet_begin(struct gm_fd_quiet *quiet);
void gm_fd_quiet_end(struct gm_fd_quiet *quiet, int error);

/* ftruncate without a signal. Returns 0 or an errno. */
int gm_fd_extend(int fd, uint64_t length);

/* The file behind a descriptor. */
struct gm_fd_identity {
	dev_t device;
	ino_t inode;
};

/* False if `fd` is not open. */
bool gm_fd_identify(int fd, struct gm_fd_identity *out);

/* True if `fd` is open on this file. */
bool gm_fd_is(int fd, const struct gm_fd_identity *identity);

#endif
