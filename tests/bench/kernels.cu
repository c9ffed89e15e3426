// SPDX-License-Identifier: BSD-3-Clause
// The kernels of the measured programs.
#include "client.h"

static __global__ void empty()
{
}

static __global__ void spin(uint64_t ns)
{
	uint64_t begin, now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - begin < ns);
}

extern "C" void bench_kernel_empty(cudaStream_t stream)
{
	empty<<<1, 1, 0, stream>>>();
}

extern "C" const void *bench_kernel_image(void)
{
	return ".version 7.0\n.target sm_70\n.address_size 64\n"
	       ".visible .entry nothing() { ret; }\n";
}

extern "C" void bench_kernel_spin(cudaStream_t stream, uint64_t us)
{
	spin<<<1, 1, 0, stream>>>(us * 1000);
	BENCH_MUST(cudaGetLastError());
}
