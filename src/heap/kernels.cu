// SPDX-License-Identifier: BSD-3-Clause
// The heap's own kernels, one for every policy, or with GM_KERNELS_GRANULE for that one; job.h
// describes them. The library carries them for all architectures.
#include "heap/device/policies.h"
#include "heap/device/shed.h"
#include "heap/job.h"

#define GM_POLICY(name, n, can)                                                                 \
	extern "C" __global__ void gm_heap_run_##n(struct gm_heap *heap, void *of, unsigned op) \
	{                                                                                       \
		struct gm_job *job = (struct gm_job *)of;                                       \
		switch (op) {                                                                   \
		case GM_JOB_SET_UP:                                                             \
			if (threadIdx.x == 0)                                                   \
				gm_job_set_up(heap, job);                                       \
			__syncthreads();                                                        \
			gm_##n##_init(heap, threadIdx.x, blockDim.x);                           \
			break;                                                                  \
		case GM_JOB_TRIM:                                                               \
			gm_##n##_trim(heap);                                                    \
			gm_job_take_chunks(heap, job);                                          \
			break;                                                                  \
		case GM_JOB_STATS:                                                              \
			if (threadIdx.x == 0) {                                                 \
				gm_##n##_stats(heap, &job->stats);                              \
				gm_job_count(heap, job);                                        \
			}                                                                       \
			if (job->sites)                                                         \
				gm_sites_read(heap, job->sites, threadIdx.x, blockDim.x);       \
			break;                                                                  \
		case GM_JOB_SHED:                                                               \
			if ((can)&GM_POLICY_KEEPS)                                              \
				gm_shed_sweep(heap, threadIdx.x);                               \
			if (threadIdx.x == 0)                                                   \
				gm_shed_claim(heap, (struct gm_shed *)of);                      \
			break;                                                                  \
		}                                                                               \
	}
#ifdef GM_KERNELS_GRANULE
GM_POLICY("granule", granule, GM_POLICY_KEEPS)
#else
#include "heap/device/policy.def"
#endif
#undef GM_POLICY
