/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simt.h on the GPU: sm_70 and later. PTX instead of the older atomic functions, because those have
 * no order and no scope. The lane is %laneid, because threadIdx does not give it in a block of two
 * dimensions.
 */
#ifndef GM_HEAP_DEVICE_SIMT_GPU_H
#define GM_HEAP_DEVICE_SIMT_GPU_H

#define GM_DEVICE static __device__ __forceinline__
#define GM_DEVICE_SLOW static __device__ __noinline__
#define GM_DEVICE_HOST static __host__ __device__ inline
#define GM_ROLLED _Pragma("unroll 1")

GM_DEVICE uint32_t gm_lane(void)
{
	uint32_t lane;
	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

/* a == b. The compiler makes no jump table of comparisons in a row: it would lie in a constant
 * bank, and code that a takeover calls from other modules' kernels has none. */
GM_DEVICE bool gm_equal(uint32_t a, uint32_t b)
{
	asm volatile("" : "+r"(a));
	return a == b;
}

GM_DEVICE uint32_t gm_sm(void)
{
	uint32_t sm;
	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	return sm;
}

/* The warp's place on the multiprocessor: a hint, as it may change. */
GM_DEVICE uint32_t gm_warp(void)
{
	uint32_t warp;
	asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
	return warp;
}

/* In blocks of 256 threads in a row, the seats of all warps of the grid differ; in others some may
 * be equal. The sizes of block and grid are in the constant bank, which functions of a takeover
 * lack. */
GM_DEVICE uint32_t gm_seat(void)
{
	uint32_t block = blockIdx.x + blockIdx.y * 7919 + blockIdx.z * 104729;
	return block * 8 + (threadIdx.x >> 5) + threadIdx.y + threadIdx.z * 64;
}

/*
 * `lanes`, the same set in all lanes of `mask`, in a form that ptxas cannot take for uniform: the
 * caller is in `mask`, so that no lane is added.
 *
 * ptxas 13.0 takes the answers of activemask, vote and match (of a uniform value) for uniform. They
 * are equal only in the lanes that were together at that call. Behind a branch these lanes may meet
 * lanes of another group, which has another mask. Before a *_sync call ptxas tests whether all
 * lanes of the mask are here, and waits for them only if not. For a uniform mask the test reads the
 * mask of one lane (R2UR), else of all (REDUX.OR). So a lane that meets a whole other group does
 * not wait for its own:
 *
 *   lanes      0 1 2 3 | 4 5 6 7      groups 0-3 and 4-7, the latter leads at lane 4
 *   shuffle 1  * * * *   *            the test reads the mask of 0-3: all here, no wait
 *   shuffle 2            4            lane 4 waits, with the mask of 4-7
 *   shuffle 1              5 6 7      and is paired with these: the hardware compares masks alone
 */
GM_DEVICE uint32_t gm_mask_hide(uint32_t lanes, uint32_t mask)
{
	return lanes | (1u << gm_lane() & ~mask);
}

GM_DEVICE uint32_t gm_active(void)
{
	uint32_t mask = __activemask();
	return gm_mask_hide(mask, mask);
}

GM_DEVICE uint32_t gm_match(uint32_t mask, uint64_t value)
{
	uint32_t same = __match_any_sync(mask, (unsigned long long)value);
	return gm_mask_hide(same, same);
}

/* Needs one register less. */
GM_DEVICE uint32_t gm_match32(uint32_t mask, uint32_t value)
{
	uint32_t same = __match_any_sync(mask, value);
	return gm_mask_hide(same, same);
}

GM_DEVICE uint64_t gm_shfl(uint32_t mask, uint64_t value, uint32_t lane)
{
	return __shfl_sync(mask, (unsigned long long)value, (int)lane);
}

GM_DEVICE uint32_t gm_shfl32(uint32_t mask, uint32_t value, uint32_t lane)
{
	return __shfl_sync(mask, value, (int)lane);
}

/* The union of the lanes' bits. The lanes are together, as after gm_match. */
GM_DEVICE uint32_t gm_union(uint32_t mask, uint32_t bits)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_or_sync(mask, bits);
#else
	uint32_t all = 0;
	for (uint32_t rest = mask; rest; rest &= rest - 1)
		all |= __shfl_sync(mask, bits, __ffs((int)rest) - 1);
	return all;
#endif
}

