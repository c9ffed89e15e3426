/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linked into libfaulty.so, a preload with all objects of libgpumem.so, whose calls of faulty.def
 * come here by --wrap. The file FAULTY, shared with faulty.py, says which call fails, and counts
 * the calls of each place.
 *
 * The wrappers have six arguments in place of those of the call: the calling conventions of x86-64
 * and AArch64 pass up to six numbers and pointers alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACES 1000

enum call {
#define FAULTY(function, how, errors) CALL_##function,
#define FAULTY_NUMBER(number, errors) CALL_##number,
#include "faulty.def"
#undef FAULTY
#undef FAULTY_NUMBER
};

/* faulty.py has the same: all numbers are of 32 bits. */
struct control {
	_Atomic uint32_t armed;
	uint32_t call; /* the row of faulty.def */
	uint32_t at;   /* the place: offset of the return address in the library */
	int32_t error;
	atomic_int before; /* calls of the place that succeed first */
	atomic_int times;  /* calls that fail */
	_Atomic uint32_t failed;
	_Atomic uint32_t n_places;
	struct {
		_Atomic uint32_t at;
		uint32_t call;
		_Atomic uint32_t made;
	} places[PLACES];
};

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
typedef long any(long, long, long, long, long, long);
extern any __real_mmap;

static struct control *control_find(void)
{
	static _Atomic(struct control *) found;
	struct control *control = atomic_load(&found);
	const char *path = getenv("FAULTY");
	if (control || !path)
		return control;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		abort();
	control = (struct control *)__real_mmap(0, sizeof *control, PROT_READ | PROT_WRITE,
						MAP_SHARED, fd, 0);
	close(fd);
	if (control == MAP_FAILED)
		abort();
	atomic_store(&found, control);
	return control;
}

/* Threads may add a place twice: faulty.py adds the numbers. */
static void place_count(struct control *control, uint32_t call, uint32_t at)
{
	uint32_t n = atomic_load(&control->n_places), i = 0;
	while (i < n &&
	       (atomic_load(&control->places[i].at) != at || control->places[i].call != call))
		i++;
	if (i == n) {
		i = atomic_fetch_add(&control->n_places, 1);
		if (i >= PLACES)
			abort();
		control->places[i].call = call;
		atomic_store(&control->places[i].at, at);
	}
	atomic_fetch_add(&control->places[i].made, 1);
}

/* Does this call fail? */
static bool call_fails(enum call call, const void *from, int *error)
{
	int saved = errno;
	struct control *control = control_find();
	uint32_t at = (uint32_t)((const char *)from - __ehdr_start);
	if (control)
		place_count(control, call, at);
	errno = saved;
	if (!control || !atomic_load(&control->armed) || control->call != call ||
	    control->at != at || atomic_fetch_sub(&control->before, 1) > 0 ||
	    atomic_fetch_sub(&control->times, 1) <= 0)
		return false;
	atomic_fetch_add(&control->failed, 1);
	*error = control->error;
	return true;
}

enum { DIES_BEFORE = -1, DIES_BEHIND = -2 }; /* in place of an errno: the process is killed */

enum how { ERROR, NUMBER, LATER, ONCE, SHORT };

static long call_make(any *real, enum how how, bool fails, int error, const long *a)
{
	long size = a[2];
	if (fails && error < 0) {
		if (error == DIES_BEHIND)
			real(a[0], a[1], a[2], a[3], a[4], a[5]);
		kill(getpid(), SIGKILL);
	}
	if (fails && how == NUMBER)
		return error;
	if (fails && how == SHORT && !error)
		size = size > 1 ? size / 2 : size;
	else if (fails && how != LATER) {
		errno = error;
		return -1;
	}
	long result = real(a[0], a[1], size, a[3], a[4], a[5]);
	if (!fails || how != LATER)
		return result;
	errno = error;
	return -1;
}

#define FAULTY(function, how, errors)                                                          \
	extern any __real_##function, __wrap_##function;                                       \
	long __wrap_##function(long a, long b, long c, long d, long e, long f)                 \
	{                                                                                      \
		int error = 0;                                                                 \
		const long args[] = {a, b, c, d, e, f};                                        \
		bool fails = call_fails(CALL_##function, __builtin_return_address(0), &error); \
		return call_make(__real_##function, how, fails, error, args);                  \
	}
#define FAULTY_NUMBER(number, errors)
#include "faulty.def"
#undef FAULTY
#undef FAULTY_NUMBER

static const struct {
	long number;
	enum call call;
} numbers[] = {
#define FAULTY(function, how, errors)
#define FAULTY_NUMBER(number, errors) {number, CALL_##number},
#include "faulty.def"
#undef FAULTY
#undef FAULTY_NUMBER
};

extern long __real_syscall(long, long, long, long, long, long, long);
extern long __wrap_syscall(long, long, long, long, long, long, long);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	const void *from = __builtin_return_address(0);
	int error;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i].number == number && call_fails(numbers[i].call, from, &error)) {
			errno = error;
			return -1;
		}
	return __real_syscall(number, a, b, c, d, e, f);
}
