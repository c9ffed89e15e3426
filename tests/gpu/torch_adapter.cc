// SPDX-License-Identifier: BSD-3-Clause
// An allocator for PyTorch's CUDAPluggableAllocator on libgpumem-core: the example of gpumem(3).
#include <cuda.h>
#include <gpumem.h>
#include <sys/types.h>

#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

static std::mutex lock;
static std::map<void *, std::set<CUstream>> users; // beside the own stream

static void *name(CUstream stream)
{
	return stream ? stream : CU_STREAM_LEGACY;
}

extern "C" void *torch_alloc(ssize_t size, int device, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuStreamIsCapturing(stream, &status);
	if (status != CU_STREAM_CAPTURE_STATUS_NONE)
		throw std::runtime_error("no memory in a stream capture");
	void *block = gpumem_cupy_malloc(name(stream), size, device);
	if (!block && size)
		throw std::runtime_error("CUDA out of memory");
	return block;
}

extern "C" void torch_record_stream(void *block, CUstream stream)
{
	std::lock_guard<std::mutex> guard(lock);
	users[block].insert(stream);
}

// Work queued on `stream` from now on follows the work queued on `other`.
static bool follow(CUstream stream, CUstream other)
{
	CUevent event;
	if (cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
		return false;
	bool done = !cuEventRecord(event, other) && !cuStreamWaitEvent(stream, event, 0);
	cuEventDestroy(event);
	return done;
}

extern "C" void torch_free(void *block, ssize_t, int device, CUstream stream)
{
	std::set<CUstream> others;
	{
		std::lock_guard<std::mutex> guard(lock);
		others.swap(users[block]);
		users.erase(block);
	}
	bool ordered = true;
	for (CUstream other : others)
		ordered = follow(stream, other) && ordered;
	gpumem_cupy_free(ordered ? name(stream) : nullptr, block, device);
}
