/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that asks for itself: RTLD_NEXT counts from here. Two of them define `where`. */
#include <dlfcn.h>

const char *where(void);
void *ask(void *handle, const char *name);

const char *where(void)
{
	return NAME;
}

/* The call is not the last thing done, so that it stays a call at -O2 too. */
void *ask(void *handle, const char *name)
{
	void *volatile answer = dlsym(handle, name);
	return answer;
}
