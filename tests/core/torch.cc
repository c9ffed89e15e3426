// SPDX-License-Identifier: BSD-3-Clause
// The allocator of gpumem(3) for PyTorch (tests/gpu/torch_adapter.cc), on the simulated driver. It
// prints results, never an address: alone and preloaded it must print the same.
#include "../preload/program.h"

#include <sys/types.h>

#include <exception>

#include "../preload/steer.h"
#include "api/gpumem.h"

extern "C" {
void *torch_alloc(ssize_t size, int device, CUstream stream);
void torch_record_stream(void *block, CUstream stream);
void torch_free(void *block, ssize_t size, int device, CUstream stream);
}

static const ssize_t BIG = 64 * MIB;

static void yes(const char *label, bool is)
{
	printf("%s: %s\n", label, is ? "yes" : "no");
}

static CUstream stream_new()
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void attempt(const char *label, ssize_t size, CUstream stream)
{
	try {
		void *block = torch_alloc(size, 0, stream);
		printf("%s: %s\n", label, block ? "memory" : "NULL");
		torch_free(block, size, 0, stream);
	} catch (const std::exception &why) {
		printf("%s: %s\n", label, why.what());
	}
}

static void errors(CUstream s)
{
	CUgraph graph;
	attempt("1000 bytes", 1000, s);
	attempt("no bytes", 0, s);
	attempt("too much", (ssize_t)1 << 40, s);
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	attempt("in a capture", 1000, s);
	MUST(cuStreamEndCapture(s, &graph));
	MUST(cuGraphDestroy(graph));
	attempt("after it", 1000, s);
}

// A late kernel that overwrites 1 MiB.
static void scribble(void *block)
{
	memset(block, 0xee, MIB);
}

static bool holds(void *block, unsigned char byte)
{
	static unsigned char host[MIB];
	MUST(cuMemcpyDtoH(host, (CUdeviceptr)block, sizeof host));
	for (unsigned char each : host)
		if (each != byte)
			return false;
	return true;
}

// A block of s that t uses, too.
static void record(CUstream s, CUstream t)
{
	void *block = torch_alloc(BIG, 0, s);
	gm_sim_hold(t);
	MUST(gm_sim_launch(t, scribble, block));
	torch_record_stream(block, t);
	torch_record_stream(block, t);
	unsigned before = gm_sim_calls("cuEventSynchronize") + gm_sim_calls("cuCtxSynchronize");
	torch_free(block, BIG, 0, s);
	yes("a free waits",
	    gm_sim_calls("cuEventSynchronize") + gm_sim_calls("cuCtxSynchronize") != before);
	void *again = torch_alloc(BIG, 0, s);
	yes("reused at once", again == block);
	MUST(cuMemsetD8Async((CUdeviceptr)again, 0x11, MIB, s));
	gm_sim_release(t, -1u);
	MUST(cuStreamSynchronize(s));
	MUST(cuStreamSynchronize(t));
	yes("written behind the other stream's work", holds(again, 0x11));
	torch_free(again, BIG, 0, s);
}

int main()
{
	MUST(cuInit(0));
	use_device(0);
	CUstream s = stream_new(), t = stream_new();
	errors(s);
	record(s, t);
	void *legacy = torch_alloc(BIG, 0, nullptr);
	torch_free(legacy, BIG, 0, nullptr);
	yes("NULL is the legacy stream", gpumem_cupy_malloc(CU_STREAM_LEGACY, BIG, 0) == legacy);
	return 0;
}
