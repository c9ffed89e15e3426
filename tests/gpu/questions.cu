/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions about pointers, thirty times: right after a fill, and after a pause in which a process
 * that may sleep falls asleep. The answers are equal, as are the bytes afterwards.
 */
#include "gpu.h"

#include <string.h>
#include <unistd.h>

enum { ROUNDS = 30, ATTRIBUTES = 21, ADDRESSES = 4, ROOM = 32, PAUSE = 20000 /* us */ };

struct Answers {
	int result[ADDRESSES][ATTRIBUTES + 2];
	unsigned char bytes[ADDRESSES][ATTRIBUTES + 2][ROOM];
};

static void ask(Answers &a, const CUdeviceptr *about)
{
	memset(&a, 0xa5, sizeof a);
	for (int i = 0; i < ADDRESSES; i++) {
		for (int k = 1; k <= ATTRIBUTES; k++)
			a.result[i][k] = cuPointerGetAttribute(a.bytes[i][k],
							       (CUpointer_attribute)k, about[i]);
		cudaPointerAttributes all;
		memset(&all, 0, sizeof all);
		a.result[i][0] = cudaPointerGetAttributes(&all, (void *)about[i]);
		memcpy(a.bytes[i][0], &all, sizeof all < ROOM ? sizeof all : ROOM);
		CUdeviceptr base = 0;
		size_t size = 0;
		a.result[i][ATTRIBUTES + 1] = cuMemGetAddressRange(&base, &size, about[i]);
		memcpy(a.bytes[i][ATTRIBUTES + 1], &base, sizeof base);
		memcpy(a.bytes[i][ATTRIBUTES + 1] + 8, &size, sizeof size);
	}
	cudaGetLastError();
}

int main()
{
	const size_t words = 5 << 20;
	uint32_t *block, *ended;
	unsigned long long *bad, wrong = 0;
	static Answers awake, later;
	unsigned differ = 0;
	MUST(cudaMalloc(&block, words * 4));
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaMalloc(&ended, 100000));
	MUST(cudaFree(ended));
	MUST(cudaMemset(bad, 0, sizeof *bad));
	const CUdeviceptr about[ADDRESSES] = {(CUdeviceptr)block, (CUdeviceptr)block + 1234567,
					      (CUdeviceptr)ended, (CUdeviceptr)&awake};
	for (uint32_t round = 0; round < ROUNDS; round++) {
		fill<<<64, 256>>>(block, words, round);
		MUST(cudaDeviceSynchronize());
		ask(awake, about);
		usleep(PAUSE);
		ask(later, about);
		for (int i = 0; i < ADDRESSES; i++)
			for (int k = 0; k < ATTRIBUTES + 2; k++)
				if (awake.result[i][k] != later.result[i][k] ||
				    memcmp(awake.bytes[i][k], later.bytes[i][k], ROOM)) {
					differ++;
					printf("question %d about address %d differs\n", k, i);
				}
		verify<<<64, 256>>>(block, words, round, bad);
	}
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	for (int k = 0; k < ATTRIBUTES + 2; k++)
		printf("question %d: %d %d %d %d\n", k, awake.result[0][k], awake.result[1][k],
		       awake.result[2][k], awake.result[3][k]);
	printf("%u answers differ, %llu words wrong\n", differ, wrong);
	return 0;
}
