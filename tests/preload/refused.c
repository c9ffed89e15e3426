/* SPDX-License-Identifier: BSD-3-Clause */
/* `refused N`: asks N times for more than a device of 64 MiB has left. */
#include "program.h"

int main(int count, char **arguments)
{
	CUdeviceptr a, b, c, large;
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc(&a, 20 * MIB));
	MUST(cuMemAlloc(&b, 20 * MIB));
	MUST(cuMemFree(a));
	MUST(cuMemAlloc(&c, 7 * MIB));
	for (int i = count > 1 ? atoi(arguments[1]) : 1; i > 0; i--)
		if (cuMemAlloc(&large, 50 * MIB) != CUDA_ERROR_OUT_OF_MEMORY)
			return 1;
	return 0;
}
