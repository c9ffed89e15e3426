/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces objects_kernels.cu on the simulated driver: the same classes, by several host threads.
 * With OBJECTS_SIM_WRONG in the environment trees are deeper ("tree"), derivatives are those at
 * another x ("slope"), or the last tree is not deleted ("kept").
 */
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "programs/objects/expression.h"

static bool is_wrong(const char *how)
{
	const char *wrong = getenv("OBJECTS_SIM_WRONG");
	return wrong && strcmp(wrong, how) == 0;
}

static void one(struct objects_work *w, enum objects_stage stage, enum objects_way way, uint32_t i)
{
	if (way == OBJECTS_NEW)
		expression_stage<HeapSpace>(w, stage, i);
	else
		expression_stage<BumpSpace>(w, stage, i);
}

extern "C" cudaError_t objects_kernel(struct objects_work *work, uint32_t trees,
				      enum objects_stage stage, enum objects_way way)
{
	std::atomic<uint32_t> next{0};
	std::vector<std::thread> threads;
	objects_now = work;
	if (stage == OBJECTS_MAKE && is_wrong("tree"))
		work->depth++;
	if (stage == OBJECTS_SLOPE && is_wrong("slope"))
		work->x++;
	if (stage == OBJECTS_DROP && is_wrong("kept"))
		trees--;
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&] {
			for (uint32_t i; (i = next++) < trees;)
				one(work, stage, way, i);
		});
	for (std::thread &thread : threads)
		thread.join();
	return cudaSuccess;
}
