// SPDX-License-Identifier: BSD-3-Clause
// Eight processes on one device at once. Each allocates, fills, copies, frees and verifies by
// itself; together they hold four fifths of the device. Their output is printed in the order of
// ranks.
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

static const int RANKS = 8, ROUNDS = 400, HELD = 48;

/* Hold a tenth of the device until all processes hold theirs. Returns the number of wrong words. */
static unsigned long long hold(int rank, pthread_barrier_t *all)
{
	size_t ignored, total;
	uint32_t *most;
	unsigned long long *bad, wrong = 0;
	MUST(cudaMemGetInfo(&ignored, &total));
	uint64_t n = total / 10 / sizeof *most;
	MUST(cudaMalloc(&most, n * sizeof *most));
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaMemset(bad, 0, sizeof *bad));
	fill<<<1024, 256>>>(most, n, rank);
	MUST(cudaDeviceSynchronize());
	pthread_barrier_wait(all);
	verify<<<1024, 256>>>(most, n, rank, bad);
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	pthread_barrier_wait(all);
	MUST(cudaFree(most));
	MUST(cudaFree(bad));
	return wrong;
}

static int work(int rank, pthread_barrier_t *all, int to)
{
	Random random = {0x9e3779b97f4a7c15ull + rank};
	struct {
		uint32_t *at;
		uint64_t n;
		uint32_t tag;
	} held[HELD] = {};
	unsigned long long sum = 0, wrong = hold(rank, all);
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
	std::string line = "rank " + std::to_string(rank) + ": " + std::to_string(sum) + ", " +
			   std::to_string(wrong) + " words wrong\n";
	return write(to, line.data(), line.size()) == (ssize_t)line.size() ? 0 : 3;
}

int main()
{
	int pipes[RANKS][2], bad = 0;
	pid_t children[RANKS];
	pthread_barrierattr_t shared;
	pthread_barrier_t *all = (pthread_barrier_t *)mmap(
		NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(pthread_barrierattr_init(&shared));
	MUST(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED));
	MUST(all == MAP_FAILED || pthread_barrier_init(all, &shared, RANKS));
	for (int r = 0; r < RANKS; r++) {
		if (pipe(pipes[r]) != 0 || (children[r] = fork()) < 0)
			return 1;
		if (children[r] == 0)
			exit(work(r, all, pipes[r][1]));
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
