/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes whose peaks alternate, a tenth of a second apart: each allocates 60% of the device,
 * uses it and frees it. Each holds a small block all the time, whose contents are checked at the
 * end. The first process never uses CUDA: a fork after its use would fail.
 */
#include "gpu.h"

#include <sys/wait.h>
#include <unistd.h>

#define TURNS 10
#define PAUSE 100000 /* us */
#define KEPT ((size_t)256 << 20)
#define STEP ((size_t)2 << 20)

static __global__ void touch(unsigned char *at, size_t n, unsigned char byte)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i * STEP < n;
	     i += (size_t)gridDim.x * blockDim.x)
		at[i * STEP] = byte;
}

static __global__ void count(const unsigned char *at, size_t n, unsigned char byte,
			     unsigned long long *wrong)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i * STEP < n;
	     i += (size_t)gridDim.x * blockDim.x)
		if (at[i * STEP] != byte)
			atomicAdd(wrong, 1);
}

static unsigned long long wrong_bytes(unsigned char *at, size_t n, unsigned char byte)
{
	unsigned long long *sum, found;
	MUST(cudaMalloc(&sum, sizeof *sum));
	MUST(cudaMemset(sum, 0, sizeof *sum));
	count<<<64, 256>>>(at, n, byte, sum);
	MUST(cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost));
	MUST(cudaFree(sum));
	return found;
}

/* One peak. Returns the allocation's error; on success *wrong gets the number of wrong bytes. */
static int peak(size_t size, unsigned char byte, unsigned long long *wrong)
{
	unsigned char *at;
	int error = cudaMalloc(&at, size);
	if (error)
		return error;
	touch<<<64, 256>>>(at, size, byte);
	*wrong = wrong_bytes(at, size, byte);
	MUST(cudaFree(at));
	return 0;
}

/* Waits for its turn on one pipe, and passes it on by the other. */
static void player(int index, int in, int out)
{
	size_t room, total;
	unsigned char *kept;
	char token;
	MUST(cudaMemGetInfo(&room, &total));
	MUST(cudaMalloc(&kept, KEPT));
	MUST(cudaMemset(kept, 3 + index, KEPT));
	for (int turn = 0; turn < TURNS && read(in, &token, 1) == 1; turn++) {
		unsigned long long wrong = 0;
		int error = peak(total / 10 * 6, (unsigned char)(turn + index), &wrong);
		printf("process %d, turn %d: error %d, %llu wrong\n", index, turn, error, wrong);
		if (turn == TURNS - 1) /* during its last turn */
			printf("process %d: %llu wrong bytes of what it kept\n", index,
			       wrong_bytes(kept, KEPT, (unsigned char)(3 + index)));
		fflush(stdout);
		usleep(PAUSE);
		if (write(out, &token, 1) != 1)
			break;
	}
}

int main(void)
{
	int pipes[2][2], status, failed = 0;
	if (pipe(pipes[0]) || pipe(pipes[1]) || write(pipes[0][1], "t", 1) != 1)
		return 1;
	for (int i = 0; i < 2; i++)
		if (fork() == 0) {
			player(i, pipes[i][0], pipes[1 - i][1]);
			_exit(0);
		}
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}
