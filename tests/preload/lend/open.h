/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the stand-in for libc10_cuda.so as Python loads it: into no global scope. */
#ifndef GM_TESTS_PRELOAD_LEND_OPEN_H
#define GM_TESTS_PRELOAD_LEND_OPEN_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"

/* `program`: its argv[0]; the library is in the folder `lend` beside it. */
static const struct lend_cache *lend_open(const char *program)
{
	char path[4096];
	const struct lend_cache *(*found)(void);
	const char *end = strrchr(program, '/');
	snprintf(path, sizeof path, "%.*s/lend/libc10_cuda.so", end ? (int)(end - program) : 1,
		 end ? program : ".");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*(void **)&found = library ? dlsym(library, "lend_cache") : NULL;
	if (!found) {
		fprintf(stderr, "%s: %s\n", program, dlerror());
		exit(2);
	}
	return found();
}

#endif
