/* SPDX-License-Identifier: BSD-3-Clause */
/* Built with only the installed header, as C11 and as C++; linked with libgpumem-core alone. */
#include <gpumem.h>

#include <stdio.h>

int main(void)
{
	struct gpumem_stats stats = {sizeof stats, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	void *block = gpumem_cupy_malloc(NULL, 1000, 0);
	int result = gpumem_stats(0, &stats);
	printf("%s, %d, %llu\n", block ? "block" : "none", result,
	       (unsigned long long)stats.requested);
	gpumem_cupy_free(NULL, block, 0);
	printf("%d\n", gpumem_mark("epoch 3"));
	printf("%d, %d\n", gpumem_sleep(), gpumem_wake());
	return 0;
}
