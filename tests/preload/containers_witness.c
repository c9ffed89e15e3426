/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded before libgpumem.so: writes a line on standard error for each of these calls that
 * libgpumem.so makes (except tail calls, which hide their caller), and a byte to the file
 * WITNESS_COUNT for each process that has loaded both libraries.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static uintptr_t begin, end; /* address range of libgpumem.so */

static int find(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	(void)size, (void)unused;
	if (!slash || strcmp(slash, "/libgpumem.so") != 0)
		return 0;
	begin = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type == PT_LOAD && begin + p->p_vaddr + p->p_memsz > end)
			end = begin + p->p_vaddr + p->p_memsz;
	}
	return 1;
}

__attribute__((constructor)) static void count(void)
{
	const char *file = getenv("WITNESS_COUNT");
	if (!file || !dl_iterate_phdr(find, NULL))
		return;
	long fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND);
	syscall(SYS_write, fd, ".", 1L);
	syscall(SYS_close, fd);
}

static void report(const char *function, const void *caller)
{
	static const char says[] = "libgpumem.so calls ";
	if (!end) /* libgpumem.so's constructors, if any, run before ours */
		dl_iterate_phdr(find, NULL);
	if ((uintptr_t)caller - begin >= end - begin)
		return;
	syscall(SYS_write, 2L, says, sizeof says - 1);
	syscall(SYS_write, 2L, function, strlen(function));
	syscall(SYS_write, 2L, "\n", 1L);
}
#define REPORT(function) report(function, __builtin_return_address(0))

static long answer(const char *function, const void *caller, long result)
{
	report(function, caller);
	return result;
}
#define ANSWER(function, result) answer(function, __builtin_return_address(0), result)

static mode_t mode_of(int flags, va_list more)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	mode_t mode = mode_of(flags, more);
	va_end(more);
	return (int)ANSWER("open", syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int fd, const void *data, size_t n)
{
	return ANSWER("write", syscall(SYS_write, fd, data, n));
}

int memfd_create(const char *name, unsigned flags)
{
	return (int)ANSWER("memfd_create", syscall(SYS_memfd_create, name, flags));
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return (void *)ANSWER("mmap", syscall(SYS_mmap, at, size, protection, flags, fd, offset));
}

void *dlopen(const char *file, int mode)
{
	void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	REPORT("dlopen");
	return next(file, mode);
}

char *secure_getenv(const char *name)
{
	REPORT("secure_getenv");
	return getenv(name);
}

void *malloc(size_t size)
{
	REPORT("malloc");
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	REPORT("calloc");
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	REPORT("realloc");
	return __libc_realloc(old, size);
}
