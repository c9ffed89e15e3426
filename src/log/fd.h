/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors inside somebody else's program: out of the way of the numbers it counts on, and
 * never trusted to be still ours, because a program may close (and open) whatever number it likes.
 */
#ifndef GM_LOG_FD_H
#define GM_LOG_FD_H

#include <stdbool.h>
#include <sys/stat.h>

/* The same file under a number of at least 200 if there is one, close-on-exec; `fd` is closed then.
 * Returns a valid descriptor always (given one). */
int gm_fd_raise(int fd);

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
