/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream capture: results of allocation and free in each of the twelve cases (mode x same or other
 * thread x exchanged to relaxed or not), the state of the capture afterwards, and a graph that is
 * captured and launched while other threads allocate and free. `capture slowly` pauses before each
 * case: a process that may sleep does it then.
 */
#include "gpu.h"

#include <string.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#define PAUSE 5000 /* us */

static CUcontext context;
static bool slowly;

static int operation(int kind, CUdeviceptr *freed)
{
	CUdeviceptr at;
	char host[64];
	switch (kind) {
	case 0:
		return cuMemAlloc(&at, 1 << 20);
	case 1:
		return cuMemFree(*freed);
	case 2:
		return cuMemAlloc(&at, 64 << 20);
	default:
		return cuMemcpyDtoH(host, *freed, sizeof host);
	}
}

static void twelve_cases()
{
	static const char *const names[] = {"alloc of 1 MiB", "free", "alloc of 64 MiB", "copy"};
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int kind = 0; kind < 4; kind++)
		for (int mode = 0; mode < 3; mode++)
			for (int which = 0; which < 4; which++) {
				bool other = which & 1, exchanged = which & 2;
				CUdeviceptr block;
				CUgraph graph = nullptr;
				int result = -1;
				MUST(cuMemAlloc(&block, 4096));
				if (slowly)
					usleep(PAUSE);
				MUST(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
				auto call = [&] {
					auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
					MUST(cuCtxSetCurrent(context));
					if (exchanged)
						cuThreadExchangeStreamCaptureMode(&relaxed);
					result = operation(kind, &block);
					if (exchanged)
						cuThreadExchangeStreamCaptureMode(&relaxed);
				};
				if (other)
					std::thread(call).join();
				else
					call();
				int end = cuStreamEndCapture(stream, &graph);
				if (graph)
					cuGraphDestroy(graph);
				printf("%s, mode %d, %s thread%s: %d, end %d\n", names[kind], mode,
				       other ? "other" : "same", exchanged ? ", exchanged" : "",
				       result, end);
				if (kind != 1 || result)
					cuMemFree(block);
			}
	MUST(cuStreamDestroy(stream));
}

static void captured_while_others_free()
{
	std::atomic<bool> stop{false};
	std::atomic<unsigned> failed{0};
	std::vector<std::thread> threads;
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			Random random = {77u + t};
			MUST(cuCtxSetCurrent(context));
			while (!stop) {
				void *at;
				if (cudaMalloc(&at, 1 + random.below(4 << 20)) != cudaSuccess ||
				    cudaFree(at) != cudaSuccess)
					failed++;
			}
		});
	const uint64_t words = 1 << 20;
	uint32_t *a;
	unsigned long long *bad, wrong;
	cudaStream_t stream;
	MUST(cudaMalloc(&a, words * 4));
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaMemset(bad, 0, sizeof *bad));
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (uint32_t round = 0; round < 300; round++) {
		cudaGraph_t graph;
		cudaGraphExec_t exec;
		MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
		fill<<<64, 256, 0, stream>>>(a, words, round);
		verify<<<64, 256, 0, stream>>>(a, words, round, bad);
		MUST(cudaStreamEndCapture(stream, &graph));
		MUST(cudaGraphInstantiate(&exec, graph, 0));
		MUST(cudaGraphLaunch(exec, stream));
		MUST(cudaStreamSynchronize(stream));
		MUST(cudaGraphExecDestroy(exec));
		MUST(cudaGraphDestroy(graph));
	}
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	printf("300 graphs: %llu words wrong, %u calls of other threads failed\n", wrong,
	       failed.load());
}

int main(int argc, char **argv)
{
	slowly = argc > 1 && !strcmp(argv[1], "slowly");
	MUST(cudaFree(0));
	MUST(cuCtxGetCurrent(&context));
	twelve_cases();
	captured_while_others_free();
	return 0;
}
