// SPDX-License-Identifier: BSD-3-Clause
// Eight processes on one device at once: each allocates, fills, copies, frees and verifies on its
// own; what they print is put together in order of rank.
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

static const int RANKS = 8, ROUNDS = 400, HELD = 48;

static int work(int rank, int to)
{
	Random random = {0x9e3779b97f4a7c15ull + rank};
	struct {
		uint32_t *at;
		uint64_t n;
		uint32_t tag;
	} held[HELD] = {};
	unsigned long long sum = 0;
	for (int i = 0; i < ROUNDS; i++) {
		auto &h = held[random.below(HELD)];
		if (h.at) {
			std::vector<uint32_t> host(h.n);
			MUST(cudaMemcpy(host.data(), h.at, h.n * 4, cudaMemcpyDeviceToHost));
			for (uint64_t w = 0; w < h.n; w++)
				if (host[w] != pattern(h.tag, w))
					return 2;
			sum = sum * 31 + h.n + h.tag;
			MUST(cudaFree(h.at));
		}
		h.n = 1 + random.below(random.below(4) ? 1 << 14 : 1 << 22);
		h.tag = rank * 1000 + i;
		MUST(cudaMalloc(&h.at, h.n * 4));
		fill<<<128, 256>>>(h.at, h.n, h.tag);
	}
	for (auto &h : held)
		MUST(cudaFree(h.at));
	std::string line = "rank " + std::to_string(rank) + ": " + std::to_string(sum) + "\n";
	return write(to, line.data(), line.size()) == (ssize_t)line.size() ? 0 : 3;
}

int main()
{
	int pipes[RANKS][2], bad = 0;
	pid_t children[RANKS];
	for (int r = 0; r < RANKS; r++) {
		if (pipe(pipes[r]) != 0 || (children[r] = fork()) < 0)
			return 1;
		if (children[r] == 0)
			_exit(work(r, pipes[r][1]));
		close(pipes[r][1]);
	}
	for (int r = 0; r < RANKS; r++) {
		char text[128];
		ssize_t n = read(pipes[r][0], text, sizeof text);
		int status;
		waitpid(children[r], &status, 0);
		printf("%.*sexit %d\n", n > 0 ? (int)n : 0, text, status);
		bad |= status != 0;
	}
	return bad;
}
