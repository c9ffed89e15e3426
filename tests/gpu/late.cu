/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels overwrite their block late, after the host has freed it. Blocks that are allocated next,
 * and filled by other streams, must keep their contents: in streams of every kind, in two contexts,
 * during a capture, after frees in stream order, on a full device, and with many threads.
 */
#include "gpu.h"

#include <atomic>
#include <thread>

#define MIB ((size_t)1 << 20)
#define LATE_NS 5000000u

static const size_t sizes[] = {3000, 70000, MIB, 3 * MIB, 40 * MIB};

/* One block of threads, so that other kernels run beside it. */
static __global__ void late(uint32_t *at, uint64_t words)
{
	unsigned long long begin, now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - begin < LATE_NS);
	for (uint64_t i = threadIdx.x; i < words; i += blockDim.x)
		at[i] = 0xdeadbeef;
}

struct Block {
	uint32_t *at;
	size_t words;
	uint32_t tag;
};

static Block take(size_t size)
{
	static std::atomic<uint32_t> tags{1};
	Block b = {nullptr, size / 4, tags++};
	MUST(cudaMalloc(&b.at, size));
	return b;
}

/* Allocates a block, and fills it in `stream`, which must not wait for other streams. */
static Block take_filled(size_t size, cudaStream_t stream)
{
	Block b = take(size);
	fill<<<8, 256, 0, stream>>>(b.at, b.words, b.tag);
	return b;
}

static unsigned long long count_bad(const std::vector<Block> &blocks, cudaStream_t stream)
{
	unsigned long long *bad, sum;
	MUST(cudaMallocHost(&bad, sizeof *bad));
	*bad = 0;
	for (const Block &b : blocks)
		verify<<<8, 256, 0, stream>>>(b.at, b.words, b.tag, bad);
	MUST(cudaStreamSynchronize(stream));
	sum = *bad;
	MUST(cudaFreeHost(bad));
	return sum;
}

static void check(const char *what, size_t size, std::vector<Block> &blocks, cudaStream_t stream)
{
	MUST(cudaDeviceSynchronize());
	printf("%s, %zu bytes: %llu bad words in %zu blocks\n", what, size,
	       count_bad(blocks, stream), blocks.size());
	for (Block &b : blocks)
		MUST(cudaFree(b.at));
	blocks.clear();
}

static cudaStream_t stream_of(unsigned flags)
{
	cudaStream_t stream;
	MUST(cudaStreamCreateWithFlags(&stream, flags));
	return stream;
}

/* --- one context --- */

static void streams(const char *what, cudaStream_t runs)
{
	cudaStream_t fills = stream_of(cudaStreamNonBlocking);
	std::vector<Block> kept;
	for (size_t size : sizes) {
		for (int round = 0; round < 8; round++) {
			Block old = take(size);
			late<<<1, 256, 0, runs>>>(old.at, old.words);
			MUST(cudaFree(old.at));
			for (int i = 0; i < 3; i++)
				kept.push_back(take_filled(size, fills));
			MUST(cudaStreamSynchronize(fills));
		}
		check(what, size, kept, fills);
	}
	MUST(cudaStreamDestroy(fills));
}

/* A fence recorded before a free does not cover it. Work goes on while blocks are freed. */
static void pipeline()
{
	cudaStream_t runs[4], fills = stream_of(cudaStreamNonBlocking);
	std::vector<Block> kept;
	for (cudaStream_t &stream : runs)
		stream = stream_of(cudaStreamNonBlocking);
	for (int i = 0; i < 200; i++) {
		size_t size = sizes[i % 4];
		Block old = take(size);
		late<<<1, 256, 0, runs[i % 4]>>>(old.at, old.words);
		MUST(cudaFree(old.at));
		kept.push_back(take_filled(size, fills));
	}
	check("a pipeline", 0, kept, fills);
	for (cudaStream_t stream : runs)
		MUST(cudaStreamDestroy(stream));
	MUST(cudaStreamDestroy(fills));
}

static void in_stream_order()
{
	cudaStream_t runs = stream_of(cudaStreamNonBlocking);
	cudaStream_t fills = stream_of(cudaStreamNonBlocking);
	std::vector<Block> kept;
	for (size_t size : sizes) {
		for (int round = 0; round < 8; round++) {
			Block old = take(size);
			late<<<1, 256, 0, runs>>>(old.at, old.words);
			MUST(cudaFreeAsync(old.at, runs));
			for (int i = 0; i < 3; i++)
				kept.push_back(take_filled(size, fills));
		}
		check("freed in stream order", size, kept, fills);
	}
	MUST(cudaStreamDestroy(runs));
	MUST(cudaStreamDestroy(fills));
}

