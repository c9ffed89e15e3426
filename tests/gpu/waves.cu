// SPDX-License-Identifier: BSD-3-Clause
// A program that runs out of device memory, for README's walk to the source line that holds it: it
// keeps a picture of each step, and deletes none. It does not use gpumem.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static size_t cells = (size_t)1 << 27; // cells of 4 bytes; the first argument is in MiB

static void must(cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return;
	std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
	std::exit(1);
}

static float *field_make(const char *what)
{
	float *field;
	must(cudaMalloc(&field, cells * sizeof *field), what);
	must(cudaMemset(field, 0, cells * sizeof *field), what);
	return field;
}

struct Wave {
	float *now = field_make("wave"), *before = field_make("wave");
	std::vector<float *> pictures;

	void picture_keep()
	{
		pictures.push_back(field_make("picture"));
		must(cudaMemcpy(pictures.back(), now, cells * sizeof *now,
				cudaMemcpyDeviceToDevice),
		     "picture");
	}

	void step()
	{
		float *spare = field_make("spare");
		must(cudaMemcpy(spare, now, cells * sizeof *now, cudaMemcpyDeviceToDevice), "step");
		must(cudaFree(before), "step");
		before = now;
		now = spare;
		picture_keep();
	}
};

int main(int argc, char **argv)
{
	if (argc > 1)
		cells = std::strtoull(argv[1], nullptr, 10) << 18;
	Wave wave;
	for (int step = 0; step < 1000; step++)
		wave.step();
	std::printf("1000 steps, %zu pictures\n", wave.pictures.size());
	return 0;
}
