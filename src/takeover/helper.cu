/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper: malloc and free of one policy of the heap, number GM_HELPER_POLICY of policy.def, and
 * the kernel by which the host reads, writes and tests the code of a context. It is one kernel with
 * orders, so that a launch does several things and the host waits less often. With
 * GM_HELPER_RUNTIME it has no malloc and free of its own, and is an image that calls the device
 * runtime: there the driver's malloc and free are others (takeover.h).
 *
 * gm_helper_malloc, gm_helper_free and gm_helper_aligned are called in place of the driver's, from
 * kernels of any module: they have 24 registers, and no constant bank, for that is the calling
 * kernel's. With GM_HELPER_SITES so are the functions named _sited, which also count each call by
 * its return address (heap/device/sites.h), and those named _second, for the second set, whose
 * return addresses are not known.
 */
#define GM_HUNT_DEVICE GM_DEVICE
#include "heap/device/policies.h"
#include "heap/device/sites.h"
#include "takeover/helper.h"

#ifndef GM_HELPER_RUNTIME
#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define POLICY(call) JOIN(gm_, GM_HELPER_POLICY, _##call)

enum {
#define GM_POLICY(name, n, can) CAN_##n = (can),
#include "heap/device/policy.def"
#undef GM_POLICY
	ALIGNS = GM_POLICY_ALIGNS(JOIN(CAN_, GM_HELPER_POLICY, )),
	ALIGNMENT =
		ALIGNS > 16 ? 256 : 16 /* of the test: others may take a granule for a larger one */
};
#else
enum { ALIGNMENT = 16 }; /* of the test: all policies have it */
#endif

extern "C" {

/* The driver's; nvcc calls it for `new` of a type with an alignment over 16 bytes. */
__device__ void *__cuda_syscall_aligned_malloc(size_t size, size_t alignment);

__device__ struct gm_heap *gm_helper_heap;
__device__ uint64_t gm_helper_saved[GM_HELPER_SAVED];
__device__ struct gm_helper_answer gm_helper_answer;

#ifndef GM_HELPER_RUNTIME
__device__ __noinline__ void *gm_helper_malloc(size_t size)
{
	return POLICY(malloc)(gm_helper_heap, size);
}

__device__ __noinline__ void gm_helper_free(void *address)
{
	POLICY(free)(gm_helper_heap, address);
}

__device__ __noinline__ void *gm_helper_aligned(size_t size, size_t alignment)
{
	size_t least = gm_aligned_size(ALIGNS, alignment, size);
	return least ? gm_helper_malloc(least) : NULL;
}

#ifdef GM_HELPER_SITES
/* The driver's function saved its return address in local memory. */
static __device__ __forceinline__ uint64_t helper_from(unsigned function)
{
	uint64_t from;
	asm volatile("ld.local.u64 %0, [%1];" : "=l"(from) : "l"(gm_helper_saved[function]));
	return from;
}

/* NULL of an alignment that is not possible is not a malloc, and not counted. */
static __device__ __forceinline__ void *helper_aligned(size_t size, size_t alignment, uint64_t from)
{
	size_t least = gm_aligned_size(ALIGNS, alignment, size);
	return least ? gm_sites_malloc(gm_helper_heap, least, from) : NULL;
}

__device__ __noinline__ void *gm_helper_malloc_sited(size_t size)
{
	return gm_sites_malloc(gm_helper_heap, size, helper_from(GM_HELPER_SAVED_MALLOC));
}

__device__ __noinline__ void gm_helper_free_sited(void *address)
{
	uint32_t wrong = gm_sites_free(gm_helper_heap, address);
	if (wrong)
		gm_sites_wrong(gm_helper_heap, address, wrong, helper_from(GM_HELPER_SAVED_FREE));
}

__device__ __noinline__ void *gm_helper_aligned_sited(size_t size, size_t alignment)
{
	return helper_aligned(size, alignment, helper_from(GM_HELPER_SAVED_ALIGNED));
}

__device__ __noinline__ void *gm_helper_malloc_second(size_t size)
{
	return gm_sites_malloc(gm_helper_heap, size, 0);
}

__device__ __noinline__ void gm_helper_free_second(void *address)
{
	uint32_t wrong = gm_sites_free(gm_helper_heap, address);
	if (wrong)
		gm_sites_wrong(gm_helper_heap, address, wrong, 0);
}

__device__ __noinline__ void *gm_helper_aligned_second(size_t size, size_t alignment)
{
	return helper_aligned(size, alignment, 0);
}

static __device__ void helper_write_sited(bool call)
{
	uint64_t *address = gm_helper_answer.address;
	if (call) {
		gm_helper_free_sited(gm_helper_malloc_sited(address[0]));
		gm_helper_free_second(gm_helper_malloc_second(address[0]));
		gm_helper_free(gm_helper_aligned_sited(address[0], address[1]));
		gm_helper_free(gm_helper_aligned_second(address[0], address[1]));
	}
	address[GM_HELPER_MALLOC_SITED] = (uint64_t)gm_helper_malloc_sited;
	address[GM_HELPER_FREE_SITED] = (uint64_t)gm_helper_free_sited;
	address[GM_HELPER_ALIGNED_SITED] = (uint64_t)gm_helper_aligned_sited;
	address[GM_HELPER_MALLOC_SECOND] = (uint64_t)gm_helper_malloc_second;
	address[GM_HELPER_FREE_SECOND] = (uint64_t)gm_helper_free_second;
	address[GM_HELPER_ALIGNED_SECOND] = (uint64_t)gm_helper_aligned_second;
}
#endif

__device__ __noinline__ void *gm_helper_calls_ours(size_t size)
{
	return gm_helper_malloc(size);
}
#else
/* Before CUDA 12.3 no header declares it. */
#if CUDART_VERSION < 12030
typedef unsigned long long cudaGraphConditionalHandle;
__device__ void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value);
#endif

