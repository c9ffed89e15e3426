/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of inkernel_load.cc: compiled plainly, with -G, with -rdc=true, and to PTX. */
#include <cstdlib>

extern "C" __global__ void give(unsigned **out, unsigned n)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t < n && (out[t] = (unsigned *)malloc(64)))
		out[t][0] = t;
}

extern "C" __global__ void take(unsigned **in, unsigned n, unsigned *wrong)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t >= n)
		return;
	if (!in[t] || in[t][0] != t)
		atomicAdd(wrong, 1);
	free(in[t]);
}
