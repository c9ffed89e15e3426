/* SPDX-License-Identifier: BSD-3-Clause */
/* The module that driver.cu loads. */
extern "C" __global__ void add(float *to, const float *a, const float *b, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		to[i] = a[i] + b[i];
}
