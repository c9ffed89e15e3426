/* SPDX-License-Identifier: BSD-3-Clause */
/* Six blocks of 64 MiB, of which every second one is freed; then one as long as the freed ones. */
#include "program.h"

int main(void)
{
	CUdeviceptr blocks[6], large;
	MUST(cuInit(0));
	use_device(0);
	for (int i = 0; i < 6; i++)
		MUST(cuMemAlloc(&blocks[i], 64 * MIB));
	for (int i = 0; i < 6; i += 2)
		MUST(cuMemFree(blocks[i]));
	SAY(cuMemAlloc(&large, 192 * MIB));
	SAY(cuMemsetD8(large, 3, 192 * MIB));
	return 0;
}
