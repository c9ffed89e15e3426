/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it costs to unmap and map a chunk beside running kernels and captures, and what works on a
 * chunk of host memory that is mapped at a device address. Answers for the lending of chunks that
 * no tensor uses; run natively. A line is a row: a name, the size of a chunk, the median, the 99th
 * percentile and the maximum in us, and what was checked.
 */
#include <algorithm>
#include <chrono>
#include <cstring>
#include <cublas_v2.h>

#include "gpu.h"

#define MIB ((size_t)1 << 20)
enum { TURNS = 200, CHUNKS = 16 };

static double now_us()
{
	using namespace std::chrono;
	return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

struct Times {
	std::vector<double> us;
	void add(double begin)
	{
		us.push_back(now_us() - begin);
	}
	void show(const char *name, const char *what, size_t chunk, const char *checked)
	{
		std::sort(us.begin(), us.end());
		printf("%-22s %-8s %4zu MiB: median %8.1f, p99 %8.1f, most %9.1f us; %s\n", name,
		       what, chunk / MIB, us[us.size() / 2], us[us.size() * 99 / 100], us.back(),
		       checked);
		fflush(stdout);
	}
};

static CUmemAllocationProp device_memory()
{
	CUmemAllocationProp prop = {};
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	return prop;
}

static void map(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {};
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	MUST(cuMemMap(at, size, 0, handle, 0));
	MUST(cuMemSetAccess(at, size, &access, 1));
}

/* CHUNKS chunks side by side. The odd ones are unmapped and mapped; the others are in use. */
struct Range {
	size_t chunk;
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle[CHUNKS];
	explicit Range(size_t chunk) : chunk(chunk)
	{
		CUmemAllocationProp prop = device_memory();
		MUST(cuMemAddressReserve(&at, chunk * CHUNKS, 0, 0, 0));
		for (int i = 0; i < CHUNKS; i++) {
			MUST(cuMemCreate(&handle[i], chunk, &prop, 0));
			map(at + i * chunk, chunk, handle[i]);
		}
	}
	~Range()
	{
		for (int i = 0; i < CHUNKS; i++) {
			MUST(cuMemUnmap(at + i * chunk, chunk));
			MUST(cuMemRelease(handle[i]));
		}
		MUST(cuMemAddressFree(at, chunk * CHUNKS));
	}
	uint32_t *words(int i) const
	{
		return (uint32_t *)(at + i * chunk);
	}
	void turn(int i, Times &unmap, Times &back)
	{
		double begin = now_us();
		MUST(cuMemUnmap(at + i * chunk, chunk));
		unmap.add(begin);
		begin = now_us();
		map(at + i * chunk, chunk, handle[i]);
		back.add(begin);
	}
};

static unsigned long long *bad;

static unsigned long long bad_words(const Range &r)
{
	*bad = 0;
	for (int i = 0; i < CHUNKS; i += 2)
		verify<<<64, 256>>>(r.words(i), r.chunk / 4, i, bad);
	MUST(cudaDeviceSynchronize());
	return *bad;
}

static void fill_even(const Range &r)
{
	for (int i = 0; i < CHUNKS; i += 2)
		fill<<<64, 256>>>(r.words(i), r.chunk / 4, i);
	MUST(cudaDeviceSynchronize());
}

/* Adds to each word of the chunk and takes it off again until *go; its contents stay. */
static __global__ void churn(volatile int *go, uint32_t *at, uint64_t words)
{
	while (!*go)
		for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
		     i += gridDim.x * blockDim.x) {
			((volatile uint32_t *)at)[i] += 7;
			((volatile uint32_t *)at)[i] -= 7;
		}
}

static void beside_idle(size_t chunk)
{
	Range r(chunk);
	Times unmap, back;
	for (int i = 0; i < TURNS; i++)
		r.turn(i % (CHUNKS / 2) * 2 + 1, unmap, back);
	unmap.show("idle device", "unmap", chunk, "-");
	back.show("idle device", "map", chunk, "-");
}

