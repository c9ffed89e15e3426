/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that makes look-ups: RTLD_NEXT counts from it. Two such libraries define `where`. */
#include <dlfcn.h>

const char *where(void);
void *ask(void *handle, const char *name);

const char *where(void)
{
	return NAME;
}

/* The call is not the last statement, so that -O2 makes no jump of it. */
void *ask(void *handle, const char *name)
{
	void *volatile answer = dlsym(handle, name);
	return answer;
}
