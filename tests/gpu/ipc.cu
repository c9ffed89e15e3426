/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and events shared by processes, as in NVIDIA's simpleIPC sample (one process allocates for
 * all, handles and events are in shared memory, each runs kernels on another's buffer), and as
 * PyTorch does it (a handle for each segment, offsets in it, an event). Then the state after an
 * exporter was killed. The first process never uses CUDA: a fork after its use would fail.
 */
#include "gpu.h"

#include <atomic>
#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, TENSORS = 8 };
static const size_t words = 1 << 20, tensor_words = 200000;

struct Shared {
	std::atomic<int> arrived;
	cudaIpcMemHandle_t memory[PROCESSES];
	cudaIpcEventHandle_t event[PROCESSES];
	cudaIpcMemHandle_t tensor[TENSORS];
	size_t offset[TENSORS];
};
static Shared *shared;

/* Wait until all processes are here; the last one opens the gate for this round. */
static void barrier(int processes)
{
	static int round;
	shared->arrived.fetch_add(1);
	round++;
	while (shared->arrived.load() < round * processes)
		usleep(100);
}

static pid_t child(void (*body)(int), int index)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		body(index);
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

static bool ended_well(pid_t pid)
{
	int status = -1;
	waitpid(pid, &status, 0);
	return status == 0;
}

static unsigned long long count_wrong(const uint32_t *at, size_t n, uint32_t tag)
{
	unsigned long long *bad, wrong = 0;
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaMemset(bad, 0, sizeof *bad));
	verify<<<64, 256>>>(at, n, tag, bad);
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	MUST(cudaFree(bad));
	return wrong;
}

/* --- simpleIPC --- */

/* Each process opens all buffers, and fills its neighbour's in each round. Events order the
 * processes' streams. */
static void simple_child(int index)
{
	uint32_t *buffers[PROCESSES];
	cudaEvent_t events[PROCESSES];
	cudaStream_t stream;
	void *own;
	MUST(cudaMalloc(&own, 1000));
	barrier(PROCESSES + 1);
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int i = 0; i < PROCESSES; i++) {
		MUST(cudaIpcOpenMemHandle((void **)&buffers[i], shared->memory[i],
					  cudaIpcMemLazyEnablePeerAccess));
		MUST(cudaIpcOpenEventHandle(&events[i], shared->event[i]));
	}
	for (int round = 0; round < PROCESSES; round++) {
		int to = (index + round) % PROCESSES;
		MUST(cudaStreamWaitEvent(stream, events[to], 0));
		fill<<<64, 256, 0, stream>>>(buffers[to], words, (uint32_t)(index * 10 + round));
		MUST(cudaEventRecord(events[to], stream));
		barrier(PROCESSES + 1);
	}
	MUST(cudaStreamSynchronize(stream));
	for (int i = 0; i < PROCESSES; i++) {
		MUST(cudaIpcCloseMemHandle(buffers[i]));
		MUST(cudaEventDestroy(events[i]));
	}
	barrier(PROCESSES + 1);
}

static void simple(int)
{
	pid_t pids[PROCESSES];
	uint32_t *buffers[PROCESSES];
	cudaEvent_t events[PROCESSES];
	int well = 0;
	for (int i = 0; i < PROCESSES; i++)
		pids[i] = child(simple_child, i);
	for (int i = 0; i < PROCESSES; i++) {
		MUST(cudaMalloc(&buffers[i], words * 4));
		MUST(cudaEventCreate(&events[i], cudaEventDisableTiming | cudaEventInterprocess));
		MUST(cudaIpcGetMemHandle(&shared->memory[i], buffers[i]));
		MUST(cudaIpcGetEventHandle(&shared->event[i], events[i]));
	}
	for (int round = 0; round <= PROCESSES + 1; round++)
		barrier(PROCESSES + 1);
	for (int i = 0; i < PROCESSES; i++)
		well += ended_well(pids[i]);
	printf("processes that ended well: %d of %d\n", well, PROCESSES);
	for (int i = 0; i < PROCESSES; i++) {
		int last = PROCESSES - 1, by = (i - last + PROCESSES) % PROCESSES;
		printf("buffer %d: %llu words wrong\n", i,
		       count_wrong(buffers[i], words, (uint32_t)(by * 10 + last)));
		MUST(cudaFree(buffers[i]));
		MUST(cudaEventDestroy(events[i]));
	}
}

/* --- PyTorch --- */

