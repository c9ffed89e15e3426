/* SPDX-License-Identifier: BSD-3-Clause */
/* Two GPUs: every form of copy between them, with and without peer access, and a kernel that reads
 * the other's memory. `peer slowly` pauses before each: a process that may sleep does it then.
 * `peer bandwidth` instead prints the rates of the median of 50 copies of 1 GiB, in GB/s. */
#include "gpu.h"

#include <algorithm>
#include <string.h>
#include <unistd.h>

#define PAUSE 5000 /* us */

static bool slowly;
static const size_t words = 3000000, bytes = words * 4;

struct Pair {
	uint32_t *on[2];
	CUcontext context[2];
	cudaStream_t stream[2];
	unsigned long long *bad[2];
};

static void check(Pair &pair, const char *what, int result, int device, uint32_t tag)
{
	unsigned long long wrong = 0;
	MUST(cudaSetDevice(0));
	MUST(cudaDeviceSynchronize());
	MUST(cudaSetDevice(1));
	MUST(cudaDeviceSynchronize());
	MUST(cudaSetDevice(device));
	MUST(cudaMemset(pair.bad[device], 0, sizeof wrong));
	verify<<<64, 256>>>(pair.on[device], words, tag, pair.bad[device]);
	MUST(cudaMemcpy(&wrong, pair.bad[device], sizeof wrong, cudaMemcpyDeviceToHost));
	printf("%-36s to device %d: %d, %llu words wrong\n", what, device, result, wrong);
}

static void prepare(Pair &pair, int source, uint32_t tag)
{
	MUST(cudaSetDevice(source));
	fill<<<64, 256>>>(pair.on[source], words, tag);
	MUST(cudaDeviceSynchronize());
	MUST(cudaSetDevice(!source));
	MUST(cudaMemset(pair.on[!source], 0, bytes));
	MUST(cudaDeviceSynchronize());
	if (slowly)
		usleep(PAUSE);
}

static int copy_3d(Pair &pair, int s, bool async)
{
	CUDA_MEMCPY3D_PEER p = {};
	p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	p.srcDevice = (CUdeviceptr)pair.on[s];
	p.dstDevice = (CUdeviceptr)pair.on[!s];
	p.srcContext = pair.context[s];
	p.dstContext = pair.context[!s];
	p.WidthInBytes = p.srcPitch = p.dstPitch = bytes / 1000;
	p.Height = p.srcHeight = p.dstHeight = 1000;
	p.Depth = 1;
	return async ? cuMemcpy3DPeerAsync(&p, pair.stream[s]) : cuMemcpy3DPeer(&p);
}

static int copy(Pair &pair, int form, int s)
{
	uint32_t *to = pair.on[!s], *from = pair.on[s];
	CUdeviceptr d = (CUdeviceptr)to, f = (CUdeviceptr)from;
	switch (form) {
	case 0:
		return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
	case 1:
		return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
	case 2:
		return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, pair.stream[s]);
	case 3:
		return cuMemcpyDtoD(d, f, bytes);
	case 4:
		return cuMemcpyDtoDAsync(d, f, bytes, pair.stream[s]);
	case 5:
		return cudaMemcpyPeer(to, !s, from, s, bytes);
	case 6:
		return cudaMemcpyPeerAsync(to, !s, from, s, bytes, pair.stream[s]);
	case 7:
		return cudaMemcpy2D(to, bytes / 1000, from, bytes / 1000, bytes / 1000, 1000,
				    cudaMemcpyDefault);
	case 8:
		return cudaMemcpy2DAsync(to, bytes / 1000, from, bytes / 1000, bytes / 1000, 1000,
					 cudaMemcpyDefault, pair.stream[s]);
	case 9:
		return copy_3d(pair, s, false);
	default:
		return copy_3d(pair, s, true);
	}
}

static const char *const forms[] = {"cudaMemcpy default",  "cudaMemcpy device to device",
				    "cudaMemcpyAsync",	   "cuMemcpyDtoD",
				    "cuMemcpyDtoDAsync",   "cudaMemcpyPeer",
				    "cudaMemcpyPeerAsync", "cudaMemcpy2D",
				    "cudaMemcpy2DAsync",   "cuMemcpy3DPeer",
				    "cuMemcpy3DPeerAsync"};

