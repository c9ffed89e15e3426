/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls without the C library. The library's functions are cancellation points, where a
 * thread may end while it holds a lock; and they may be interposed by libraries that are finalised
 * earlier at exit. On failure all return -1 and set errno. Any thread.
 */
#ifndef GM_BASE_SYS_H
#define GM_BASE_SYS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

int gm_sys_open(const char *path, int flags, mode_t mode);
int gm_sys_close(int fd);
int gm_sys_fstat(int fd, struct stat *out);
int gm_sys_ftruncate(int fd, uint64_t length);
int gm_sys_unlink(const char *path);
ssize_t gm_sys_read(int fd, void *to, size_t n);
ssize_t gm_sys_write(int fd, const void *from, size_t n);
ssize_t gm_sys_pread(int fd, void *to, size_t n, uint64_t offset);
ssize_t gm_sys_pwrite(int fd, const void *from, size_t n, uint64_t offset);

/* fallocate: reserve [offset, +length) of the file, and extend the file to its end. */
int gm_sys_fallocate(int fd, uint64_t offset, uint64_t length);
int gm_sys_statfs(const char *path, struct statfs *out);

int gm_sys_msync(const void *from, size_t n, int flags);

/* fcntl with a command that takes a number or nothing. */
int gm_sys_fcntl(int fd, int command, int arg);

/* Sleep for `ns` nanoseconds, or until a signal is handled. */
void gm_sys_nap(uint64_t ns);

/* False if a write to the descriptor would wait. True also if it would fail. */
bool gm_sys_can_write(int fd);

/* Random bytes, at most 256. Returns n. Fails instead of waiting for random bytes. */
ssize_t gm_sys_random(void *to, size_t n);

int gm_sys_socket(int family, int type);
int gm_sys_bind(int fd, const struct sockaddr *name, socklen_t n);
int gm_sys_listen(int fd, int waiting);
int gm_sys_accept(int fd, int flags); /* of accept4 */
int gm_sys_connect(int fd, const struct sockaddr *name, socklen_t n);
ssize_t gm_sys_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t gm_sys_recvmsg(int fd, struct msghdr *message, int flags);

/* Limit the wait of each connect and send on the socket to `ns`. */
int gm_sys_send_timeout(int fd, uint64_t ns);

/* The effective user of the process at the other end of a socket, as of its connect or listen. */
int gm_sys_peer_user(int fd, uid_t *user);

/* Its process id in this pid namespace; 0: it is outside, or the descriptor is no socket. */
int gm_sys_peer_pid(int fd);

/* True if no process has this id. A process that waits to be reaped has it. */
bool gm_sys_process_is_gone(int pid);

/* ppoll, for `ns` at most. */
int gm_sys_poll(struct pollfd *set, unsigned n, uint64_t ns);

/* pthread_sigmask, without libpthread. */
int gm_sys_mask(int how, const sigset_t *signals, sigset_t *before);

/* Has the process a function that handles the signal? True also if the kernel does not say. */
bool gm_sys_is_handled(int signal);

/* Take a pending signal out of `signals` and return its number; does not wait. */
int gm_sys_take_signal(const sigset_t *signals);

#endif
