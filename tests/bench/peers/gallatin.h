// SPDX-License-Identifier: BSD-3-Clause
// Gallatin (McCoy, Pandey, PPoPP 2024), on memory that it allocates at its start.
#include <gallatin/allocators/gallatin.cuh>

struct Peer {
	typedef gallatin::allocators::Gallatin<16ull << 20, 16ull, 4096ull> Allocator;
	typedef Allocator *Device;
	Device allocator = nullptr;
	double used_before = 0;

	explicit Peer(size_t bytes)
	{
		allocator = Allocator::generate_on_device(3 * bytes + (4ull << 30), 42, false);
	}
	Device device()
	{
		return allocator;
	}
	void begin()
	{
	}
	void end()
	{
	}
};

static __device__ void *peer_malloc(Peer::Device allocator, size_t size)
{
	return allocator->malloc(size);
}

static __device__ void peer_free(Peer::Device allocator, void *block)
{
	allocator->free(block);
}
