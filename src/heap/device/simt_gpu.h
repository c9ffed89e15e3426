/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simt.h on the GPU: sm_70 and later. PTX instead of the older atomic functions, because those have
 * no order and no scope; the lane is %laneid, because threadIdx says nothing in a block of two
 * dimensions.
 */
#ifndef GM_HEAP_SIMT_GPU_H
#define GM_HEAP_SIMT_GPU_H

#define GM_DEVICE static __device__ __forceinline__
#define GM_DEVICE_SLOW static __device__ __noinline__
#define GM_DEVICE_HOST static __host__ __device__ inline

GM_DEVICE uint32_t gm_lane(void)
{
	uint32_t lane;
	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

GM_DEVICE uint32_t gm_sm(void)
{
	uint32_t sm;
	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	return sm;
}

/* My warp's place on the multiprocessor: a hint, for it may change. */
GM_DEVICE uint32_t gm_warp(void)
{
	uint32_t warp;
	asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
	return warp;
}

GM_DEVICE uint32_t gm_active(void)
{
	return __activemask();
}

GM_DEVICE uint32_t gm_match(uint32_t mask, uint64_t value)
{
	return __match_any_sync(mask, (unsigned long long)value);
}

GM_DEVICE uint64_t gm_shfl(uint32_t mask, uint64_t value, uint32_t lane)
{
	return __shfl_sync(mask, (unsigned long long)value, (int)lane);
}

GM_DEVICE uint32_t gm_shfl32(uint32_t mask, uint32_t value, uint32_t lane)
{
	return __shfl_sync(mask, value, (int)lane);
}

/* The union of the lanes' bits; they are together, as after gm_match. */
GM_DEVICE uint32_t gm_union(uint32_t mask, uint32_t bits)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_or_sync(mask, bits);
#else
	uint32_t all = 0;
	for (uint32_t left = mask; left; left &= left - 1)
		all |= __shfl_sync(mask, bits, __ffs((int)left) - 1);
	return all;
#endif
}

/* Lanes of one mask that may have come apart. */
GM_DEVICE_SLOW uint32_t gm_ballot_apart(uint32_t mask, uint32_t yes)
{
	uint32_t all = 0;
	for (uint32_t left = mask; left; left &= left - 1)
		all |= __shfl_sync(mask, yes, __ffs((int)left) - 1);
	return all;
}

/*
 * The lanes of `mask` that say yes. A vote is taken only when exactly these lanes are here: in code
 * where several groups of a warp are on their way, each with its mask, ptxas 13.0 votes over those
 * that happen to be together.
 */
GM_DEVICE uint32_t gm_ballot(uint32_t mask, bool yes)
{
	if (__activemask() == mask)
		return __ballot_sync(mask, yes);
	return gm_ballot_apart(mask, (uint32_t)yes << gm_lane());
}

GM_DEVICE void gm_syncwarp(uint32_t mask)
{
	__syncwarp(mask);
}

/* The block: its warps, and a barrier for all of them. */
GM_DEVICE uint32_t gm_block_warp(void)
{
	return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) >> 5;
}

GM_DEVICE uint32_t gm_block_warps(void)
{
	return (blockDim.x * blockDim.y * blockDim.z) >> 5;
}

GM_DEVICE void gm_block_sync(void)
{
	__syncthreads();
}

GM_DEVICE uint32_t gm_popc(uint32_t bits)
{
	return (uint32_t)__popc(bits);
}

/* Trailing zeros; `bits` is not 0. */
GM_DEVICE uint32_t gm_ctz(uint32_t bits)
{
	return (uint32_t)__ffs((int)bits) - 1;
}

/* Floor of the binary logarithm; `value` is not 0. */
GM_DEVICE uint32_t gm_log2(uint64_t value)
{
	return 63u - (uint32_t)__clzll((long long)value);
}

GM_DEVICE void gm_pause(uint32_t nanoseconds)
{
	__nanosleep(nanoseconds);
}

