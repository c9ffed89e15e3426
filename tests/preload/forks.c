/* SPDX-License-Identifier: BSD-3-Clause */
/* Children forked before and after the parent's cuInit, with and without a cuInit of their own. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static void allocate(void)
{
	CUdeviceptr p = 0;
	CUresult result = SAY(cuMemAlloc(&p, 1000));
	if (result == CUDA_SUCCESS) {
		SAY(cuMemsetD8(p, 1, 1000));
		SAY(cuMemFree(p));
	}
	SAY(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

/* A driver that is not initialized reads no argument. */
static void copy_unreadable(void)
{
	const CUDA_MEMCPY2D *copy =
		mmap(NULL, sizeof *copy, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SAY(cuMemcpy2D(copy));
}

static void child(const char *name, bool init, CUdeviceptr of_parent)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		printf("%s\n", name);
		if (init && SAY(cuInit(0)) == CUDA_SUCCESS)
			use_device(0);
		else
			copy_unreadable();
		allocate();
		if (of_parent)
			SAY(cuMemFree(of_parent));
		fflush(stdout);
		exit(0);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	printf("it ended with %d\n", status);
}

int main(void)
{
	CUdeviceptr p;
	unsigned char byte = 0;
	child("before the parent's cuInit, without one", false, 0);
	child("before the parent's cuInit, with one", true, 0);
	MUST(cuInit(0));
	child("after the parent's cuInit, without one", false, 0);
	use_device(0);
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuMemsetD8(p, 9, 1000));
	child("after the parent allocated, without cuInit", false, p);
	child("after the parent allocated, with cuInit", true, p);
	SAY(cuMemcpyDtoH(&byte, p + 999, 1));
	printf("the parent's block is as it was: %d\n", byte);
	SAY(cuMemFree(p));
	allocate();
	return 0;
}