static void tensors_exporter(int)
{
	char *segments[2];
	cudaEvent_t event;
	for (int i = 0; i < 2; i++)
		MUST(cudaMalloc(&segments[i], 20 << 20));
	MUST(cudaEventCreate(&event, cudaEventDisableTiming | cudaEventInterprocess));
	for (int i = 0; i < TENSORS; i++) {
		char *p = segments[i % 2] + (size_t)(i / 2) * tensor_words * 4;
		CUdeviceptr base;
		size_t size;
		fill<<<64, 256>>>((uint32_t *)p, tensor_words, (uint32_t)i);
		MUST(cuMemGetAddressRange(&base, &size, (CUdeviceptr)p));
		MUST(cudaIpcGetMemHandle(&shared->tensor[i], (void *)base));
		shared->offset[i] = (CUdeviceptr)p - base;
	}
	MUST(cudaEventRecord(event));
	MUST(cudaIpcGetEventHandle(&shared->event[0], event));
	barrier(2);
	barrier(2); /* the importer has all it needs */
	_exit(0);   /* like a producer that ends early */
}

static void *open_cached(const cudaIpcMemHandle_t *handle)
{
	static cudaIpcMemHandle_t known[TENSORS];
	static void *bases[TENSORS];
	static int n;
	for (int i = 0; i < n; i++)
		if (memcmp(&known[i], handle, sizeof *handle) == 0)
			return bases[i];
	known[n] = *handle;
	MUST(cudaIpcOpenMemHandle(&bases[n], *handle, cudaIpcMemLazyEnablePeerAccess));
	return bases[n++];
}

static void tensors_importer(int)
{
	cudaEvent_t event;
	void *again, *own;
	barrier(2);
	MUST(cudaIpcOpenEventHandle(&event, shared->event[0]));
	MUST(cudaStreamWaitEvent(0, event, 0));
	void *first = open_cached(&shared->tensor[0]);
	for (int i = 0; i < TENSORS; i++) {
		char *base = (char *)open_cached(&shared->tensor[i]);
		unsigned long long wrong = count_wrong((uint32_t *)(base + shared->offset[i]),
						       tensor_words, (uint32_t)i);
		printf("tensor %d: %llu words wrong\n", i, wrong);
	}
	SHOW(cudaIpcOpenMemHandle(&again, shared->tensor[0], cudaIpcMemLazyEnablePeerAccess));
	printf("opened again, the same: %d\n", again == first);
	SHOW(cudaIpcCloseMemHandle(again));
	MUST(cudaMalloc(&own, 1 << 20));
	SHOW(cudaMemcpy(own, first, 1 << 20, cudaMemcpyDefault));
	SHOW(cudaIpcOpenMemHandle(&again, shared->tensor[0], 0));
	cudaGetLastError();
	barrier(2);
}

static void tensors()
{
	pid_t exporter, importer;
	exporter = child(tensors_exporter, 0);
	importer = child(tensors_importer, 0);
	printf("exporter %d, importer %d\n", ended_well(exporter), ended_well(importer));
}

/* --- an exporter that has ended --- */

static void ends_exporter(int)
{
	void *p;
	MUST(cudaMalloc(&p, 4 << 20));
	fill<<<64, 256>>>((uint32_t *)p, words, 77);
	MUST(cudaDeviceSynchronize());
	MUST(cudaIpcGetMemHandle(&shared->memory[0], p));
	MUST(cudaMalloc(&p, 4 << 20));
	MUST(cudaIpcGetMemHandle(&shared->memory[1], p));
	SHOW(cudaIpcOpenMemHandle(&p, shared->memory[0], cudaIpcMemLazyEnablePeerAccess));
	fflush(stdout);
	barrier(2);
	for (;;)
		pause();
}

static void ends(int)
{
	void *p, *q;
	pid_t pid = child(ends_exporter, 0);
	barrier(2);
	MUST(cudaIpcOpenMemHandle(&p, shared->memory[0], cudaIpcMemLazyEnablePeerAccess));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("of a killed process: %llu words wrong\n", count_wrong((uint32_t *)p, words, 77));
	SHOW(cudaIpcOpenMemHandle(&q, shared->memory[1], cudaIpcMemLazyEnablePeerAccess));
	cudaGetLastError();
	SHOW(cudaIpcCloseMemHandle(p));
	SHOW(cudaIpcCloseMemHandle(p));
}

int main()
{
	int well = 0;
	shared = (Shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	tensors();
	shared->arrived = 0;
	well += ended_well(child(ends, 0));
	shared->arrived = 0;
	well += ended_well(child(simple, 0));
	printf("%d of 2 ended well\n", well);
	return well == 2 ? 0 : 1;
}