/* Never launched: its call makes this an image that calls the device runtime. */
__global__ void gm_helper_runtime(cudaGraphConditionalHandle handle)
{
	cudaGraphSetConditional(handle, 0);
}
#endif

__device__ __noinline__ void *gm_helper_calls_malloc(size_t size)
{
	return malloc(size);
}

__device__ __noinline__ void gm_helper_calls_free(void *address)
{
	free(address);
}

__device__ __noinline__ void *gm_helper_calls_aligned(size_t size, size_t alignment)
{
	return __cuda_syscall_aligned_malloc(size, alignment);
}

/* `call` is never true: it keeps the linker from dropping functions that the kernel does not call.
 */
static __device__ void helper_write_addresses(bool call)
{
	uint64_t *address = gm_helper_answer.address;
#ifndef GM_HELPER_RUNTIME
	if (call)
		gm_helper_free(gm_helper_aligned(address[0], (size_t)gm_helper_malloc(address[1])));
	address[GM_HELPER_MALLOC] = (uint64_t)gm_helper_malloc;
	address[GM_HELPER_FREE] = (uint64_t)gm_helper_free;
	address[GM_HELPER_ALIGNED] = (uint64_t)gm_helper_aligned;
	address[GM_HELPER_CALLS_OURS] = (uint64_t)gm_helper_calls_ours;
#endif
#ifdef GM_HELPER_SITES
	helper_write_sited(call);
#endif
	address[GM_HELPER_CALLS_MALLOC] = (uint64_t)gm_helper_calls_malloc;
	address[GM_HELPER_CALLS_FREE] = (uint64_t)gm_helper_calls_free;
	address[GM_HELPER_CALLS_ALIGNED] = (uint64_t)gm_helper_calls_aligned;
}

/* Read GM_HELPER_CODE instructions of each function, with one thread for each half. */
static __device__ void helper_read(const uint64_t *at)
{
#pragma unroll
	for (unsigned place = 0; place < GM_HELPER_PLACES; place++) {
		const uint64_t *code = (const uint64_t *)at[place];
		if (code)
			gm_helper_answer.code[place][threadIdx.x] =
				gm_load64_system(code + threadIdx.x);
	}
}

static __device__ void helper_start(struct gm_heap *heap, bool call)
{
	if (threadIdx.x == 0) {
		gm_helper_heap = heap;
		helper_write_addresses(call);
	}
	__syncthreads();
	helper_read(&gm_helper_answer.address[GM_HELPER_CALLS_OURS]);
}

/* Write instructions, each in one access, and read it back before the next. None follows one that
 * does not read back. */
static __device__ void helper_write(const struct gm_helper_order &order)
{
	gm_helper_answer.written = 0;
#pragma unroll
	for (unsigned i = 0; i < GM_HELPER_SAVED; i++)
		gm_helper_saved[i] = order.saved[i];
	__threadfence_system();
#pragma unroll
	for (unsigned i = 0; i < GM_HELPER_PLACES && i < order.n; i++) {
		uint64_t *code = (uint64_t *)order.at[i], low = order.insn[i].low,
			 high = order.insn[i].high;
		asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(code), "l"(low),
			     "l"(high)
			     : "memory");
		__threadfence_system();
		if (gm_load64_system(code) != low || gm_load64_system(code + 1) != high)
			return;
		gm_helper_answer.written = i + 1;
	}
}

