/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The added cost of a launch through the program's cuLaunchKernel, compared with the driver's own
 * function: by turns in one process, on one stream, with one kernel, because two processes differ
 * by more than this cost. A preload may interpose on dlsym, so the driver's own function is found
 * in the symbol table of its file.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#define BATCH 64 /* launches in one measurement */
#define TURNS_MAX 65536
#define DRIVER "libcuda.so.1"

typedef CUresult (*launch_t)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			     unsigned, CUstream, void **, void **);
typedef CUresult (*proc_t)(const char *, void **, int, cuuint64_t,
			   CUdriverProcAddressQueryResult *);

/* Finds an exported symbol of the file at `image`, loaded at `base`; NULL: no such symbol. */
static void *symbol_find(const char *image, uintptr_t base, const char *name)
{
	const ElfW(Ehdr) *head = (const void *)image;
	const ElfW(Shdr) *sections = (const void *)(image + head->e_shoff);
	for (unsigned i = 0; i < head->e_shnum; i++) {
		const ElfW(Shdr) *section = &sections[i];
		if (section->sh_type != SHT_DYNSYM)
			continue;
		const char *names = image + sections[section->sh_link].sh_offset;
		const ElfW(Sym) *symbols = (const void *)(image + section->sh_offset);
		for (size_t n = 0; n < section->sh_size / sizeof *symbols; n++)
			if (symbols[n].st_value && !strcmp(names + symbols[n].st_name, name))
				return (void *)(base + symbols[n].st_value);
	}
	return NULL;
}

static int object_search(struct dl_phdr_info *info, size_t size, void *found)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	struct stat file;
	(void)size;
	if (!slash || strncmp(slash + 1, "libcuda.so", strlen("libcuda.so")) != 0)
		return 0;
	int fd = open(info->dlpi_name, O_RDONLY | O_CLOEXEC);
	BENCH_MUST(fd < 0 || fstat(fd, &file) != 0);
	void *image = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	BENCH_MUST(image == MAP_FAILED);
	*(void **)found = symbol_find(image, info->dlpi_addr, "cuGetProcAddress_v2");
	munmap(image, (size_t)file.st_size);
	return 1;
}

static launch_t launch_of(proc_t get)
{
	void *launch = NULL;
	CUdriverProcAddressQueryResult status;
	BENCH_MUST(!get);
	BENCH_MUST(get("cuLaunchKernel", &launch, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
	BENCH_MUST(!launch);
	return (launch_t)launch;
}

static double launches_time(launch_t launch, CUfunction kernel, CUstream stream)
{
	double begin = bench_now();
	for (int i = 0; i < BATCH; i++)
		BENCH_MUST(launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	return (bench_now() - begin) * 1e3 / BATCH;
}

static CUfunction kernel_load(void)
{
	CUmodule module;
	CUfunction kernel;
	BENCH_MUST(cuModuleLoadData(&module, bench_kernel_image()));
	BENCH_MUST(cuModuleGetFunction(&kernel, module, "nothing"));
	return kernel;
}

/* Nanoseconds of a launch: the medians through the program's function and the driver's own. */
void bench_launch_gate(char **words)
{
	static double given[TURNS_MAX], own[TURNS_MAX];
	double end = bench_now() + (double)bench_number(words[1]);
	void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD), *get = NULL;
	size_t n = 0;
	CUstream stream;
	BENCH_MUST(!driver);
	dl_iterate_phdr(object_search, &get);
	launch_t through = launch_of((proc_t)dlsym(driver, "cuGetProcAddress_v2"));
	launch_t direct = launch_of((proc_t)get);
	CUfunction kernel = kernel_load();
	BENCH_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launches_time(through, kernel, stream); /* loads the kernel */
	while (n < 2 || (n < TURNS_MAX && bench_now() < end)) {
		for (int second = 0; second < 2; second++) {
			bool is_own = (n & 1) != (unsigned)second;
			BENCH_MUST(cuStreamSynchronize(stream));
			(is_own ? own : given)[n] =
				launches_time(is_own ? direct : through, kernel, stream);
		}
		n++;
	}
	BENCH_MUST(cuStreamSynchronize(stream));
	BENCH_MUST(cuStreamDestroy(stream));
	printf("ok %.2f %.2f %d\n", bench_median(given, n), bench_median(own, n),
	       through != direct);
}
