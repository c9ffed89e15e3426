/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.cu for the simulated driver: the same functions, run by the emulation. */
#include "sim/kernels.h"

#include <pthread.h>

#include "heap/device/policies.h"
#include "heap/device/shed.h"
#include "heap/job.h"

struct launch {
	const struct gm_policy *policy;
	struct gm_heap *heap;
	void *job;
};

static void lane_set_up(void *arg, uint32_t thread)
{
	struct launch *launch = arg;
	if (thread == 0)
		gm_job_set_up(launch->heap, launch->job);
}

static void lane_init(void *arg, uint32_t thread)
{
	struct launch *launch = arg;
	launch->policy->init(launch->heap, thread, GM_INIT_THREADS);
}

static void lane_trim(void *arg, uint32_t thread)
{
	struct launch *launch = arg;
	if (thread != 0)
		return;
	launch->policy->trim(launch->heap);
	gm_job_take_chunks(launch->heap, launch->job);
}

static void lane_stats(void *arg, uint32_t thread)
{
	struct launch *launch = arg;
	struct gm_job *job = launch->job;
	if (thread == 0) {
		launch->policy->stats(launch->heap, &job->stats);
		gm_job_count(launch->heap, job);
	}
	if (job->sites)
		gm_sites_read(launch->heap, job->sites, thread, GM_INIT_THREADS);
}

static void lane_shed(void *arg, uint32_t thread)
{
	struct launch *launch = arg;
	if (launch->policy->can & GM_POLICY_KEEPS)
		gm_shed_sweep(launch->heap, thread);
	if (thread == 0)
		gm_shed_claim(launch->heap, launch->job);
}

static void lanes_run(unsigned threads, void (*lane)(void *, uint32_t), struct launch *launch)
{
	unsigned warps = (threads + GM_WARP - 1) / GM_WARP;
	gm_simt_launch(&(struct gm_simt){warps, warps, 1, GM_SIMT_FAIR}, lane, launch);
}

/* One launch at a time, over all threads: there is one emulation. */
static void kernel_run(void **args, const struct gm_policy *policy)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	struct launch launch = {policy, *(struct gm_heap **)args[0], *(void **)args[1]};
	pthread_mutex_lock(&turn);
	switch (*(unsigned *)args[2]) {
	case GM_JOB_SET_UP:
		lanes_run(1, lane_set_up, &launch);
		lanes_run(GM_INIT_THREADS, lane_init, &launch);
		break;
	case GM_JOB_TRIM:
		lanes_run(1, lane_trim, &launch);
		break;
	case GM_JOB_STATS:
		lanes_run(((struct gm_job *)launch.job)->sites ? GM_INIT_THREADS : 1, lane_stats,
			  &launch);
		break;
	case GM_JOB_SHED:
		lanes_run(GM_WARP, lane_shed, &launch);
		break;
	}
	pthread_mutex_unlock(&turn);
}

/* The rows of gm_policies by name; then the kernel of each. */
enum {
#define GM_POLICY(name, n, can) POLICY_##n,
#include "heap/device/policy.def"
#undef GM_POLICY
};

#define GM_POLICY(name, n, can)                             \
	static void run_##n(void **args)                    \
	{                                                   \
		kernel_run(args, &gm_policies[POLICY_##n]); \
	}
#include "heap/device/policy.def"
#undef GM_POLICY

#define ARGS                                                     \
	{                                                        \
		sizeof(void *), sizeof(void *), sizeof(unsigned) \
	}

static const struct gm_sim_kernel kernels[] = {
#define GM_POLICY(name, n, can) {"gm_heap_run_" #n, run_##n, ARGS, 0},
#include "heap/device/policy.def"
#undef GM_POLICY
};

const struct gm_sim_image gm_heap_sim_image = {
	.magic = GM_SIM_IMAGE,
	.count = sizeof kernels / sizeof *kernels,
	.kernels = kernels,
};
