/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that are freed while kernels still write to them, and used again at once in the order of
 * their stream (GPUMEM_FREE=ordered): first in one stream, then in four, three of which are used
 * rarely, then long blocks, whose chunks move to other addresses. Each block is checked in its
 * stream before its last write.
 */
#include "gpu.h"

#define BLOCKS 16
#define TURNS 20000
#define LONG_TURNS 4000
#define STREAMS 4

/* Some kernels are long, so that work queues up. */
static __global__ void spoil(uint32_t *at, uint64_t words, long long cycles)
{
	for (long long begin = clock64(); clock64() - begin < cycles;)
		;
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x)
		at[i] = 0xdeadbeef;
}

struct Block {
	uint32_t *at;
	uint64_t words;
	uint32_t tag;
	cudaStream_t stream;
};

/* A block has at least `least` words, and up to twice as many `sizes` times. */
static unsigned long long run(unsigned streams, const cudaStream_t *stream, uint32_t turns,
			      uint64_t least, unsigned sizes, unsigned long long *wrong)
{
	Block blocks[BLOCKS] = {};
	Random random = {7 + streams + sizes};
	unsigned long long result;
	MUST(cudaMemset(wrong, 0, sizeof *wrong));
	for (uint32_t turn = 0; turn < turns; turn++) {
		Block &b = blocks[random.below(BLOCKS)];
		if (b.at) {
			verify<<<32, 256, 0, b.stream>>>(b.at, b.words, b.tag, wrong);
			spoil<<<32, 256, 0, b.stream>>>(b.at, b.words,
							random.below(8) ? 0 : 100000);
			MUST(cudaFree(b.at));
			b.at = nullptr;
			continue;
		}
		b.words = least << random.below(sizes);
		b.words += random.below(b.words);
		b.tag = turn;
		b.stream = stream[turn % 1000 >= 900 ? random.below(streams) : 0];
		MUST(cudaMalloc(&b.at, b.words * sizeof *b.at));
		fill<<<32, 256, 0, b.stream>>>(b.at, b.words, b.tag);
	}
	MUST(cudaDeviceSynchronize());
	for (Block &b : blocks)
		MUST(cudaFree(b.at));
	MUST(cudaMemcpy(&result, wrong, sizeof result, cudaMemcpyDeviceToHost));
	return result;
}

int main()
{
	unsigned long long *wrong;
	cudaStream_t stream[STREAMS] = {};
	MUST(cudaMalloc(&wrong, sizeof *wrong));
	printf("the default stream: %llu words are wrong\n", run(1, stream, TURNS, 64, 16, wrong));
	for (unsigned i = 0; i < STREAMS; i++)
		MUST(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
	printf("one stream: %llu words are wrong\n", run(1, stream, TURNS, 64, 16, wrong));
	printf("four streams: %llu words are wrong\n", run(STREAMS, stream, TURNS, 64, 16, wrong));
	printf("long blocks: %llu words are wrong\n",
	       run(1, stream, LONG_TURNS, 1 << 20, 7, wrong));
	return 0;
}
