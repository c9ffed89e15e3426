/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A signal handler allocates at the worst moments: whenever gpumem allocates host memory, with its
 * locks held or free.
 */
#include <link.h>
#include <signal.h>

#include "program.h"

#define SEEN_BY_ALL __attribute__((visibility("default")))

static uintptr_t library_from, library_to;
static unsigned handled, failures;

extern void *__libc_calloc(size_t n, size_t size);
SEEN_BY_ALL void *calloc(size_t n, size_t size);

SEEN_BY_ALL void *calloc(size_t n, size_t size)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	if (caller >= library_from && caller < library_to)
		raise(SIGUSR1);
	return __libc_calloc(n, size);
}

/* The simulated driver asks whether its caller holds a lock: here the handler's thread may hold
 * one. */
SEEN_BY_ALL bool gm_lock_none_held(int from, int to);

SEEN_BY_ALL bool gm_lock_none_held(int from, int to)
{
	(void)from, (void)to;
	return true;
}

static void expect(CUresult result)
{
	failures += result != CUDA_SUCCESS;
}

static void handler(int number)
{
	CUdeviceptr p = 0;
	(void)number;
	expect(cuMemAlloc(&p, 3000));
	expect(cuMemsetD8(p, 1, 3000));
	expect(cuMemFree(p));
	handled++;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size, (void)arg;
	if (!strstr(info->dlpi_name, "libgpumem.so"))
		return 0;
	library_from = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			library_to = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
				     info->dlpi_phdr[i].p_memsz;
	return 1;
}

static void pairs(size_t size)
{
	CUdeviceptr p[20];
	for (size_t i = 0; i < sizeof p / sizeof *p; i++)
		expect(cuMemAlloc(&p[i], size + i));
	for (size_t i = 0; i < sizeof p / sizeof *p; i++)
		expect(cuMemFree(p[i]));
}

int main(void)
{
	MUST(cuInit(0));
	use_device(0);
	signal(SIGUSR1, handler);
	dl_iterate_phdr(find_library, NULL);
	pairs(100);
	pairs(700000);
	pairs(20 * MIB);
	library_from = library_to = 0;
	printf("signals handled: %s\ncalls that failed: %u\n", handled ? "some" : "none", failures);
	return 0;
}
