/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two processes as a CUDA-aware MPI sends them; with two GPUs each process has its
 * own. Before each message the sender asks what its pointer is, as Open MPI and UCX do.
 *
 *     small   device -> registered memory shared by both -> device
 *     large   handle of the block that holds the pointer, its id, an offset -> the receiver opens
 *             the block, once as long as its id stays, and copies from it on its own device
 *
 * `mpi bandwidth` also prints the rate of the median of 50 messages of 1 GiB, in GB/s.
 */
#include "gpu.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL ((size_t)64 << 10)
#define GIB ((size_t)1 << 30)

struct Message {
	CUipcMemHandle handle;
	CUipcEventHandle event;
	CUdeviceptr base;
	unsigned long long id;
	size_t offset, size;
	uint32_t tag;
};
struct Shared {
	std::atomic<unsigned> sent, received;
	unsigned right[2], opened, same_base_new_id;
	double rate;
	Message message;
	alignas(4096) char slot[SMALL];
};
static Shared *shared;

/* --- what is this pointer? --- */

static int attribute(CUdeviceptr p, CUpointer_attribute which, unsigned long long *value)
{
	*value = 0;
	return cuPointerGetAttribute(value, which, p);
}

static void classify(const char *what, CUdeviceptr p)
{
	CUmemorytype type = (CUmemorytype)0;
	CUcontext context = NULL, current;
	unsigned managed = 0;
	CUmemorytype *to_type = &type;
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_CONTEXT,
				       CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *answers[] = {to_type, &context, &managed};
	MUST(cuCtxGetCurrent(&current));
	int result = cuPointerGetAttributes(3, asked, answers, p);
	printf("%s: %d type %d managed %d context %s;", what, result, (int)type, managed,
	       context == current ? "current"
	       : context	  ? "other"
				  : "none");
	unsigned long long value;
	static const CUpointer_attribute more[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
						   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
						   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
						   CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
						   CU_POINTER_ATTRIBUTE_MAPPED};
	for (CUpointer_attribute which : more) {
		result = attribute(p, which, &value);
		bool is_handle = which == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
		printf(" %d:%d", result, is_handle ? value != 0 : (int)value);
	}
	result = attribute(p, CU_POINTER_ATTRIBUTE_BUFFER_ID, &value);
	printf(" id %d:%d;", result, value != 0);
	CUdeviceptr base = 0;
	size_t size = 0;
	result = cuMemGetAddressRange(&base, &size, p);
	printf(" range %d", result);
	if (result == 0)
		printf(", %zu bytes, offset %zu", size, (size_t)(p - base));
	printf("\n");
}

static void classify_all()
{
	char pageable[64], *device, *pinned, *registered, *managed, *queued;
	MUST(cudaMalloc(&device, 10 << 20));
	MUST(cudaMallocHost(&pinned, 1 << 20));
	MUST(cudaMallocManaged(&managed, 1 << 20));
	MUST(cudaMallocAsync(&queued, 1 << 20, 0));
	MUST(cudaStreamSynchronize(0));
	registered = (char *)aligned_alloc(4096, 1 << 20);
	MUST(cudaHostRegister(registered, 1 << 20, 0));
	classify("device, start", (CUdeviceptr)device);
	classify("device, inside", (CUdeviceptr)device + 12345);
	classify("device, last byte", (CUdeviceptr)device + (10 << 20) - 1);
	classify("pinned", (CUdeviceptr)pinned + 5);
	classify("registered", (CUdeviceptr)registered + 5);
	classify("managed", (CUdeviceptr)managed + 5);
	classify("of a pool in streams", (CUdeviceptr)queued + 5);
	classify("pageable", (CUdeviceptr)pageable);
	MUST(cudaFree(device));
	MUST(cudaDeviceSynchronize());
	MUST(cudaHostUnregister(registered));
	free(registered);
	MUST(cudaFreeAsync(queued, 0));
	MUST(cudaFree(managed));
	MUST(cudaFreeHost(pinned));
}

/* --- sender --- */

static bool is_device(CUdeviceptr p)
{
	unsigned long long type;
	return attribute(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &type) == 0 &&
	       (unsigned)type == CU_MEMORYTYPE_DEVICE;
}

static void message_send(CUdeviceptr p, size_t size, uint32_t tag, CUstream stream, CUevent event)
{
	Message &m = shared->message;
	int on = 1;
	size_t whole;
	if (!is_device(p))
		exit(3);
	m.size = size;
	m.tag = tag;
	if (size <= SMALL) {
		MUST(cuMemcpyDtoHAsync(shared->slot, p, size, stream));
		MUST(cuStreamSynchronize(stream));
	} else {
		MUST(cuMemGetAddressRange(&m.base, &whole, p));
		MUST(attribute(m.base, CU_POINTER_ATTRIBUTE_BUFFER_ID, &m.id));
		MUST(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m.base));
		MUST(cuIpcGetMemHandle(&m.handle, m.base));
		MUST(cuEventRecord(event, stream));
		m.offset = p - m.base;
	}
	unsigned number = shared->sent.fetch_add(1) + 1;
	while (shared->received.load() != number)
		usleep(10);
}