static void during_capture()
{
	cudaStream_t runs = stream_of(cudaStreamNonBlocking);
	cudaStream_t fills = stream_of(cudaStreamNonBlocking);
	cudaStream_t captured = stream_of(cudaStreamNonBlocking);
	cudaGraph_t graph;
	std::vector<Block> kept;
	for (size_t size : sizes) {
		for (int round = 0; round < 4; round++) {
			Block old[2] = {take(size), take(size)};
			for (Block &b : old)
				late<<<1, 256, 0, runs>>>(b.at, b.words);
			MUST(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
			MUST(cudaFree(old[0].at));
			kept.push_back(take_filled(size, fills));
			int end = cudaStreamEndCapture(captured, &graph);
			MUST(end);
			MUST(cudaGraphDestroy(graph));
			kept.push_back(take_filled(size, fills));
			MUST(cudaFree(old[1].at));
			kept.push_back(take_filled(size, fills));
		}
		check("a capture is open", size, kept, fills);
	}
	for (cudaStream_t stream : {runs, fills, captured})
		MUST(cudaStreamDestroy(stream));
}

/* --- a second context, whose own fence covers its kernels --- */

static void contexts()
{
	CUcontext first, second;
	MUST(cuCtxGetCurrent(&first));
	for (size_t size : sizes) {
#if CUDA_VERSION >= 13000
		MUST(cuCtxCreate(&second, NULL, 0, 0));
#else
		MUST(cuCtxCreate(&second, 0, 0));
#endif
		cudaStream_t runs = stream_of(cudaStreamNonBlocking);
		std::vector<Block> kept;
		Block old = take(size);
		late<<<1, 256, 0, runs>>>(old.at, old.words);
		MUST(cuCtxSetCurrent(first));
		cudaStream_t fills = stream_of(cudaStreamNonBlocking);
		Block mine = take(size);
		MUST(cudaFree(mine.at));
		MUST(cudaFree(old.at));
		for (int i = 0; i < 8; i++)
			kept.push_back(take_filled(size, fills));
		MUST(cuCtxSetCurrent(second));
		MUST(cudaDeviceSynchronize());
		MUST(cuCtxSetCurrent(first));
		check("two contexts", size, kept, fills);
		MUST(cuCtxDestroy(second));
		MUST(cudaStreamDestroy(fills));
	}
}

/* --- the device holds only one of the blocks --- */

static void full()
{
	size_t have, total;
	cudaStream_t runs = stream_of(cudaStreamNonBlocking);
	cudaStream_t fills = stream_of(cudaStreamNonBlocking);
	MUST(cudaMemGetInfo(&have, &total));
	std::vector<Block> kept;
	size_t size = have / 8 * 5 / MIB * MIB;
	Block old = take(size);
	late<<<1, 256, 0, runs>>>(old.at, MIB);
	MUST(cudaFree(old.at));
	kept.push_back(take_filled(size, fills));
	check("a full device", 0, kept, fills);
	MUST(cudaStreamDestroy(runs));
	MUST(cudaStreamDestroy(fills));
}

/* --- threads --- */

static std::atomic<unsigned long long> bad_words;

static void work(unsigned me)
{
	Random random = {me + 1};
	cudaStream_t runs = stream_of(cudaStreamNonBlocking);
	cudaStream_t fills = stream_of(cudaStreamNonBlocking);
	std::vector<Block> kept;
	for (int i = 0; i < 60; i++) {
		size_t size = 1000 + random.below(4 * MIB);
		Block old = take(size);
		late<<<1, 256, 0, runs>>>(old.at, old.words);
		MUST(cudaFree(old.at));
		kept.push_back(take_filled(size, fills));
	}
	MUST(cudaStreamSynchronize(runs));
	bad_words += count_bad(kept, fills);
	for (Block &b : kept)
		MUST(cudaFree(b.at));
	MUST(cudaStreamDestroy(runs));
	MUST(cudaStreamDestroy(fills));
}

static void threads()
{
	std::vector<std::thread> all;
	for (unsigned i = 0; i < 8; i++)
		all.emplace_back(work, i);
	for (std::thread &thread : all)
		thread.join();
	MUST(cudaDeviceSynchronize());
	printf("8 threads: %llu bad words\n", bad_words.load());
}

int main()
{
	MUST(cudaFree(0));
	streams("a non-blocking stream", stream_of(cudaStreamNonBlocking));
	streams("a blocking stream", stream_of(cudaStreamDefault));
	streams("the default stream", 0);
	pipeline();
	in_stream_order();
	during_capture();
	contexts();
	threads();
	full();
	return 0;
}