/* A kernel that runs on and uses the chunks beside those that are unmapped. */
static void beside_kernel(size_t chunk)
{
	Range r(chunk);
	Times unmap, back;
	cudaStream_t s;
	volatile int *go;
	MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	MUST(cudaMallocHost((void **)&go, sizeof *go));
	fill_even(r);
	*go = 0;
	churn<<<32, 256, 0, s>>>(go, r.words(2), chunk / 4);
	for (int i = 0; i < TURNS; i++)
		r.turn(i % (CHUNKS / 2) * 2 + 1, unmap, back);
	bool still = cudaStreamQuery(s) == cudaErrorNotReady;
	*go = 1;
	MUST(cudaStreamSynchronize(s));
	char checked[80];
	snprintf(checked, sizeof checked, "kernel %s, %llu words wrong",
		 still ? "still ran" : "HAD ENDED", bad_words(r));
	unmap.show("a kernel runs on", "unmap", chunk, checked);
	back.show("a kernel runs on", "map", chunk, checked);
}

/* Short kernels are queued all the time. */
static void beside_queue(size_t chunk)
{
	Range r(chunk);
	Times unmap, back;
	cudaStream_t s;
	MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int i = 0; i < TURNS; i++) {
		for (int k = 0; k < 20; k++)
			fill<<<256, 256, 0, s>>>(r.words(k % 8 * 2), chunk / 4, k % 8 * 2);
		r.turn(i % (CHUNKS / 2) * 2 + 1, unmap, back);
	}
	MUST(cudaStreamSynchronize(s));
	char checked[80];
	snprintf(checked, sizeof checked, "%llu words wrong", bad_words(r));
	unmap.show("20 kernels queued", "unmap", chunk, checked);
	back.show("20 kernels queued", "map", chunk, checked);
}

/* A capture of each mode is under way in this thread; the graph uses the chunk mapped in it. */
static void in_capture(size_t chunk, cudaStreamCaptureMode mode, const char *name)
{
	Range r(chunk);
	Times unmap, back;
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	fill_even(r);
	MUST(cudaStreamBeginCapture(s, mode));
	cudaStreamCaptureMode quiet = cudaStreamCaptureModeRelaxed;
	MUST(cudaThreadExchangeStreamCaptureMode(&quiet));
	for (int i = 0; i < TURNS / 4; i++)
		r.turn(i % (CHUNKS / 2) * 2 + 1, unmap, back);
	MUST(cudaThreadExchangeStreamCaptureMode(&quiet));
	fill<<<64, 256, 0, s>>>(r.words(1), chunk / 4, 1);
	cudaError_t ended = cudaStreamEndCapture(s, &graph);
	unsigned long long wrong = ~0ull;
	if (ended == cudaSuccess) {
		MUST(cudaGraphInstantiate(&exec, graph, 0));
		MUST(cudaGraphLaunch(exec, s));
		MUST(cudaStreamSynchronize(s));
		wrong = bad_words(r);
		verify<<<64, 256>>>(r.words(1), chunk / 4, 1, bad);
		MUST(cudaDeviceSynchronize());
		wrong = *bad;
		/* A replay after the chunk was unmapped and mapped once more. */
		r.turn(1, unmap, back);
		MUST(cudaGraphLaunch(exec, s));
		MUST(cudaStreamSynchronize(s));
		*bad = 0;
		verify<<<64, 256>>>(r.words(1), chunk / 4, 1, bad);
		MUST(cudaDeviceSynchronize());
		wrong += *bad;
	}
	char checked[80];
	snprintf(checked, sizeof checked, "capture ends with %d, two replays, %llu words wrong",
		 (int)ended, wrong);
	unmap.show(name, "unmap", chunk, checked);
	back.show(name, "map", chunk, checked);
}

static void events_over_streams()
{
	enum { STREAMS = 16 };
	cudaStream_t s[STREAMS];
	CUcontext context;
	CUevent event;
	Times record;
	MUST(cuCtxGetCurrent(&context));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < STREAMS; i++)
		MUST(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
	for (int i = 0; i < TURNS; i++) {
		double begin = now_us();
		MUST(cuCtxRecordEvent(context, event));
		record.add(begin);
	}
	record.show("fence, 16 streams", "record", 0, "-");
}

