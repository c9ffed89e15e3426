/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What base/glibc.h and base/glibc_dlsym.c do not do, so that gpumemstat runs on glibc 2.28
 * wherever it was built. The linker's --wrap leads calls here.
 *
 * crt1.o calls __libc_start_main, whose new version (2.34) runs the constructors itself. The old
 * one calls a function for that, which each program brought along, and calls it to this day.
 */
#include <dlfcn.h>
#include <stddef.h>

#ifdef GM_BASE_GLIBC_H /* not in sanitizer builds */

typedef void array_function(int argc, char **argv, char **environment);
typedef int main_function(int argc, char **argv, char **environment);

/* The linker's: the constructors. */
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

/* The destructors are the dynamic linker's, by `rtld_fini`. */
int __wrap___libc_start_main(main_function *main, int argc, char **argv, array_function *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	return libc_start_old(main, argc, argv, init ? init : constructors_run, fini, rtld_fini,
			      stack_end);
}

#endif
