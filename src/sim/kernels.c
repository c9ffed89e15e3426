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
	struct gm_job *job;
};

static struct launch launch_arguments(void **args, const struct gm_policy *policy)
{
	return (struct launch){policy, *(struct gm_heap **)args[0], *(struct gm_job **)args[1]};
}

/* One launch at a time, over all threads: there is one emulation. */
static void launch_run(unsigned threads, void (*lane)(void *, uint32_t), struct launch launch)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	unsigned warps = (threads + GM_WARP - 1) / GM_WARP;
	pthread_mutex_lock(&turn);
	gm_simt_launch(&(struct gm_simt){warps, warps, 1, GM_SIMT_FAIR}, lane, &launch);
	pthread_mutex_unlock(&turn);
}

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
	if (thread != 0)
		return;
	launch->policy->stats(launch->heap, &launch->job->stats);
	gm_job_count(launch->heap, launch->job);
}

/* Without a policy: only claim. */
static void lane_shed(void *arg, uint32_t thread)
{
	struct launch *launch = arg;
	if (launch->policy)
		gm_shed_sweep(launch->heap, thread);
	if (thread == 0)
		gm_shed_claim(launch->heap, (struct gm_shed *)launch->job);
}

static void heap_shed(void **args)
{
	launch_run(GM_WARP, lane_shed, launch_arguments(args, NULL));
}

static void heap_shed_granule(void **args)
{
	launch_run(GM_WARP, lane_shed, launch_arguments(args, gm_policies));
}

static void heap_set_up(void **args)
{
	launch_run(1, lane_set_up, launch_arguments(args, NULL));
}

/* The rows of gm_policies by name; then the kernels of each. */
enum {
#define GM_POLICY(name, n, can) POLICY_##n,
#include "heap/device/policy.def"
#undef GM_POLICY
};

#define GM_POLICY(name, n, can)                                                              \
	static void init_##n(void **args)                                                    \
	{                                                                                    \
		launch_run(GM_INIT_THREADS, lane_init,                                       \
			   launch_arguments(args, &gm_policies[POLICY_##n]));                \
	}                                                                                    \
	static void trim_##n(void **args)                                                    \
	{                                                                                    \
		launch_run(1, lane_trim, launch_arguments(args, &gm_policies[POLICY_##n]));  \
	}                                                                                    \
	static void stats_##n(void **args)                                                   \
	{                                                                                    \
		launch_run(1, lane_stats, launch_arguments(args, &gm_policies[POLICY_##n])); \
	}
#include "heap/device/policy.def"
#undef GM_POLICY

#define ARGS                                   \
	{                                      \
		sizeof(void *), sizeof(void *) \
	}

static const struct gm_sim_kernel kernels[] = {
	{"gm_heap_set_up", heap_set_up, ARGS, 0},
	{"gm_heap_shed", heap_shed, ARGS, 0},
	{"gm_heap_shed_granule", heap_shed_granule, ARGS, 0},
#define GM_POLICY(name, n, can)                                                           \
	{"gm_heap_init_" #n, init_##n, ARGS, 0}, {"gm_heap_trim_" #n, trim_##n, ARGS, 0}, \
		{"gm_heap_stats_" #n, stats_##n, ARGS, 0},
#include "heap/device/policy.def"
#undef GM_POLICY
};

const struct gm_sim_image gm_heap_sim_image = {
	.magic = GM_SIM_IMAGE,
	.count = sizeof kernels / sizeof *kernels,
	.kernels = kernels,
};