/* `access`: 0 no device may read the other's memory, 1 device 0 may, 2 both may. */
static void all_forms(Pair &pair, int access)
{
	static uint32_t tag = 1;
	printf("peer access %d\n", access);
	for (int form = 0; form < 11; form++)
		for (int source = 0; source < 2; source++)
			for (int current = 0; current < 2; current++) {
				prepare(pair, source, ++tag);
				MUST(cudaSetDevice(form == 2 || form == 4 || form >= 6 ? source
										       : current));
				int result = copy(pair, form, source);
				check(pair, forms[form], result, !source, tag);
			}
	if (access) { /* a kernel on device 0 reads memory of device 1 */
		prepare(pair, 1, ++tag);
		MUST(cudaSetDevice(0));
		MUST(cudaMemset(pair.bad[0], 0, sizeof(unsigned long long)));
		unsigned long long wrong;
		verify<<<64, 256>>>(pair.on[1], words, tag, pair.bad[0]);
		MUST(cudaMemcpy(&wrong, pair.bad[0], sizeof wrong, cudaMemcpyDeviceToHost));
		printf("read by a kernel of device 0: %llu words wrong\n", wrong);
	}
}

static void rate_show(const char *what, cudaStream_t stream, void *to, const void *from, bool peer)
{
	const size_t size = (size_t)1 << 30;
	std::vector<float> times;
	cudaEvent_t began, ended;
	MUST(cudaEventCreate(&began));
	MUST(cudaEventCreate(&ended));
	for (int turn = 0; turn < 55; turn++) {
		float ms;
		MUST(cudaEventRecord(began, stream));
		if (peer)
			MUST(cudaMemcpyPeerAsync(to, 1, from, 0, size, stream));
		else
			MUST(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream));
		MUST(cudaEventRecord(ended, stream));
		MUST(cudaEventSynchronize(ended));
		MUST(cudaEventElapsedTime(&ms, began, ended));
		if (turn >= 5)
			times.push_back(ms);
	}
	std::sort(times.begin(), times.end());
	printf("bandwidth: %s: %.2f\n", what, size / (times[times.size() / 2] / 1e3) / 1e9);
}

static void rates()
{
	void *on[2];
	cudaStream_t stream;
	for (int d = 1; d >= 0; d--) {
		MUST(cudaSetDevice(d));
		MUST(cudaMalloc(&on[d], (size_t)1 << 30));
	}
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	rate_show("peer copy without access", stream, on[1], on[0], true);
	MUST(cudaDeviceEnablePeerAccess(1, 0));
	rate_show("peer copy", stream, on[1], on[0], true);
	rate_show("copy between devices", stream, on[1], on[0], false);
}

int main(int argc, char **argv)
{
	int devices;
	slowly = argc > 1 && !strcmp(argv[1], "slowly");
	MUST(cudaGetDeviceCount(&devices));
	if (devices < 2) {
		puts("needs two GPUs");
		return 77;
	}
	if (argc > 1 && !strcmp(argv[1], "bandwidth")) {
		rates();
		return 0;
	}
	Pair pair = {};
	for (int d = 0; d < 2; d++) {
		MUST(cudaSetDevice(d));
		MUST(cudaMalloc(&pair.on[d], bytes));
		MUST(cudaMalloc(&pair.bad[d], sizeof(unsigned long long)));
		MUST(cudaStreamCreateWithFlags(&pair.stream[d], cudaStreamNonBlocking));
		MUST(cuCtxGetCurrent(&pair.context[d]));
	}
	all_forms(pair, 0);
	MUST(cudaSetDevice(0));
	SHOW(cudaDeviceEnablePeerAccess(1, 0));
	all_forms(pair, 1);
	MUST(cudaSetDevice(1));
	SHOW(cudaDeviceEnablePeerAccess(0, 0));
	all_forms(pair, 2);
	SHOW(cudaDeviceEnablePeerAccess(0, 0));
	SHOW(cudaDeviceDisablePeerAccess(0));
	SHOW(cudaDeviceDisablePeerAccess(0));
	for (int d = 0; d < 2; d++) {
		MUST(cudaSetDevice(d));
		MUST(cudaFree(pair.on[d]));
		MUST(cudaFree(pair.bad[d]));
		size_t size, total;
		MUST(cudaMemGetInfo(&size, &total));
	}
	return 0;
}
