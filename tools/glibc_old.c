/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Old symbol versions for gpumemstat, beyond base/glibc.h and base/glibc_dlsym.c: it runs on glibc
 * 2.28 after a build on any newer one. The linker's --wrap redirects calls to these functions.
 *
 * crt1.o calls __libc_start_main. Its new version (2.34) runs the constructors itself. The old
 * version calls a function of the program for that, also in a new glibc.
 */
#include <dlfcn.h>
#include <stddef.h>

#ifdef GM_BASE_GLIBC_H /* not in sanitizer builds */

typedef void array_function(int argc, char **argv, char **environment);
typedef int main_function(int argc, char **argv, char **environment);

/* The constructors; the linker defines these symbols. */
extern array_function *__init_array_start[] __attribute__((visibility("hidden")));
extern array_function *__init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

extern int libc_start_old(main_function *main, int argc, char **argv, array_function *init,
			  void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
__asm__(".symver libc_start_old,__libc_start_main@" GM_GLIBC_FIRST);
extern __typeof__(dlinfo) dlinfo_old;
__asm__(".symver dlinfo_old,dlinfo@" GM_GLIBC_LATER("GLIBC_2.3.3"));

int __wrap___libc_start_main(main_function *main, int argc, char **argv, array_function *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
__typeof__(dlinfo) __wrap_dlinfo;

int __wrap_dlinfo(void *object, int request, void *out)
{
	return dlinfo_old(object, request, out);
}

static void constructors_run(int argc, char **argv, char **environment)
{
	const size_t n = (size_t)(__init_array_end - __init_array_start);
	_init();
	for (size_t i = 0; i < n; i++)
		__init_array_start[i](argc, argv, environment);
}

/* `rtld_fini` of the dynamic linker runs the destructors. */
int __wrap___libc_start_main(main_function *main, int argc, char **argv, array_function *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	return libc_start_old(main, argc, argv, init ? init : constructors_run, fini, rtld_fini,
			      stack_end);
}

#endif
