/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlsym with its first version, where base/glibc.h does not rename it: the preload has a dlsym of
 * its own. For gpumemstat and libgpumem-core; the linker's --wrap leads calls here. They also link
 * libdl.so.2 and libpthread.so.0 by name, which are empty since glibc 2.34, and hold functions of
 * libdl and libpthread before.
 */
#include <dlfcn.h>

#ifdef GM_BASE_GLIBC_H /* not in sanitizer builds */

extern __typeof__(dlsym) dlsym_old;
__asm__(".symver dlsym_old,dlsym@" GM_GLIBC_FIRST);

__typeof__(dlsym) __wrap_dlsym;

void *__wrap_dlsym(void *object, const char *name)
{
	return dlsym_old(object, name);
}

#endif
