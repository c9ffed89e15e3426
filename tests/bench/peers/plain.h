// SPDX-License-Identifier: BSD-3-Clause
// malloc and free of CUDA C++: T under the preload, otherwise the driver's own with a sufficient
// limit.
struct Peer {
	typedef int Device;
	double used_before = 0;

	explicit Peer(size_t bytes)
	{
		MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 2 * bytes + (64 << 20)));
	}
	Device device()
	{
		return 0;
	}
	void begin()
	{
	}
	void end()
	{
	}
};

static __device__ void *peer_malloc(Peer::Device, size_t size)
{
	return malloc(size);
}

static __device__ void peer_free(Peer::Device, void *block)
{
	free(block);
}
