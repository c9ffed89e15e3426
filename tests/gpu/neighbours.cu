/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes use one device by turns that never overlap: each allocates 60% of the device,
 * writes it, checks it and frees it. Natively freed memory is available at once, so no turn is
 * refused. The first process never uses CUDA: a fork after its use would fail.
 */
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

enum { PROCESSES = 2, TURNS = 6 };

struct Result {
	cudaError_t error; /* of the allocation */
	unsigned long long wrong;
};

static Result turn(size_t size, uint32_t tag, unsigned long long *bad)
{
	uint32_t *at;
	Result result = {};
	result.error = cudaMalloc(&at, size);
	if (result.error != cudaSuccess) {
		cudaGetLastError();
		return result;
	}
	MUST(cudaMemset(bad, 0, sizeof *bad));
	fill<<<1024, 256>>>(at, size / sizeof *at, tag);
	verify<<<1024, 256>>>(at, size / sizeof *at, tag, bad);
	MUST(cudaMemcpy(&result.wrong, bad, sizeof *bad, cudaMemcpyDeviceToHost));
	MUST(cudaFree(at));
	return result;
}

static void show_memory(int index, int number, const char *what)
{
	size_t have, total;
	MUST(cudaMemGetInfo(&have, &total));
	fprintf(stderr, "process %d, turn %d, %s: %zu of %zu MiB free\n", index, number, what,
		have >> 20, total >> 20);
}

/* Gets its turn from one pipe, and passes it on by another. True: no turn was refused, or wrong. */
static bool play(int index, int ready, int in, int out)
{
	size_t have, total;
	unsigned long long *bad, wrong = 0;
	unsigned refused = 0;
	char token = 0;
	MUST(cudaMemGetInfo(&have, &total));
	MUST(cudaMalloc(&bad, sizeof *bad));
	size_t size = total / 10 * 6 / (2 << 20) * (2 << 20);
	bool last = index == PROCESSES - 1;
	if (write(ready, &token, 1) != 1)
		return false;
	for (int i = 0; i < TURNS; i++) {
		if (read(in, &token, 1) != 1) {
			printf("process %d: no turn %d\n", index, i);
			return false;
		}
		show_memory(index, i, "before");
		Result result = turn(size, (uint32_t)(PROCESSES * i + index + 1), bad);
		refused += result.error != cudaSuccess;
		wrong += result.wrong;
		printf("process %d, turn %d: %s, %llu wrong\n", index, i,
		       cudaGetErrorName(result.error), result.wrong);
		show_memory(index, i, "after");
		if (i == TURNS - 1)
			printf("process %d: %u of %d turns refused, %llu words wrong\n", index,
			       refused, TURNS, wrong);
		fflush(stdout);
		if (!(last && i == TURNS - 1) && write(out, &token, 1) != 1)
			return false;
	}
	return !refused && !wrong;
}

int main()
{
	int pipes[PROCESSES][2], ready[2], status;
	char token = 0;
	bool good = true;
	signal(SIGPIPE, SIG_IGN);
	MUST(pipe(ready));
	for (auto &one : pipes)
		MUST(pipe(one));
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			int next = (i + 1) % PROCESSES;
			close(ready[0]);
			close(pipes[i][1]); /* so that the end of the other process is noticed */
			close(pipes[next][0]);
			bool well = play(i, ready[1], pipes[i][0], pipes[next][1]);
			fflush(stdout);
			_exit(!well);
		}
	close(ready[1]);
	for (int i = 0; i < PROCESSES && good; i++)
		good = read(ready[0], &token, 1) == 1; /* both have a context */
	if (good)
		good = write(pipes[0][1], &token, 1) == 1;
	for (auto &one : pipes) {
		close(one[0]);
		close(one[1]);
	}
	while (wait(&status) > 0)
		good = status == 0 && good;
	printf("neighbours: %s\n", good ? "ok" : "not ok");
	return !good;
}
