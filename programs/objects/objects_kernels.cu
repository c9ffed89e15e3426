/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of expressions. */
#include "programs/objects/expression.h"

#define THREADS 256

template <class Space> static __global__ void run(struct objects_work *w, enum objects_stage stage)
{
	uint32_t i = blockIdx.x * THREADS + threadIdx.x;
	if (i < w->trees)
		expression_stage<Space>(w, stage, i);
}

static __global__ void begin(struct objects_work *w)
{
	objects_now = w;
}

cudaError_t objects_kernel(struct objects_work *work, uint32_t trees, enum objects_stage stage,
			   enum objects_way way)
{
	uint32_t blocks = (trees + THREADS - 1) / THREADS;
	if (stage == OBJECTS_MAKE)
		begin<<<1, 1>>>(work);
	if (way == OBJECTS_NEW)
		run<HeapSpace><<<blocks, THREADS>>>(work, stage);
	else
		run<BumpSpace><<<blocks, THREADS>>>(work, stage);
	return cudaGetLastError();
}