/* Blocks of many sizes come and go between the messages, so that addresses are used again. */
static void sender(bool bandwidth)
{
	Random random = {42};
	CUstream stream;
	CUevent event;
	char *kept[8] = {};
	MUST(cudaSetDevice(0));
	MUST(cudaFree(0));
	classify_all();
	MUST(cudaHostRegister(shared->slot, SMALL, cudaHostRegisterPortable));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	MUST(cuIpcGetEventHandle(&shared->message.event, event));
	for (unsigned turn = 0; turn < 400; turn++) {
		unsigned i = (unsigned)random.below(8);
		size_t words = 1 + random.below(turn % 3 ? SMALL / 4 : 3 << 20),
		       extra = random.below(100);
		if (kept[i])
			MUST(cudaFree(kept[i]));
		MUST(cudaMalloc(&kept[i], (words + extra) * 4));
		uint32_t *at = (uint32_t *)kept[i] + extra;
		fill<<<64, 256, 0, (cudaStream_t)stream>>>(at, words, turn);
		message_send((CUdeviceptr)at, words * 4, turn, stream, event);
		shared->right[0]++;
	}
	for (char *block : kept)
		if (block)
			MUST(cudaFree(block));
	if (bandwidth) {
		uint32_t *block;
		MUST(cudaMalloc(&block, GIB));
		fill<<<1024, 256, 0, (cudaStream_t)stream>>>(block, GIB / 4, 7);
		for (unsigned turn = 0; turn < 50; turn++)
			message_send((CUdeviceptr)block, GIB, 7, stream, event);
		MUST(cudaFree(block));
	}
	shared->message.size = 0;
	shared->sent.fetch_add(1);
}

/* --- receiver --- */

struct Opened {
	CUdeviceptr at;
	unsigned long long id;
};
static std::map<CUdeviceptr, Opened> opened;

static void all_close()
{
	for (auto &one : opened)
		MUST(cuIpcCloseMemHandle(one.second.at));
	opened.clear();
}

/* The sender's block here; a block of another id that was at this address is closed. */
static CUdeviceptr block_open(const Message &m)
{
	auto found = opened.find(m.base);
	if (found != opened.end() && found->second.id == m.id)
		return found->second.at;
	if (found != opened.end()) {
		shared->same_base_new_id++;
		MUST(cuIpcCloseMemHandle(found->second.at));
		opened.erase(found);
	}
	Opened block = {0, m.id};
	/* Natively a stale block of another base may be in the way: UCX closes those, and tries
	 * again. */
	CUresult result =
		cuIpcOpenMemHandle(&block.at, m.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (result == CUDA_ERROR_ALREADY_MAPPED) {
		all_close();
		result =
			cuIpcOpenMemHandle(&block.at, m.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	}
	MUST(result);
	opened[m.base] = block;
	shared->opened++;
	return block.at;
}

static void receiver(bool bandwidth)
{
	CUstream stream;
	CUevent event = NULL;
	cudaEvent_t began, ended;
	uint32_t *to;
	unsigned long long *bad, wrong;
	std::vector<float> times;
	int devices;
	MUST(cudaGetDeviceCount(&devices));
	MUST(cudaSetDevice(devices > 1));
	MUST(cudaMalloc(&to, bandwidth ? GIB : (size_t)16 << 20));
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaEventCreate(&began));
	MUST(cudaEventCreate(&ended));
	MUST(cudaHostRegister(shared->slot, SMALL, cudaHostRegisterPortable));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned number = 1;; number++) {
		while (shared->sent.load() != number)
			usleep(10);
		const Message &m = shared->message;
		if (!m.size)
			break;
		if (m.size <= SMALL) {
			MUST(cuMemcpyHtoDAsync((CUdeviceptr)to, shared->slot, m.size, stream));
		} else {
			if (!event)
				MUST(cuIpcOpenEventHandle(&event, m.event));
			CUdeviceptr from = block_open(m) + m.offset;
			MUST(cuStreamWaitEvent(stream, event, 0));
			MUST(cudaEventRecord(began, (cudaStream_t)stream));
			MUST(cuMemcpyDtoDAsync((CUdeviceptr)to, from, m.size, stream));
			MUST(cudaEventRecord(ended, (cudaStream_t)stream));
		}
		MUST(cudaMemsetAsync(bad, 0, sizeof *bad, (cudaStream_t)stream));
		verify<<<64, 256, 0, (cudaStream_t)stream>>>(to, m.size / 4, m.tag, bad);
		MUST(cuMemcpyDtoHAsync(&wrong, (CUdeviceptr)bad, sizeof wrong, stream));
		MUST(cuStreamSynchronize(stream));
		shared->right[1] += wrong == 0;
		if (m.size == GIB) {
			float ms;
			MUST(cudaEventElapsedTime(&ms, began, ended));
			times.push_back(ms);
		}
		shared->received.store(number);
	}
	all_close();
	if (!times.empty()) {
		std::sort(times.begin(), times.end());
		shared->rate = GIB / (times[times.size() / 2] / 1e3) / 1e9;
	}
}

int main(int argc, char **argv)
{
	bool bandwidth = argc > 1 && !strcmp(argv[1], "bandwidth");
	pid_t pids[2];
	int status[2];
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = (Shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			(i ? receiver : sender)(bandwidth);
			fflush(stdout);
			_exit(0);
		}
	}
	/* If one fails, the other would wait for ever. */
	pid_t first = waitpid(-1, &status[0], 0);
	if (status[0] != 0)
		kill(first == pids[0] ? pids[1] : pids[0], SIGKILL);
	waitpid(-1, &status[1], 0);
	printf("sent %u, right %u, blocks were opened: %s, an address came again with a new id: "
	       "%s\n",
	       shared->right[0], shared->right[1] - (bandwidth ? 50 : 0),
	       shared->opened ? "yes" : "no", shared->same_base_new_id ? "yes" : "no");
	if (bandwidth)
		printf("bandwidth: message: %.2f\n", shared->rate);
	return status[0] != 0 || status[1] != 0;
}
