/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of kernels.cu on the simulated driver, which runs host functions in stream order. */
#include "client.h"

static void nothing(void *unused)
{
	(void)unused;
}

static void spin(void *us)
{
	for (double end = bench_now() + (double)(uintptr_t)us; bench_now() < end;)
		;
}

void bench_kernel_empty(cudaStream_t stream)
{
	BENCH_MUST(cudaLaunchHostFunc(stream, nothing, NULL));
}

void bench_kernel_spin(cudaStream_t stream, uint64_t us)
{
	BENCH_MUST(cudaLaunchHostFunc(stream, spin, (void *)(uintptr_t)us));
}
