/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full device: `pressure fill` prints the number of blocks that fit. `pressure take ENTRY` fills
 * the device, frees all blocks, and then allocates most of the memory through another entry of the
 * driver: a pool's idle memory must not be missing there.
 */
#include "program.h"

#define BLOCK (16 * MIB)
#define LARGE (192 * MIB)

static unsigned fill(CUdeviceptr *blocks, unsigned room, CUresult *why)
{
	unsigned n = 0;
	while (n < room && (*why = cuMemAlloc(&blocks[n], BLOCK)) == CUDA_SUCCESS)
		n++;
	return n;
}

static void show(const char *when)
{
	size_t have, total;
	MUST(cuMemGetInfo(&have, &total));
	printf("%s: %zu MiB of %zu are free\n", when, have / MIB, total / MIB);
}

static void fill_up(void)
{
	static CUdeviceptr blocks[1000];
	CUresult why = CUDA_SUCCESS;
	show("at first");
	for (int round = 0; round < 3; round++) {
		unsigned n = fill(blocks, 1000, &why);
		printf("%u blocks of 16 MiB, then %s\n", n, result_name(why));
		show("full");
		SAY(cuMemFree(blocks[n / 2]));
		SAY(cuMemAlloc(&blocks[n / 2], BLOCK));
		while (n)
			MUST(cuMemFree(blocks[--n]));
		show("empty");
	}
	/* Memory of freed blocks of one size serves another size. */
	SAY(cuMemAlloc(&blocks[0], 3 * BLOCK + 1));
	SAY(cuMemFree(blocks[0]));
}

static CUresult create(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUresult result = cuMemCreate(&handle, LARGE, &prop, 0);
	if (result == CUDA_SUCCESS)
		MUST(cuMemRelease(handle));
	return result;
}

static CUresult managed(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAllocManaged(&p, LARGE, CU_MEM_ATTACH_GLOBAL);
	if (result == CUDA_SUCCESS)
		MUST(cuMemFree(p));
	return result;
}

static CUresult async(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAllocAsync(&p, LARGE, NULL);
	if (result == CUDA_SUCCESS)
		MUST(cuMemFreeAsync(p, NULL));
	return result;
}

static CUresult array(void)
{
	CUarray a;
	CUDA_ARRAY_DESCRIPTOR d = {.Width = MIB,
				   .Height = LARGE / MIB,
				   .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				   .NumChannels = 1};
	CUresult result = cuArrayCreate(&a, &d);
	if (result == CUDA_SUCCESS)
		MUST(cuArrayDestroy(a));
	return result;
}

static CUresult array3d(void)
{
	CUarray a;
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = MIB,
				     .Height = LARGE / MIB / 2,
				     .Depth = 2,
				     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				     .NumChannels = 1};
	CUresult result = cuArray3DCreate(&a, &d);
	if (result == CUDA_SUCCESS)
		MUST(cuArrayDestroy(a));
	return result;
}

static const struct {
	const char *name;
	CUresult (*take)(void);
} entries[] = {
	{"cuMemCreate", create},  {"cuMemAllocManaged", managed}, {"cuMemAllocAsync", async},
	{"cuArrayCreate", array}, {"cuArray3DCreate", array3d},
};

static void take(const char *name)
{
	static CUdeviceptr blocks[1000];
	CUresult why = CUDA_SUCCESS;
	unsigned n = fill(blocks, 1000, &why);
	while (n)
		MUST(cuMemFree(blocks[--n]));
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		if (strcmp(entries[i].name, name) == 0)
			say(name, entries[i].take());
	MUST(cuMemAlloc(&blocks[0], LARGE));
	SAY(cuMemFree(blocks[0]));
}

int main(int argc, char **argv)
{
	MUST(cuInit(0));
	use_device(0);
	if (argc > 2 && strcmp(argv[1], "take") == 0)
		take(argv[2]);
	else
		fill_up();
	return 0;
}
