// SPDX-License-Identifier: BSD-3-Clause
// The heap's own kernels, for every policy, or with GM_KERNELS_GRANULE for that one; job.h
// describes them. The library carries them for all architectures.
#include "heap/device/policies.h"
#include "heap/device/shed.h"
#include "heap/job.h"

extern "C" __global__ void gm_heap_set_up(struct gm_heap *heap, const struct gm_job *job)
{
	gm_job_set_up(heap, job);
}

#ifndef GM_KERNELS_GRANULE
extern "C" __global__ void gm_heap_shed(struct gm_heap *heap, struct gm_shed *shed)
{
	if (threadIdx.x == 0)
		gm_shed_claim(heap, shed);
}
#endif

extern "C" __global__ void gm_heap_shed_granule(struct gm_heap *heap, struct gm_shed *shed)
{
	gm_shed_sweep(heap, threadIdx.x);
	if (threadIdx.x == 0)
		gm_shed_claim(heap, shed);
}

#define GM_POLICY(name, n, can)                                                                  \
	extern "C" __global__ void gm_heap_init_##n(struct gm_heap *heap, const struct gm_job *) \
	{                                                                                        \
		gm_##n##_init(heap, threadIdx.x, blockDim.x);                                    \
	}                                                                                        \
	extern "C" __global__ void gm_heap_trim_##n(struct gm_heap *heap, struct gm_job *job)    \
	{                                                                                        \
		gm_##n##_trim(heap);                                                             \
		gm_job_take_chunks(heap, job);                                                   \
	}                                                                                        \
	extern "C" __global__ void gm_heap_stats_##n(struct gm_heap *heap, struct gm_job *job)   \
	{                                                                                        \
		gm_##n##_stats(heap, &job->stats);                                               \
		gm_job_count(heap, job);                                                         \
	}
#ifdef GM_KERNELS_GRANULE
GM_POLICY("granule", granule, 0)
#else
#include "heap/device/policy.def"
#endif
#undef GM_POLICY
