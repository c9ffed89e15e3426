/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included before everything that ends up in the preload, so that one built on a new system also
 * loads into a container with glibc 2.28. Functions which a later glibc moved into libc.so under a
 * new version are bound to the version that they have had from the beginning. tests/preload reads
 * the versions that came out. Not in sanitizer builds, whose runtimes wrap the same functions.
 */
#ifndef GM_BASE_GLIBC_H
#define GM_BASE_GLIBC_H
#ifndef __ASSEMBLER__

#include <features.h>
#include <sys/stat.h>

/* Since 2.38 strtol and its kind are renamed to __isoc23_strtol for GNU programs. */
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0

#if defined __x86_64__
#define GM_GLIBC_FIRST "GLIBC_2.2.5"
#define GM_GLIBC_LATER(version) version
#define GM_GLIBC_STAT 1 /* the kernel's struct stat, in the words of __fxstat */
#elif defined __aarch64__
#define GM_GLIBC_FIRST "GLIBC_2.17" /* of everything older, too */
#define GM_GLIBC_LATER(version) GM_GLIBC_FIRST
#define GM_GLIBC_STAT 0
#else
#error "gpumem runs on x86-64 and AArch64"
#endif

#define GM_SYMVER(function, version) __asm__(".symver " #function "," #function "@" version);

/* 2.34 moved libdl into libc. */
GM_SYMVER(dladdr, GM_GLIBC_FIRST)
GM_SYMVER(dladdr1, GM_GLIBC_LATER("GLIBC_2.3.3"))
GM_SYMVER(dlclose, GM_GLIBC_FIRST)
GM_SYMVER(dlerror, GM_GLIBC_FIRST)
GM_SYMVER(dlinfo, GM_GLIBC_LATER("GLIBC_2.3.3"))
GM_SYMVER(dlopen, GM_GLIBC_FIRST)
GM_SYMVER(dlvsym, GM_GLIBC_FIRST)

/* 2.32 and 2.34 moved libpthread. */
GM_SYMVER(pthread_attr_setstacksize, GM_GLIBC_FIRST)
GM_SYMVER(pthread_condattr_setclock, GM_GLIBC_LATER("GLIBC_2.3.3"))
GM_SYMVER(pthread_create, GM_GLIBC_FIRST)
GM_SYMVER(pthread_detach, GM_GLIBC_FIRST)
GM_SYMVER(pthread_getspecific, GM_GLIBC_FIRST)
GM_SYMVER(pthread_join, GM_GLIBC_FIRST)
GM_SYMVER(pthread_key_create, GM_GLIBC_FIRST)
GM_SYMVER(pthread_key_delete, GM_GLIBC_FIRST)
GM_SYMVER(pthread_kill, GM_GLIBC_FIRST)
GM_SYMVER(pthread_mutex_timedlock, GM_GLIBC_FIRST)
GM_SYMVER(pthread_mutex_trylock, GM_GLIBC_FIRST)
GM_SYMVER(pthread_mutexattr_destroy, GM_GLIBC_FIRST)
GM_SYMVER(pthread_mutexattr_init, GM_GLIBC_FIRST)
GM_SYMVER(pthread_mutexattr_settype, GM_GLIBC_FIRST)
GM_SYMVER(pthread_once, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlock_destroy, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlock_init, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlock_rdlock, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlock_tryrdlock, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlock_trywrlock, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlock_unlock, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlock_wrlock, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlockattr_destroy, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlockattr_init, GM_GLIBC_FIRST)
GM_SYMVER(pthread_rwlockattr_setkind_np, GM_GLIBC_FIRST)
GM_SYMVER(pthread_setname_np, GM_GLIBC_LATER("GLIBC_2.12"))
GM_SYMVER(pthread_setspecific, GM_GLIBC_FIRST)
GM_SYMVER(pthread_sigmask, GM_GLIBC_FIRST)
GM_SYMVER(sem_destroy, GM_GLIBC_FIRST)
GM_SYMVER(sem_init, GM_GLIBC_FIRST)
GM_SYMVER(sem_post, GM_GLIBC_FIRST)
GM_SYMVER(sem_timedwait, GM_GLIBC_FIRST)
GM_SYMVER(sem_wait, GM_GLIBC_FIRST)

/* Before 2.33 fstat and stat were no functions but these. */
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
