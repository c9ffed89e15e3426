/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runtime API as programs use it: sizes from 1 byte to 1 GiB with random lifetimes, every block
 * written and verified by kernels, copies of every form, and the errors of wrong calls. Built three
 * ways: static cudart, shared cudart, per-thread default stream. Arguments name the parts to run;
 * without arguments all parts run.
 */
#include <cstring>

#include "gpu.h"

struct Block {
	uint32_t *at;
	uint64_t words;
	uint32_t tag;
};

static unsigned long long *bad_count;

static uint64_t size_of(Random &random)
{
	static const uint64_t steps[] = {1, 511, 512, 513, 65536, 1048575, 1048576, 2097152};
	uint64_t kind = random.below(16);
	if (kind < 8)
		return 4 + random.below(65536);
	if (kind < 12)
		return steps[random.below(8)];
	if (kind < 15)
		return 65536 + random.below(8u << 20);
	return random.below(256u << 20) + 1;
}

static void churn()
{
	Random random = {0x9e3779b97f4a7c15u};
	std::vector<Block> live;
	uint64_t total = 0;
	for (uint32_t step = 0; step < 4000; step++) {
		if (live.size() > 200 || (live.size() && random.below(5) < 2)) {
			size_t i = random.below(live.size());
			verify<<<64, 256>>>(live[i].at, live[i].words, live[i].tag, bad_count);
			MUST(cudaFree(live[i].at));
			live[i] = live.back();
			live.pop_back();
			continue;
		}
		Block block = {nullptr, 0, step};
		uint64_t size = size_of(random);
		MUST(cudaMalloc(&block.at, size));
		block.words = size / 4;
		total += size;
		if ((uintptr_t)block.at % 512)
			printf("step %u: not 512-byte aligned\n", step);
		if (block.words)
			fill<<<64, 256>>>(block.at, block.words, block.tag);
		live.push_back(block);
	}
	for (Block &block : live) {
		verify<<<64, 256>>>(block.at, block.words, block.tag, bad_count);
		MUST(cudaFree(block.at));
	}
	unsigned long long bad;
	MUST(cudaMemcpy(&bad, bad_count, sizeof bad, cudaMemcpyDeviceToHost));
	printf("churn: %llu bytes allocated, %llu words wrong\n", (unsigned long long)total, bad);
}

static void copies()
{
	const size_t n = 5000000;
	std::vector<uint32_t> host(n), back(n);
	uint32_t *a, *b;
	cudaStream_t stream;
	for (size_t i = 0; i < n; i++)
		host[i] = pattern(7, i);
	MUST(cudaMalloc(&a, n * 4));
	MUST(cudaMalloc(&b, n * 4));
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaMemcpy(a, host.data(), n * 4, cudaMemcpyHostToDevice));
	MUST(cudaMemcpy(b, a, n * 4, cudaMemcpyDeviceToDevice));
	MUST(cudaMemcpy(back.data(), b, n * 4, cudaMemcpyDefault));
	printf("copies: %s\n", back == host ? "equal" : "different");
	MUST(cudaMemsetAsync(b, 0x5a, n * 4, stream));
	MUST(cudaMemcpyAsync(b, a, n * 2, cudaMemcpyDeviceToDevice, stream));
	MUST(cudaMemcpyAsync(back.data(), b, n * 4, cudaMemcpyDeviceToHost, stream));
	MUST(cudaStreamSynchronize(stream));
	size_t wrong = 0;
	for (size_t i = 0; i < n; i++)
		wrong += back[i] != (i < n / 2 ? host[i] : 0x5a5a5a5au);
	printf("copies on a stream: %zu words wrong\n", wrong);
	MUST(cudaMemcpy2D(b, 4096, a, 1024, 1024, 1000, cudaMemcpyDeviceToDevice));
	MUST(cudaMemcpy2D(back.data(), 1024, b, 4096, 1024, 1000, cudaMemcpyDeviceToHost));
	wrong = 0;
	for (size_t i = 0; i < 256 * 1000; i++)
		wrong += back[i] != host[i];
	printf("copies in two dimensions: %zu words wrong\n", wrong);
	MUST(cudaStreamDestroy(stream));
	MUST(cudaFree(a));
	MUST(cudaFree(b));
}

static void pitched()
{
	static const size_t widths[] = {1, 100, 512, 513, 4000, 65537};
	for (size_t width : widths) {
		void *at;
		size_t pitch = 0;
		MUST(cudaMallocPitch(&at, &pitch, width, 33));
		printf("pitch of %zu: %zu\n", width, pitch);
		SHOW(cudaMemset2D(at, pitch, 1, width, 33));
		MUST(cudaFree(at));
	}
	cudaPitchedPtr cube;
	MUST(cudaMalloc3D(&cube, make_cudaExtent(100, 20, 30)));
	printf("pitch of a cube: %zu\n", cube.pitch);
	SHOW(cudaMemset3D(cube, 1, make_cudaExtent(100, 20, 30)));
	MUST(cudaFree(cube.ptr));
}

