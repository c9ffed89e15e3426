/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the place of the CUDA runtime in a program that nvcc compiled. The program registers at its
 * start the wrapper that the runtime gives to the driver. Prints one line a wrapper, "VERSION
 * ANSWER FOR-90 FOR-200"; image_nvcc.sh compares.
 */
#include <stdio.h>

#include "image/fatbin.h"

/* The other runtime calls of a program; their results are not used. */
#define STUB(name)        \
	int name(void);   \
	int name(void)    \
	{                 \
		return 0; \
	}
STUB(__cudaRegisterFatBinaryEnd)
STUB(__cudaUnregisterFatBinary)
STUB(__cudaRegisterFunction)
STUB(__cudaRegisterVar)
STUB(__cudaInitModule)
STUB(__cudaPushCallConfiguration)
STUB(__cudaPopCallConfiguration)
STUB(__cudaGetKernel)
STUB(__cudaLaunchKernel)
STUB(cudaLaunchKernel)
STUB(cudaMemcpyAsync)

void **__cudaRegisterFatBinary(void *wrapper);
void **__cudaRegisterFatBinary(void *wrapper)
{
	static void *handle;
	struct gm_image_verdict verdict;
	char name[GM_IMAGE_ARCH_ROOM];
	printf("%u", ((struct gm_wrapper *)wrapper)->version);
	for (unsigned arch = GM_IMAGE_ANY; arch <= 90; arch += 90) {
		gm_image_allocates(wrapper, 0, arch, &verdict);
		printf(" %s", gm_image_answer_name(verdict.answer));
		for (unsigned i = 0; i < verdict.n_archs; i++)
			printf(" %s", gm_image_arch_name(verdict.archs[i], name));
	}
	putchar('\n');
	return &handle;
}

int main(void)
{
	return 0;
}
