/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Can this memory be shared with other processes? Libraries ask in several ways and combine the
 * answers. `break_share [LIBRARY]...` loads the libraries first.
 */
#include <dlfcn.h>

#include "program.h"

static unsigned legacy(CUdeviceptr p)
{
	unsigned capable = 0;
	MUST(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	return capable;
}

static uint64_t handle_types(CUdeviceptr p)
{
	uint64_t types = 0;
	MUST(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p));
	return types;
}

int main(int argc, char **argv)
{
	CUmemGenericAllocationHandle physical = 7;
	CUipcMemHandle name, untouched;
	CUdeviceptr p, managed;
	for (int i = 1; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL))
			return printf("%s\n", dlerror()), 1;
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc(&p, 5 * MIB));
	MUST(cuMemAllocManaged(&managed, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
	printf("legacy %u, handle types %ju\n", legacy(p), (uintmax_t)handle_types(p));
	memset(&untouched, 1, sizeof untouched);
	for (int i = 0; i < 3; i++) {
		name = untouched;
		SAY(cuIpcGetMemHandle(&name, p + MIB));
		printf("written: %d\n", memcmp(&name, &untouched, sizeof name) != 0);
		SAY(cuMemRetainAllocationHandle(&physical, (void *)(uintptr_t)p));
	}
	SAY(cuIpcGetMemHandle(NULL, p));
	SAY(cuIpcGetMemHandle(&name, managed));
	MUST(cuMemFree(p));
	SAY(cuIpcGetMemHandle(&name, p));
	MUST(cuMemFree(managed));
	return 0;
}
