/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that runs out: in a program linked with --wrap for malloc, calloc and realloc, the
 * call that brings host_fail to 0 gets none. */
#ifndef GM_TESTS_UNIT_HOST_FAILS_H
#define GM_TESTS_UNIT_HOST_FAILS_H

#include <stdbool.h>
#include <stddef.h>

static unsigned long host_fail; /* calls to the one that fails; 0: none does */

static bool host_fails(void)
{
	return host_fail && --host_fail == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
	return host_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return host_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return host_fails() ? NULL : __real_realloc(old, size);
}

#endif
