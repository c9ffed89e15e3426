/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that replaces functions of the C library, and cannot serve them after its finalisation:
 * a later call ends the process with status 99 and prints the function's name.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool ended;

__attribute__((destructor)) static void end(void)
{
	ended = true;
}

static long serve(const char *name, long number, long a, long b, long c, long d)
{
	if (!ended)
		return syscall(number, a, b, c, d);
	syscall(SYS_write, 1, name, strlen(name));
	syscall(SYS_write, 1, " after the end\n", 15);
	syscall(SYS_exit_group, 99);
	return -1;
}

/* Named differently in C: the system's headers declare the functions with other types. */
#define SERVE(name, number, parameters, a, b, c, d)                                      \
	long ended_##name parameters __asm__(#name);                                     \
	long ended_##name parameters                                                     \
	{                                                                                \
		return serve(#name, number, (long)(a), (long)(b), (long)(c), (long)(d)); \
	}

SERVE(fstat, SYS_fstat, (int fd, void *to), fd, to, 0, 0)
SERVE(__fxstat, SYS_fstat, (int version, int fd, void *to), fd, to, 0 * version, 0)
SERVE(close, SYS_close, (int fd), fd, 0, 0, 0)
SERVE(fcntl, SYS_fcntl, (int fd, int command, long arg), fd, command, arg, 0)
SERVE(ftruncate, SYS_ftruncate, (int fd, int64_t length), fd, length, 0, 0)
SERVE(open, SYS_openat, (const char *path, int flags, long mode), -100, path, flags, mode)
SERVE(pwrite, SYS_pwrite64, (int fd, const void *from, size_t n, int64_t offset), fd, from, n,
      offset)
SERVE(read, SYS_read, (int fd, void *to, size_t n), fd, to, n, 0)
SERVE(unlink, SYS_unlinkat, (const char *path), -100, path, 0, 0)
SERVE(nanosleep, SYS_nanosleep, (const struct timespec *time, struct timespec *left), time, left, 0,
      0)
SERVE(clock_nanosleep, SYS_clock_nanosleep,
      (int clock, int flags, const struct timespec *time, struct timespec *left), clock, flags,
      time, left)
