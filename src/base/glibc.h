/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included before every source of the preload, so that a preload built on a new system also loads
 * into a container with glibc 2.28. tests/preload checks the versions of its symbols. Not used in
 * sanitizer builds, whose runtimes wrap the same functions.
 */
#ifndef GM_BASE_GLIBC_H
#define GM_BASE_GLIBC_H
#ifndef __ASSEMBLER__

#include <dlfcn.h>
#include <features.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>

/* Since 2.38, strtol and its relatives are renamed to __isoc23_strtol for GNU programs. */
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0

#if defined __x86_64__
#define GM_GLIBC_FIRST "GLIBC_2.2.5"
#define GM_GLIBC_LATER(version) version
#define GM_GLIBC_STAT 1 /* __fxstat's number for the kernel's struct stat */
#elif defined __aarch64__
#define GM_GLIBC_FIRST "GLIBC_2.17" /* the oldest version of this architecture */
#define GM_GLIBC_LATER(version) GM_GLIBC_FIRST
#define GM_GLIBC_STAT 0
#else
#error "gpumem runs on x86-64 and AArch64"
#endif

#define GM_SYMVER(function, version) __asm__(".symver " #function "," #function "@" version);

/*
 * The functions of libdl and libpthread. The preload does not link with the two libraries: as of
 * glibc 2.34 they are empty, and loading them cost each started process more than all the rest of
 * the preload. So each function is a weak reference behind a pointer, gm_glibc_late_<function>.
 * Before 2.34 a program may start without the libraries; shim/entry/glibc_late.c fills in the
 * missing pointers once libcuda has loaded them. A musl program has no CUDA and none of these
 * functions, but must start.
 *
 * A build on glibc before 2.34 links with both libraries and needs none of this.
 */
#if __GLIBC_PREREQ(2, 34)
#define GM_GLIBC_LATE 1
/* The function behind pthread_atfork. Unloading `object` removes the handlers; NULL: they stay. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
			     void *object);

#define GM_GLIBC_LATE_ROW(function, version) extern __typeof__(function) *gm_glibc_late_##function;
#include "base/glibc.def"
#undef GM_GLIBC_LATE_ROW

#define dladdr(...) gm_glibc_late_dladdr(__VA_ARGS__)
#define dlclose(...) gm_glibc_late_dlclose(__VA_ARGS__)
#define dlerror(...) gm_glibc_late_dlerror(__VA_ARGS__)
#define dlopen(...) gm_glibc_late_dlopen(__VA_ARGS__)
#define dlvsym(...) gm_glibc_late_dlvsym(__VA_ARGS__)
#define pthread_atfork(...) gm_glibc_late___register_atfork(__VA_ARGS__, NULL)
#define pthread_create(...) gm_glibc_late_pthread_create(__VA_ARGS__)
#define pthread_key_create(...) gm_glibc_late_pthread_key_create(__VA_ARGS__)
#define pthread_mutex_trylock(...) gm_glibc_late_pthread_mutex_trylock(__VA_ARGS__)
#define pthread_once(...) gm_glibc_late_pthread_once(__VA_ARGS__)
#define pthread_rwlock_destroy(...) gm_glibc_late_pthread_rwlock_destroy(__VA_ARGS__)
#define pthread_rwlock_init(...) gm_glibc_late_pthread_rwlock_init(__VA_ARGS__)
#define pthread_rwlock_rdlock(...) gm_glibc_late_pthread_rwlock_rdlock(__VA_ARGS__)
#define pthread_rwlock_unlock(...) gm_glibc_late_pthread_rwlock_unlock(__VA_ARGS__)
#define pthread_rwlock_wrlock(...) gm_glibc_late_pthread_rwlock_wrlock(__VA_ARGS__)
#define pthread_rwlockattr_destroy(...) gm_glibc_late_pthread_rwlockattr_destroy(__VA_ARGS__)
#define pthread_rwlockattr_init(...) gm_glibc_late_pthread_rwlockattr_init(__VA_ARGS__)
#define pthread_rwlockattr_setkind_np(...) gm_glibc_late_pthread_rwlockattr_setkind_np(__VA_ARGS__)
#define pthread_setspecific(...) gm_glibc_late_pthread_setspecific(__VA_ARGS__)
#define pthread_sigmask(...) gm_glibc_late_pthread_sigmask(__VA_ARGS__)

/* A row of glibc.def. */
struct gm_glibc_late {
	const char *function;
	void **address; /* of gm_glibc_late_<function>, which is NULL until the function is found */
};
extern const struct gm_glibc_late gm_glibc_late_table[];
extern const unsigned gm_glibc_late_count;
#endif

/* Before 2.33, glibc exported these two functions in place of fstat and stat. */
GM_SYMVER(__fxstat, GM_GLIBC_FIRST)
GM_SYMVER(__xstat, GM_GLIBC_FIRST)
extern int __fxstat(int version, int fd, struct stat *out);
extern int __xstat(int version, const char *path, struct stat *out);

static inline int gm_glibc_fstat(int fd, struct stat *out)
{
	return __fxstat(GM_GLIBC_STAT, fd, out);
}
#define fstat(fd, out) gm_glibc_fstat(fd, out)

static inline int gm_glibc_stat(const char *path, struct stat *out)
{
	return __xstat(GM_GLIBC_STAT, path, out);
}
#define stat(path, out) gm_glibc_stat(path, out)

#endif
#endif
