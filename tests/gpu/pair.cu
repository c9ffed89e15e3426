/* SPDX-License-Identifier: BSD-3-Clause */
/* Time of a warm cudaMalloc + cudaFree pair on an idle device: median of `rounds`, in microseconds.
 */
#include "gpu.h"

#include <algorithm>
#include <chrono>

int main()
{
	MUST(cudaFree(0));
	for (size_t size : {(size_t)512, (size_t)1 << 20, (size_t)64 << 20}) {
		std::vector<double> times;
		for (int round = 0; round < 2000; round++) {
			void *at;
			auto start = std::chrono::steady_clock::now();
			MUST(cudaMalloc(&at, size));
			MUST(cudaFree(at));
			std::chrono::duration<double, std::micro> took =
				std::chrono::steady_clock::now() - start;
			times.push_back(took.count());
		}
		std::nth_element(times.begin(), times.begin() + 1000, times.end());
		printf("%zu %.3f\n", size, times[1000]);
	}
	return 0;
}