/* --- host memory at a device address --- */

static __global__ void add_all(uint32_t *at, uint64_t words, uint32_t n)
{
	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x)
		atomicAdd(&at[i], n);
}

static __global__ void add_one_word(unsigned long long *at)
{
	atomicAdd(at, 1ull);
}

/* Device chunks at both sides of one of host memory: a block may lie over all three. */
struct Mixed {
	size_t chunk;
	CUdeviceptr at = 0;
	CUmemGenericAllocationHandle handle[3];
	const char *kind = NULL;
	explicit Mixed(size_t chunk) : chunk(chunk)
	{
		CUmemAllocationProp prop = device_memory(), host = device_memory();
		MUST(cuMemAddressReserve(&at, chunk * 3, 0, 0, 0));
		for (int i = 0; i < 3; i += 2) {
			MUST(cuMemCreate(&handle[i], chunk, &prop, 0));
			map(at + i * chunk, chunk, handle[i]);
		}
		host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		host.location.id = 0;
		CUresult made = cuMemCreate(&handle[1], chunk, &host, 0);
		printf("host memory: HOST_NUMA %d", (int)made);
		if (made != CUDA_SUCCESS) {
			host.location.type = CU_MEM_LOCATION_TYPE_HOST;
			made = cuMemCreate(&handle[1], chunk, &host, 0);
			printf(", HOST %d", (int)made);
		}
		printf("\n");
		MUST(made);
		map(at + chunk, chunk, handle[1]);
	}
	void *host() const
	{
		return (void *)(at + chunk);
	}
};

enum { WRONG, RIGHT, UNCHECKED };
static int n_wrong;

static void rate(const char *name, size_t bytes, double begin, int right)
{
	static const char *const words[] = {"WRONG", "right", "checked by the next line"};
	MUST(cudaDeviceSynchronize());
	double us = now_us() - begin;
	printf("host chunk: %-28s %8.1f us, %7.1f GB/s, %s\n", name, us, bytes / us / 1e3,
	       words[right]);
	n_wrong += right == WRONG;
	fflush(stdout);
}

static bool has(const Mixed &m, size_t from, size_t bytes, uint32_t tag)
{
	*bad = 0;
	verify<<<256, 256>>>((uint32_t *)(m.at + from), bytes / 4, tag, bad);
	MUST(cudaDeviceSynchronize());
	return *bad == 0;
}