/* gm_ballot where the lanes of `mask` may have diverged. */
GM_DEVICE_SLOW uint32_t gm_ballot_diverged(uint32_t mask, uint32_t yes)
{
	uint32_t all = 0;
	for (uint32_t rest = mask; rest; rest &= rest - 1)
		all |= __shfl_sync(mask, yes, __ffs((int)rest) - 1);
	return all;
}

/*
 * The lanes of `mask` whose `yes` is true. The hardware's vote is used only if exactly the lanes of
 * `mask` are active: all of them see that, or none does.
 */
GM_DEVICE uint32_t gm_ballot(uint32_t mask, bool yes)
{
	if (__activemask() == mask)
		return gm_mask_hide(__ballot_sync(mask, yes), mask);
	return gm_ballot_diverged(mask, (uint32_t)yes << gm_lane());
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

/* Cycles of the multiprocessor. */
GM_DEVICE uint32_t gm_clock(void)
{
	uint32_t now;
	asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
	return now;
}

GM_DEVICE uint64_t gm_and64_freed(uint64_t *word, uint64_t value)
{
	uint64_t old;
	asm volatile("atom.global.and.release.gpu.b64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(__cvta_generic_to_global(word)), "l"(value)
		     : "memory");
	return old;
}

GM_DEVICE void gm_fence_system(void)
{
	__threadfence_system();
}

/*
 * Words lie in global memory. The hardware's atomics need to know that: for an address that may be
 * in shared memory they take a test, a loop and a second path. Words of the program, which may be
 * in shared memory, have calls of their own (GM_ANYWHERE).
 */
#define GM_GLOBAL(word) __cvta_generic_to_global(word)
#define GM_ANYWHERE(word) (word)

/* One row a call: name, PTX, where the word is, type, register letter. */
#define GM_GPU_LOAD(name, ptx, where, type, reg)                                               \
	GM_DEVICE type name(const type *word)                                                  \
	{                                                                                      \
		type value;                                                                    \
		asm volatile(ptx " %0, [%1];" : "=" reg(value) : "l"(where(word)) : "memory"); \
		return value;                                                                  \
	}
#define GM_GPU_STORE(name, ptx, where, type, reg)                                         \
	GM_DEVICE void name(type *word, type value)                                       \
	{                                                                                 \
		asm volatile(ptx " [%0], %1;" ::"l"(where(word)), reg(value) : "memory"); \
	}
#define GM_GPU_RMW(name, ptx, where, type, reg)             \
	GM_DEVICE type name(type *word, type value)         \
	{                                                   \
		type old;                                   \
		asm volatile(ptx " %0, [%1], %2;"           \
			     : "=" reg(old)                 \
			     : "l"(where(word)), reg(value) \
			     : "memory");                   \
		return old;                                 \
	}
#define GM_GPU_CAS(name, ptx, where, type, reg)                            \
	GM_DEVICE type name(type *word, type expected, type value)         \
	{                                                                  \
		type old;                                                  \
		asm volatile(ptx " %0, [%1], %2, %3;"                      \
			     : "=" reg(old)                                \
			     : "l"(where(word)), reg(expected), reg(value) \
			     : "memory");                                  \
		return old;                                                \
	}

GM_GPU_LOAD(gm_load32, "ld.relaxed.gpu.global.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_LOAD(gm_load32_cached, "ld.weak.global.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_LOAD(gm_load32_cached_address, "ld.weak.global.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_LOAD(gm_load16, "ld.relaxed.gpu.global.u16", GM_GLOBAL, uint16_t, "h")
GM_GPU_LOAD(gm_load64, "ld.relaxed.gpu.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_LOAD(gm_load64_cached, "ld.weak.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_LOAD(gm_load32_address, "ld.relaxed.gpu.global.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_LOAD(gm_load32_acquire, "ld.acquire.gpu.global.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_LOAD(gm_load64_acquire, "ld.acquire.gpu.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_LOAD(gm_load64_system, "ld.acquire.sys.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_LOAD(gm_peek64_system, "ld.relaxed.sys.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_STORE(gm_post64_system, "st.relaxed.sys.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_STORE(gm_count64, "red.relaxed.gpu.global.add.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_STORE(gm_store16, "st.relaxed.gpu.global.u16", GM_GLOBAL, uint16_t, "h")
GM_GPU_STORE(gm_store32, "st.relaxed.gpu.global.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_STORE(gm_store64, "st.relaxed.gpu.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_STORE(gm_store32_release, "st.release.gpu.global.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_STORE(gm_store64_release, "st.release.gpu.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_STORE(gm_store64_system, "st.release.sys.global.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_RMW(gm_add32, "atom.relaxed.gpu.global.add.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_RMW(gm_add64, "atom.relaxed.gpu.global.add.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_RMW(gm_add32_sync, "atom.acq_rel.gpu.global.add.u32", GM_GLOBAL, uint32_t, "r")
GM_GPU_RMW(gm_add64_sync, "atom.acq_rel.gpu.global.add.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_RMW(gm_or32, "atom.relaxed.gpu.global.or.b32", GM_GLOBAL, uint32_t, "r")
GM_GPU_RMW(gm_add64_freed, "atom.relaxed.gpu.global.add.u64", GM_GLOBAL, uint64_t, "l")
GM_GPU_RMW(gm_and32, "atom.release.gpu.global.and.b32", GM_GLOBAL, uint32_t, "r")
GM_GPU_RMW(gm_or32_sync, "atom.acq_rel.gpu.global.or.b32", GM_GLOBAL, uint32_t, "r")
GM_GPU_RMW(gm_and32_sync, "atom.acq_rel.gpu.global.and.b32", GM_GLOBAL, uint32_t, "r")
GM_GPU_RMW(gm_or64, "atom.release.gpu.global.or.b64", GM_GLOBAL, uint64_t, "l")
GM_GPU_RMW(gm_and64, "atom.acq_rel.gpu.global.and.b64", GM_GLOBAL, uint64_t, "l")
GM_GPU_RMW(gm_exch64, "atom.acq_rel.gpu.global.exch.b64", GM_GLOBAL, uint64_t, "l")
GM_GPU_CAS(gm_cas32, "atom.acq_rel.gpu.global.cas.b32", GM_GLOBAL, uint32_t, "r")
GM_GPU_CAS(gm_cas64, "atom.acq_rel.gpu.global.cas.b64", GM_GLOBAL, uint64_t, "l")
GM_GPU_CAS(gm_cas32_relaxed, "atom.relaxed.gpu.global.cas.b32", GM_GLOBAL, uint32_t, "r")
GM_GPU_CAS(gm_cas64_relaxed, "atom.relaxed.gpu.global.cas.b64", GM_GLOBAL, uint64_t, "l")

GM_GPU_LOAD(gm_any_load64, "ld.relaxed.gpu.u64", GM_ANYWHERE, uint64_t, "l")
GM_GPU_LOAD(gm_any_load64_acquire, "ld.acquire.gpu.u64", GM_ANYWHERE, uint64_t, "l")
GM_GPU_RMW(gm_any_exch64, "atom.acq_rel.gpu.exch.b64", GM_ANYWHERE, uint64_t, "l")
GM_GPU_CAS(gm_any_cas64, "atom.acq_rel.gpu.cas.b64", GM_ANYWHERE, uint64_t, "l")

#endif
