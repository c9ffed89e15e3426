/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces kernels.cu on the simulated driver, which runs host functions in stream order. */
#include "client.h"
#include "sim/sim.h"

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

static void kernel_run(void **args)
{
	(void)args;
}

const void *bench_kernel_image(void)
{
	static const struct gm_sim_kernel kernels[] = {{.name = "nothing", .run = kernel_run}};
	static const struct gm_sim_image image = {
		.magic = GM_SIM_IMAGE, .count = 1, .kernels = kernels};
	return &image;
}
