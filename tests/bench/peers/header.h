// SPDX-License-Identifier: BSD-3-Clause
// G: gpumem_device.cuh, a heap that grows.
#include <gpumem_device.cuh>

struct Peer {
	typedef gm_heap *Device;
	gpumem_heap *heap = nullptr;
	double used_before = 0;

	explicit Peer(size_t)
	{
		MUST(gpumem_heap_create(0, 0, &heap));
	}
	Device device()
	{
		return gpumem_heap_device(heap);
	}
	void begin()
	{
		gpumem_heap_begin(heap, 0);
	}
	void end()
	{
		gpumem_heap_end(heap, 0);
	}
};

static __device__ void *peer_malloc(Peer::Device heap, size_t size)
{
	return gpumem_malloc(heap, size);
}

static __device__ void peer_free(Peer::Device heap, void *block)
{
	gpumem_free(heap, block);
}
