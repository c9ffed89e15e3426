// SPDX-License-Identifier: BSD-3-Clause
/*
 * P: a policy (FRESH_POLICY) on a heap that is mapped beforehand, without a host side. rw-bm and
 * corw serve one size: they are bounds, not rivals. The mapping (create, map and access, in handles
 * of up to 1 GiB) is timed by itself: row "map".
 */
#include <cuda.h>

#include "tests/gpu/heap.h"

struct Peer {
	typedef gm_heap *Device;
	typedef FRESH_POLICY Policy;
	/* MOST: bytes of a handle. EXTRA: more granules, for a million blocks of 256 bytes. */
	enum : size_t { MOST = size_t(1) << 30, EXTRA = 256 };
	Heap<Policy> *heap = nullptr;
	double used_before = 0;

	static size_t granules(size_t bytes)
	{
		return (bytes + bytes / 4) / GM_GRANULE + EXTRA;
	}
	static char *map(size_t bytes)
	{
		CUmemAllocationProp prop = {};
		CUmemAccessDesc access = {};
		CUmemGenericAllocationHandle handle;
		CUdeviceptr at;
		prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
		prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		MUST(cuMemAddressReserve(&at, bytes, 0, 0, 0));
		for (size_t done = 0; done < bytes;) {
			size_t size = bytes - done < MOST ? bytes - done : size_t(MOST);
			MUST(cuMemCreate(&handle, size, &prop, 0));
			MUST(cuMemMap(at + done, size, 0, handle, 0));
			MUST(cuMemSetAccess(at + done, size, &access, 1));
			done += size;
		}
		return (char *)at;
	}
	explicit Peer(size_t bytes)
	{
		size_t n = granules(bytes);
		auto begin = std::chrono::steady_clock::now();
		char *memory = map((n + 1) * GM_GRANULE);
		std::chrono::duration<double, std::micro> took =
			std::chrono::steady_clock::now() - begin;
		printf("row map us %.6g\n", took.count());
		heap = new Heap<Policy>((uint32_t)n, memory);
	}
	Device device()
	{
		return heap->device;
	}
	void begin()
	{
	}
	void end()
	{
	}
};

static __device__ void *peer_malloc(Peer::Device heap, size_t size)
{
	return Peer::Policy::malloc(heap, size);
}

static __device__ void peer_free(Peer::Device heap, void *block)
{
	Peer::Policy::free(heap, block);
}
