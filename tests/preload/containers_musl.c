/* SPDX-License-Identifier: BSD-3-Clause */
/* Built for musl: a preload made for glibc must not break a program that cannot use CUDA. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	void *own = dlsym(RTLD_DEFAULT, "getenv");
	printf("getenv: %s\n", own == (void *)getenv ? "libc's" : "not libc's");
	printf("cuInit: %s\n", dlsym(RTLD_DEFAULT, "cuInit") ? "found" : dlerror());
	printf("libcuda: %s\n", dlopen("libcuda.so.1", RTLD_NOW) ? "found" : "none");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		return puts("a child") < 0;
	return waitpid(child, NULL, 0) != child;
}