static void host_chunk(size_t chunk)
{
	Mixed m(chunk);
	size_t all = 3 * chunk;
	for (int again = 0; again < 2; again++) {
		double t = now_us();
		fill<<<256, 256>>>((uint32_t *)m.at, all / 4, 5);
		rate("kernel writes all three", all, t, UNCHECKED);
		t = now_us();
		fill<<<256, 256>>>((uint32_t *)m.host(), chunk / 4, 5);
		rate("kernel writes", chunk, t, UNCHECKED);
		fill<<<256, 256>>>((uint32_t *)m.at, all / 4, 5);
		t = now_us();
		bool right = has(m, 0, all, 5);
		rate("kernel reads all three", all, t, right);
	}
	std::vector<uint32_t> words(all / 4);
	double t = now_us();
	MUST(cudaMemcpy(words.data(), (void *)m.at, all, cudaMemcpyDeviceToHost));
	bool right = true;
	for (size_t i = 0; i < words.size(); i++)
		right = right && words[i] == pattern(5, i);
	rate("copy to the host", all, t, right);
	for (size_t i = 0; i < words.size(); i++)
		words[i] = pattern(6, i);
	t = now_us();
	MUST(cudaMemcpy((void *)m.at, words.data(), all, cudaMemcpyHostToDevice));
	rate("copy from the host", all, t, has(m, 0, all, 6));
	void *other;
	MUST(cudaMalloc(&other, all));
	t = now_us();
	MUST(cudaMemcpyAsync(other, (void *)m.at, all, cudaMemcpyDeviceToDevice));
	rate("copy to device memory", all, t, UNCHECKED);
	MUST(cudaMemset((void *)m.at, 0, all));
	t = now_us();
	MUST(cudaMemcpyAsync((void *)m.at, other, all, cudaMemcpyDeviceToDevice));
	rate("copy from device memory", all, t, has(m, 0, all, 6));
	t = now_us();
	MUST(cudaMemset(m.host(), 0, chunk));
	add_all<<<256, 256>>>((uint32_t *)m.host(), chunk / 4, 3);
	add_all<<<256, 256>>>((uint32_t *)m.host(), chunk / 4, 4);
	MUST(cudaMemcpy(words.data(), m.host(), chunk, cudaMemcpyDeviceToHost));
	right = std::all_of(words.begin(), words.begin() + chunk / 4,
			    [](uint32_t w) { return w == 7; });
	rate("memset, atomics", 4 * chunk, t, right);
	MUST(cudaMemset(m.host(), 0, chunk));
	t = now_us();
	add_one_word<<<1024, 256>>>((unsigned long long *)m.host());
	MUST(cudaMemcpy(words.data(), m.host(), 8, cudaMemcpyDeviceToHost));
	rate("262144 atomics on a word", 8 * 262144, t, words[0] == 262144);
	MUST(cudaFree(other));

	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	MUST(cudaMemsetAsync((void *)m.at, 0, all, s));
	fill<<<256, 256, 0, s>>>((uint32_t *)m.at, all / 4, 8);
	MUST(cudaStreamEndCapture(s, &graph));
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	t = now_us();
	MUST(cudaGraphLaunch(exec, s));
	MUST(cudaStreamSynchronize(s));
	rate("graph: memset and kernel", 2 * all, t, has(m, 0, all, 8));
}

/* n x n matrices of floats: A lies over the border of the first chunk, B in host memory. */
static void host_blas(size_t chunk)
{
	enum { N = 1024 };
	Mixed m(chunk);
	cublasHandle_t blas;
	const float one = 1, zero = 0;
	size_t bytes = (size_t)N * N * 4;
	float *a = (float *)(m.at + chunk - bytes / 2), *b = (float *)(m.at + chunk + bytes),
	      *c = (float *)(m.at + 2 * chunk - bytes / 2);
	std::vector<float> ones((size_t)N * N, 1.0f), out((size_t)N * N);
	if (4 * bytes > chunk)
		return;
	MUST(cublasCreate(&blas));
	MUST(cudaMemcpy(a, ones.data(), bytes, cudaMemcpyHostToDevice));
	MUST(cudaMemcpy(b, ones.data(), bytes, cudaMemcpyHostToDevice));
	for (int again = 0; again < 3; again++) {
		double t = now_us();
		MUST(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, a, N, b, N, &zero,
				 c, N));
		MUST(cudaDeviceSynchronize());
		double us = now_us() - t;
		MUST(cudaMemcpy(out.data(), c, bytes, cudaMemcpyDeviceToHost));
		bool right = std::all_of(out.begin(), out.end(), [](float x) { return x == N; });
		printf("host chunk: cublasSgemm of %d: %.1f us, %s\n", N, us,
		       right ? "right" : "WRONG");
		n_wrong += !right;
	}
}

int main()
{
	MUST(cudaFree(NULL));
	MUST(cudaMallocManaged((void **)&bad, sizeof *bad));
	for (size_t chunk : {2 * MIB, 16 * MIB, 32 * MIB}) {
		beside_idle(chunk);
		beside_kernel(chunk);
		beside_queue(chunk);
		in_capture(chunk, cudaStreamCaptureModeRelaxed, "relaxed capture");
		in_capture(chunk, cudaStreamCaptureModeThreadLocal, "capture of a thread");
		in_capture(chunk, cudaStreamCaptureModeGlobal, "global capture");
	}
	events_over_streams();
	host_chunk(32 * MIB);
	host_blas(32 * MIB);
	return n_wrong != 0;
}