GM_DEVICE uint64_t gm_nanoseconds(void)
{
	uint64_t now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

GM_DEVICE void gm_fence_system(void)
{
	__threadfence_system();
}

/* One row a call: name, PTX, type, register letter. */
#define GM_GPU_LOAD(name, ptx, type, reg)                                               \
	GM_DEVICE type name(const type *word)                                           \
	{                                                                               \
		type value;                                                             \
		asm volatile(ptx " %0, [%1];" : "=" reg(value) : "l"(word) : "memory"); \
		return value;                                                           \
	}
#define GM_GPU_STORE(name, ptx, type, reg)                                         \
	GM_DEVICE void name(type *word, type value)                                \
	{                                                                          \
		asm volatile(ptx " [%0], %1;" ::"l"(word), reg(value) : "memory"); \
	}
#define GM_GPU_RMW(name, ptx, type, reg)             \
	GM_DEVICE type name(type *word, type value)  \
	{                                            \
		type old;                            \
		asm volatile(ptx " %0, [%1], %2;"    \
			     : "=" reg(old)          \
			     : "l"(word), reg(value) \
			     : "memory");            \
		return old;                          \
	}
#define GM_GPU_CAS(name, ptx, type, reg)                            \
	GM_DEVICE type name(type *word, type expected, type value)  \
	{                                                           \
		type old;                                           \
		asm volatile(ptx " %0, [%1], %2, %3;"               \
			     : "=" reg(old)                         \
			     : "l"(word), reg(expected), reg(value) \
			     : "memory");                           \
		return old;                                         \
	}

GM_GPU_LOAD(gm_load32, "ld.relaxed.gpu.u32", uint32_t, "r")
GM_GPU_LOAD(gm_load32_cached, "ld.weak.u32", uint32_t, "r")
GM_GPU_LOAD(gm_load64, "ld.relaxed.gpu.u64", uint64_t, "l")
GM_GPU_LOAD(gm_load32_acquire, "ld.acquire.gpu.u32", uint32_t, "r")
GM_GPU_LOAD(gm_load64_acquire, "ld.acquire.gpu.u64", uint64_t, "l")
GM_GPU_LOAD(gm_load64_system, "ld.acquire.sys.u64", uint64_t, "l")
GM_GPU_LOAD(gm_peek64_system, "ld.relaxed.sys.u64", uint64_t, "l")
GM_GPU_STORE(gm_post64_system, "st.relaxed.sys.u64", uint64_t, "l")
GM_GPU_STORE(gm_store32, "st.relaxed.gpu.u32", uint32_t, "r")
GM_GPU_STORE(gm_store64, "st.relaxed.gpu.u64", uint64_t, "l")
GM_GPU_STORE(gm_store32_release, "st.release.gpu.u32", uint32_t, "r")
GM_GPU_STORE(gm_store64_release, "st.release.gpu.u64", uint64_t, "l")
GM_GPU_STORE(gm_store64_system, "st.release.sys.u64", uint64_t, "l")
GM_GPU_RMW(gm_add32, "atom.add.relaxed.gpu.u32", uint32_t, "r")
GM_GPU_RMW(gm_add64, "atom.add.relaxed.gpu.u64", uint64_t, "l")
GM_GPU_RMW(gm_add32_sync, "atom.add.acq_rel.gpu.u32", uint32_t, "r")
GM_GPU_RMW(gm_add64_sync, "atom.add.acq_rel.gpu.u64", uint64_t, "l")
GM_GPU_RMW(gm_or32, "atom.or.relaxed.gpu.b32", uint32_t, "r")
GM_GPU_RMW(gm_add64_freed, "atom.add.relaxed.gpu.u64", uint64_t, "l")
GM_GPU_RMW(gm_and32, "atom.and.release.gpu.b32", uint32_t, "r")
GM_GPU_RMW(gm_or32_sync, "atom.or.acq_rel.gpu.b32", uint32_t, "r")
GM_GPU_RMW(gm_and32_sync, "atom.and.acq_rel.gpu.b32", uint32_t, "r")
GM_GPU_RMW(gm_or64, "atom.or.acq_rel.gpu.b64", uint64_t, "l")
GM_GPU_RMW(gm_and64, "atom.and.acq_rel.gpu.b64", uint64_t, "l")
GM_GPU_RMW(gm_exch64, "atom.exch.acq_rel.gpu.b64", uint64_t, "l")
GM_GPU_CAS(gm_cas32, "atom.cas.acq_rel.gpu.b32", uint32_t, "r")
GM_GPU_CAS(gm_cas64, "atom.cas.acq_rel.gpu.b64", uint64_t, "l")

#endif
