// SPDX-License-Identifier: BSD-3-Clause
// Ouroboros (Winter, Mlakar, Parger, Steinberger, ICS 2020), on memory that it allocates at its
// start. FRESH_OUROBOROS: the type.
#include <iostream>

#define clockRate warpSize /* CUDA 13 has no clockRate; its use is only in unused statistics */
// The headers depend on this order.
// clang-format off
#include "device/Ouroboros_impl.cuh"
#include "device/MemoryInitialization.cuh"
#include "InstanceDefinitions.cuh"
// clang-format on
#undef clockRate

struct Peer {
	typedef FRESH_OUROBOROS Allocator;
	typedef Allocator *Device;
	Allocator allocator;
	double used_before = 0;

	explicit Peer(size_t bytes)
	{
		allocator.initialize(3 * bytes + (4ull << 30));
	}
	Device device()
	{
		return allocator.getDeviceMemoryManager();
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
