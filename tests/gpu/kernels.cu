/* SPDX-License-Identifier: BSD-3-Clause */
/* The module that driver.cc and inkernel_idle.cu load. */
extern "C" __global__ void add(float *to, const float *a, const float *b, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		to[i] = a[i] + b[i];
}

/* Runs until the host sets *go. */
extern "C" __global__ void hold(volatile int *go)
{
	while (!*go)
		;
}
