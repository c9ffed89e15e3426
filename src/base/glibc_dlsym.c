/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binds dlsym to its first version in gpumemstat and libgpumem-core; the linker's --wrap leads
 * calls here. base/glibc.h does not rename dlsym, because the preload has a dlsym of its own. The
 * two also link libdl.so.2 and libpthread.so.0 by name: before glibc 2.34 these hold functions,
 * since then they are empty.
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
