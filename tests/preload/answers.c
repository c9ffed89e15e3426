/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of cuMemAlloc, cuMemFree and the queries about pointers. */
#include "program.h"

static void sizes(void)
{
	static const size_t of[] = {1,	     511,	  512,	    513,      1000,
				    65536,   1048575,	  1048576,  2 * MIB,  3 * MIB + 1,
				    8 * MIB, 9 * MIB + 1, 64 * MIB, 100 * MIB};
	CUdeviceptr at[sizeof of / sizeof *of];
	unsigned char last;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		MUST(cuMemAlloc(&at[i], of[i]));
		bool large = of[i] >= 8 * MIB || of[i] % (2 * MIB) == 0;
		printf("%zu bytes: aligned to 512: %d, to 2 MiB if large: %d\n", of[i],
		       at[i] % 512 == 0, !large || at[i] % (2 * MIB) == 0);
		MUST(cuMemsetD8(at[i], (unsigned char)(i + 1), of[i]));
	}
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		MUST(cuMemcpyDtoH(&last, at[i] + of[i] - 1, 1));
		printf("last byte of %zu: %d\n", of[i], last);
		SAY(cuMemFree(at[i]));
	}
}

static void odd_allocations(void)
{
	CUdeviceptr p = 42;
	size_t pitch = 43;
	SAY(cuMemAlloc(&p, 0));
	SAY(cuMemAlloc(NULL, 64));
	SAY(cuMemAlloc(&p, (size_t)1 << 50));
	SAY(cuMemAlloc(&p, SIZE_MAX));
	printf("nothing was written: %d\n", p == 42);
	SAY(cuMemAllocPitch(&p, &pitch, 0, 3, 4));
	SAY(cuMemAllocPitch(&p, &pitch, 100, 0, 4));
	SAY(cuMemAllocPitch(&p, &pitch, 100, 3, 5));
	SAY(cuMemAllocPitch(NULL, &pitch, 100, 3, 4));
	SAY(cuMemAllocPitch(&p, NULL, 100, 3, 4));
	SAY(cuMemAllocPitch(&p, &pitch, SIZE_MAX / 2, 3, 4));
	printf("nothing was written: %d\n", p == 42 && pitch == 43);
}

static void pitches(void)
{
	static const size_t widths[] = {1, 100, 511, 512, 513, 4096, 100000};
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		for (unsigned element = 4; element <= 16; element *= 2) {
			CUdeviceptr p, base;
			size_t pitch, size;
			MUST(cuMemAllocPitch(&p, &pitch, widths[i], 7, element));
			MUST(cuMemGetAddressRange(&base, &size, p));
			printf("rows of %zu by %u: pitch %zu, %zu bytes in all\n", widths[i],
			       element, pitch, size);
			MUST(cuMemsetD2D8(p, pitch, 5, widths[i], 7));
			MUST(cuMemFree(p));
		}
}

static void odd_frees(void)
{
	CUdeviceptr p, managed, async;
	void *host;
	SAY(cuMemFree(0));
	SAY(cuMemFree(4096));
	MUST(cuMemAlloc(&p, 3 * MIB));
	SAY(cuMemFree(p + 512));
	SAY(cuMemFree(p + 2 * MIB));
	SAY(cuMemFree(p));
	SAY(cuMemFree(p));
	MUST(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
	SAY(cuMemFree(managed));
	MUST(cuMemAllocAsync(&async, 1000, NULL));
	SAY(cuMemFree(async));
	SAY(cuMemHostAlloc(&host, 0, 0));
	printf("%s\n", host ? "memory" : "none");
	SAY(cuMemFreeHost(host));
	MUST(cuMemHostAlloc(&host, 1000, 0));
	SAY(cuMemFree((CUdeviceptr)host));
	MUST(cuMemFreeHost(host));
	MUST(cuMemAlloc(&p, 1000));
	SAY(cuMemFreeAsync(p, NULL));
	SAY(cuMemFreeAsync(p, NULL));
}

static void ranges(void)
{
	CUdeviceptr p, base = 7;
	size_t size = 8;
	MUST(cuMemAlloc(&p, 1000));
	SAY(cuMemGetAddressRange(&base, &size, p + 999));
	printf("base %d, size %zu\n", base == p, size);
	base = 7;
	SAY(cuMemGetAddressRange(&base, NULL, p));
	printf("base %d\n", base == p);
	SAY(cuMemGetAddressRange(NULL, &size, p));
	printf("size %zu\n", size);
	MUST(cuMemFree(p));
	base = 7;
	size = 8;
	SAY(cuMemGetAddressRange(&base, &size, p));
	printf("nothing was written: %d\n", base == 7 && size == 8);
}

static void info(void)
{
	size_t have = 0, total = 0, later = 0;
	CUdeviceptr p;
	MUST(cuMemGetInfo(&have, &total));
	MUST(cuMemAlloc(&p, 64 * MIB));
	MUST(cuMemGetInfo(&later, NULL));
	printf("64 MiB fewer: %d; total %zu\n", have - later == 64 * MIB, total);
	MUST(cuMemFree(p));
	MUST(cuMemGetInfo(&later, &total));
	printf("as before: %d\n", have == later);
	SAY(cuMemGetInfo(NULL, &total));
	SAY(cuMemGetInfo(NULL, NULL));
}

int main(void)
{
	CUdeviceptr p = 0;
	SAY(cuMemAlloc(&p, 64));
	MUST(cuInit(0));
	SAY(cuMemAlloc(&p, 64));
	SAY(cuMemFree(4096));
	use_device(0);
	info();
	sizes();
	odd_allocations();
	pitches();
	odd_frees();
	ranges();
	return 0;
}
