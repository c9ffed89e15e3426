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
	double mapped()
	{
		struct gpumem_heap_stats stats = {sizeof stats};
		MUST(gpumem_heap_stats(heap, &stats));
		return (double)stats.mapped;
	}
	/* Memory that a trim returns, without the heap's chunks. `used`: used bytes of the GPU. */
	double slack(double (*used)())
	{
		double before = used(), chunks = mapped();
		gpumem_heap_trim(heap);
		gpumem_trim();
		return before - used() - (chunks - mapped());
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