static __device__ bool helper_holds(const volatile uint32_t *word, uint32_t value)
{
	for (unsigned i = 0; i < GM_HELPER_BYTES / 4; i++)
		if (word[i] != value + i)
			return false;
	return true;
}

static __device__ bool helper_is_ours(uint64_t address)
{
	uint64_t offset = address - gm_helper_heap->base;
	return offset < (uint64_t)gm_helper_heap->capacity << GM_GRANULE_SHIFT && address % 16 == 0;
}

static __device__ void helper_count(uint64_t address, bool good)
{
	gm_add64(!address		    ? &gm_helper_answer.refused
		 : !helper_is_ours(address) ? &gm_helper_answer.elsewhere
		 : !good		    ? &gm_helper_answer.damaged
					    : &gm_helper_answer.given,
		 1);
}

/* Each thread has an allocation at the same time as other warps. */
static __device__ void helper_use_all(void)
{
	uint32_t value = (blockIdx.x * blockDim.x + threadIdx.x) * 0x9e3779b9u;
	volatile uint32_t *word = (volatile uint32_t *)gm_helper_calls_malloc(GM_HELPER_BYTES);
	bool ours = helper_is_ours((uint64_t)word);
	for (unsigned i = 0; ours && i < GM_HELPER_BYTES / 4; i++)
		word[i] = value + i;
	__syncthreads();
	helper_count((uint64_t)word, ours && helper_holds(word, value));
	if (ours)
		gm_helper_calls_free((void *)word);
}

static __device__ bool helper_went_well(void)
{
	const volatile struct gm_helper_answer *answer = &gm_helper_answer;
	return !answer->refused && !answer->elsewhere && !answer->damaged;
}

/* Call malloc and free as kernels of the program do. */
static __device__ void helper_test(unsigned part)
{
	uint64_t *kept = &gm_helper_answer.kept[blockIdx.x];
	bool first = threadIdx.x == 0;
	if (part == GM_HELPER_MALLOCS && first) {
		*kept = (uint64_t)gm_helper_calls_malloc(GM_HELPER_BYTES);
		helper_count(*kept, true);
	}
	if (part == GM_HELPER_ALIGNEDS && first && helper_went_well()) {
		uint64_t at = (uint64_t)gm_helper_calls_aligned(GM_HELPER_BYTES, ALIGNMENT);
		helper_count(at, at % ALIGNMENT == 0);
		if (helper_is_ours(at))
			gm_helper_calls_free((void *)at);
	}
	if (part == GM_HELPER_STRANGERS && first && helper_went_well())
		gm_helper_calls_free(&gm_helper_answer);
	if (part == GM_HELPER_ALL && gm_helper_answer.passed) {
		helper_use_all();
		if (first)
			gm_helper_calls_free((void *)*kept);
	}
}

/* Read the heap's count of invalid frees, and subtract the test's own, `tests`. */
static __device__ void helper_see(uint64_t tests)
{
	uint64_t seen = gm_load64(&gm_helper_heap->foreign_frees);
	gm_helper_answer.strangers = seen;
	gm_helper_answer.passed = seen >= tests && helper_went_well();
	gm_add64(&gm_helper_heap->foreign_frees, 0 - (seen < tests ? seen : tests));
	/* Those of the second set: gm_heap_sites_begin clears the others. */
	struct gm_sites *sites = gm_helper_heap->sites;
	if (sites)
		gm_add64(&sites->counts[0][0].at[GM_SITE_INVALID], 0 - tests);
}

/* Its loops over the order are unrolled: an index that is no constant would need a copy of it on
 * the stack, which helper.sh measures. */
__global__ void gm_helper_run(struct gm_helper_order order)
{
	switch (order.op) {
	case GM_HELPER_START:
		helper_start((struct gm_heap *)order.heap, order.n);
		break;
	case GM_HELPER_READ:
		helper_read(order.at);
		break;
	case GM_HELPER_WRITE:
		helper_write(order);
		break;
	case GM_HELPER_TEST:
		helper_test(order.n);
		break;
	case GM_HELPER_SEE:
		helper_see(order.n);
		break;
	}
}

} /* extern "C" */
