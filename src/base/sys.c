/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define KERNEL_SIGSET ((long)sizeof(uint64_t)) /* the kernel's part of a sigset_t */

#if defined __x86_64__
static long syscall_raw(long number, long a, long b, long c, long d, long e)
{
	long result;
	register long fourth __asm__("r10") = d, fifth __asm__("r8") = e;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined __aarch64__
static long syscall_raw(long number, long a, long b, long c, long d, long e)
{
	register long number_register __asm__("x8") = number;
	register long first __asm__("x0") = a, second __asm__("x1") = b;
	register long third __asm__("x2") = c, fourth __asm__("x3") = d, fifth __asm__("x4") = e;
	__asm__ volatile("svc 0"
			 : "+r"(first)
			 : "r"(number_register), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
			 : "memory");
	return first;
}
#endif

static long syscall_five(long number, long a, long b, long c, long d, long e)
{
	long result = syscall_raw(number, a, b, c, d, e);
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

static long syscall_errno(long number, long a, long b, long c, long d)
{
	return syscall_five(number, a, b, c, d, 0);
}

int gm_sys_open(const char *path, int flags, mode_t mode)
{
	return (int)syscall_errno(SYS_openat, AT_FDCWD, (long)path, flags, (long)mode);
}

int gm_sys_close(int fd)
{
	return (int)syscall_errno(SYS_close, fd, 0, 0, 0);
}

/* On 64-bit systems the kernel's struct stat is the C library's. */
int gm_sys_fstat(int fd, struct stat *out)
{
	return (int)syscall_errno(SYS_fstat, fd, (long)out, 0, 0);
}

int gm_sys_ftruncate(int fd, uint64_t length)
{
	return (int)syscall_errno(SYS_ftruncate, fd, (long)length, 0, 0);
}

int gm_sys_unlink(const char *path)
{
	return (int)syscall_errno(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0);
}

ssize_t gm_sys_read(int fd, void *to, size_t n)
{
	return syscall_errno(SYS_read, fd, (long)to, (long)n, 0);
}

ssize_t gm_sys_write(int fd, const void *from, size_t n)
{
	return syscall_errno(SYS_write, fd, (long)from, (long)n, 0);
}

ssize_t gm_sys_pwrite(int fd, const void *from, size_t n, uint64_t offset)
{
	return syscall_errno(SYS_pwrite64, fd, (long)from, (long)n, (long)offset);
}

ssize_t gm_sys_pread(int fd, void *to, size_t n, uint64_t offset)
{
	return syscall_errno(SYS_pread64, fd, (long)to, (long)n, (long)offset);
}

int gm_sys_fallocate(int fd, uint64_t offset, uint64_t length)
{
	return (int)syscall_errno(SYS_fallocate, fd, 0, (long)offset, (long)length);
}

/* On 64-bit systems the kernel's struct statfs is the C library's. */
int gm_sys_statfs(const char *path, struct statfs *out)
{
	return (int)syscall_errno(SYS_statfs, (long)path, (long)out, 0, 0);
}

int gm_sys_msync(const void *from, size_t n, int flags)
{
	return (int)syscall_errno(SYS_msync, (long)from, (long)n, flags, 0);
}

int gm_sys_fcntl(int fd, int command, int arg)
{
	return (int)syscall_errno(SYS_fcntl, fd, command, arg, 0);
}

void gm_sys_nap(uint64_t ns)
{
	const struct timespec nap = {.tv_sec = (time_t)(ns / 1000000000u),
				     .tv_nsec = (long)(ns % 1000000000u)};
	syscall_raw(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&nap, 0, 0);
}

bool gm_sys_can_write(int fd)
{
	struct pollfd about = {.fd = fd, .events = POLLOUT};
	struct timespec at_once = {0};
	return syscall_raw(SYS_ppoll, (long)&about, 1, (long)&at_once, 0, 0) == 1;
}

ssize_t gm_sys_random(void *to, size_t n)
{
	return syscall_errno(SYS_getrandom, (long)to, (long)n, GRND_NONBLOCK, 0);
}

/* --- sockets --- */

int gm_sys_socket(int family, int type)
{
	return (int)syscall_errno(SYS_socket, family, type, 0, 0);
}

int gm_sys_bind(int fd, const struct sockaddr *name, socklen_t n)
{
	return (int)syscall_errno(SYS_bind, fd, (long)name, n, 0);
}

int gm_sys_listen(int fd, int waiting)
{
	return (int)syscall_errno(SYS_listen, fd, waiting, 0, 0);
}

int gm_sys_accept(int fd, int flags)
{
	return (int)syscall_errno(SYS_accept4, fd, 0, 0, flags);
}

int gm_sys_connect(int fd, const struct sockaddr *name, socklen_t n)
{
	return (int)syscall_errno(SYS_connect, fd, (long)name, n, 0);
}

ssize_t gm_sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall_errno(SYS_sendmsg, fd, (long)message, flags, 0);
}

ssize_t gm_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall_errno(SYS_recvmsg, fd, (long)message, flags, 0);
}

int gm_sys_send_timeout(int fd, uint64_t ns)
{
	const uint64_t us = ns / 1000 + 1; /* 0 would be no limit */
	const struct timeval most = {.tv_sec = (time_t)(us / 1000000),
				     .tv_usec = (suseconds_t)(us % 1000000)};
	return (int)syscall_five(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, (long)&most,
				 sizeof most);
}

int gm_sys_peer_user(int fd, uid_t *user)
{
	struct ucred peer;
	socklen_t n = sizeof peer;
	if (syscall_five(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&n))
		return -1;
	*user = peer.uid;
	return 0;
}

int gm_sys_peer_pid(int fd)
{
	struct ucred peer;
	socklen_t n = sizeof peer;
	if (syscall_five(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&n))
		return 0;
	return peer.pid;
}

bool gm_sys_process_is_gone(int pid)
{
	return syscall_errno(SYS_kill, pid, 0, 0, 0) != 0 && errno == ESRCH;
}

int gm_sys_poll(struct pollfd *set, unsigned n, uint64_t ns)
{
	struct timespec most = {.tv_sec = (time_t)(ns / 1000000000u),
				.tv_nsec = (long)(ns % 1000000000u)};
	return (int)syscall_errno(SYS_ppoll, (long)set, n, (long)&most, 0);
}

int gm_sys_mask(int how, const sigset_t *signals, sigset_t *before)
{
	return (int)syscall_errno(SYS_rt_sigprocmask, how, (long)signals, (long)before,
				  KERNEL_SIGSET);
}

bool gm_sys_is_handled(int signal)
{
	/* The kernel's struct sigaction, which begins with the handler. */
	union {
		void (*handler)(int);
		uint64_t room[4];
	} action = {0};
	if (syscall_errno(SYS_rt_sigaction, signal, 0, (long)&action, KERNEL_SIGSET))
		return true;
	return action.handler != SIG_DFL && action.handler != SIG_IGN;
}

int gm_sys_take_signal(const sigset_t *signals)
{
	static const struct timespec at_once;
	return (int)syscall_errno(SYS_rt_sigtimedwait, (long)signals, 0, (long)&at_once,
				  KERNEL_SIGSET);
}