static void errors()
{
	char *at = nullptr, *other = nullptr;
	char host[8192] = {0};
	cudaPointerAttributes attributes;
	SHOW(cudaMalloc(&at, 0));
	printf("a block of no bytes is %s\n", at ? "something" : "NULL");
	SHOW(cudaFree(at));
	SHOW(cudaFree(nullptr));
	SHOW(cudaMalloc(nullptr, 100));
	SHOW(cudaMalloc(&at, (size_t)1 << 60));
	SHOW(cudaGetLastError());
	MUST(cudaMalloc(&at, 1000));
	MUST(cudaMalloc(&other, 1000));
	SHOW(cudaMemcpy(at, host, 1000, cudaMemcpyHostToDevice));
	SHOW(cudaMemcpy(at, host, 1001, cudaMemcpyHostToDevice));
	SHOW(cudaMemcpy(at + 999, host, 1, cudaMemcpyHostToDevice));
	SHOW(cudaMemcpy(at + 999, host, 2, cudaMemcpyHostToDevice));
	SHOW(cudaMemcpy(host, at, 1001, cudaMemcpyDeviceToHost));
	SHOW(cudaMemcpy(at, other, 1001, cudaMemcpyDeviceToDevice));
	SHOW(cudaMemset(at, 0, 1000));
	SHOW(cudaMemset(at, 0, 1001));
	SHOW(cudaMemcpyAsync(at, host, 1001, cudaMemcpyHostToDevice, 0));
	SHOW(cudaMemsetAsync(at, 0, 1001, 0));
	SHOW(cudaPointerGetAttributes(&attributes, at + 10));
	printf("type %d, device %d, same pointer %d\n", attributes.type, attributes.device,
	       attributes.devicePointer == at + 10);
	SHOW(cudaFree(at + 256));
	cudaGetLastError();
	SHOW(cudaFree(at));
	SHOW(cudaMemcpy(at, host, 10, cudaMemcpyHostToDevice));
	cudaGetLastError();
	SHOW(cudaFree(at));
	cudaGetLastError();
	SHOW(cudaFree(other));
	SHOW(cudaFree(host));
	cudaGetLastError();
	SHOW(cudaFreeAsync(nullptr, 0));
	cudaGetLastError();
	MUST(cudaMalloc(&at, 1000));
	SHOW(cudaFreeAsync(at, 0));
	SHOW(cudaDeviceSynchronize());
	size_t size = 0, total = 0;
	SHOW(cudaMemGetInfo(&size, &total));
	printf("total %zu, free at most total %d\n", total, size <= total);
}

/* A kernel's late writes must not change a block that was allocated after the free. */
static void late_writes()
{
	int *go;
	cudaStream_t stream;
	unsigned long long bad;
	MUST(cudaHostAlloc(&go, sizeof *go, cudaHostAllocMapped));
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaMemset(bad_count, 0, sizeof *bad_count));
	for (uint32_t round = 0; round < 50; round++) {
		uint32_t *a, *b;
		const uint64_t words = 1000 + 20000 * round;
		*go = 0;
		MUST(cudaMalloc(&a, words * 4));
		wait_then_fill<<<1, 256, 0, stream>>>(go, a, words, round);
		*(volatile int *)go = 1;
		MUST(cudaFree(a)); /* waits for the kernel, as natively */
		MUST(cudaMalloc(&b, words * 4));
		fill<<<8, 256>>>(b, words, 1000 + round);
		MUST(cudaDeviceSynchronize());
		verify<<<8, 256>>>(b, words, 1000 + round, bad_count);
		MUST(cudaFree(b));
	}
	MUST(cudaMemcpy(&bad, bad_count, sizeof bad, cudaMemcpyDeviceToHost));
	printf("late writes: %llu words wrong\n", bad);
	MUST(cudaFreeHost(go));
	MUST(cudaStreamDestroy(stream));
}

static void reset()
{
	char *at;
	MUST(cudaMalloc(&at, 100 << 20));
	SHOW(cudaDeviceReset());
	SHOW(cudaMalloc(&at, 100 << 20));
	SHOW(cudaMemset(at, 1, 100 << 20));
	SHOW(cudaFree(at));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} parts[] = {{"churn", churn},	 {"copies", copies},	       {"pitched", pitched},
		     {"errors", errors}, {"late_writes", late_writes}, {"reset", reset}};
	MUST(cudaMalloc(&bad_count, sizeof *bad_count));
	MUST(cudaMemset(bad_count, 0, sizeof *bad_count));
	for (const auto &part : parts) {
		bool wanted = argc < 2;
		for (int i = 1; i < argc; i++)
			wanted |= strcmp(argv[i], part.name) == 0;
		if (wanted)
			part.run();
	}
	SHOW(cudaDeviceSynchronize());
	return 0;
}
