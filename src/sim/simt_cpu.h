/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap/device/simt.h on the CPU: every lane is a fiber, a *_sync call waits for exactly the lanes
 * in its mask, atomics are C11's, and after each of them another lane may run. A wrong mask
 * (without the lane itself, different masks of waiting lanes, or with an ended lane) aborts with a
 * line of explanation: that is the emulation's purpose. gm_cpu_* are in sim/simt.c; only tests link
 * it. Outside a launch the caller is a lane of its own, so that a test can call the functions of a
 * lane.
 */
#ifndef GM_SIM_SIMT_CPU_H
#define GM_SIM_SIMT_CPU_H

#include "sim/simt.h"

#define GM_DEVICE static inline __attribute__((unused))
#define GM_DEVICE_SLOW GM_DEVICE /* -O0 would keep unused functions */
#define GM_DEVICE_HOST static inline __attribute__((unused))
#define GM_ROLLED

/* Lanes that reach the same line while the first lane waits there are active together. */
#define gm_active() gm_cpu_active(__FILE__, __LINE__)

GM_DEVICE uint32_t gm_mask_hide(uint32_t lanes, uint32_t mask)
{
	(void)mask;
	return lanes;
}

GM_DEVICE uint32_t gm_lane(void)
{
	return gm_cpu_lane();
}

GM_DEVICE bool gm_equal(uint32_t a, uint32_t b)
{
	return a == b;
}

GM_DEVICE uint32_t gm_sm(void)
{
	return gm_cpu_sm();
}

GM_DEVICE uint32_t gm_seat(void)
{
	return gm_cpu_seat();
}

GM_DEVICE uint32_t gm_warp(void)
{
	return gm_cpu_warp();
}

/* Macros, so that a *_sync call is identified by its place in the device code. */
#define gm_match(mask, value) \
	((uint32_t)gm_cpu_meet(GM_SIMT_MATCH, mask, value, 0, __FILE__, __LINE__))
#define gm_shfl(mask, value, lane) gm_cpu_meet(GM_SIMT_SHFL, mask, value, lane, __FILE__, __LINE__)
#define gm_match32(mask, value) gm_match(mask, (uint32_t)(value))
#define gm_shfl32(mask, value, lane) ((uint32_t)gm_shfl(mask, value, lane))
#define gm_union(mask, bits) \
	((uint32_t)gm_cpu_meet(GM_SIMT_UNION, mask, bits, 0, __FILE__, __LINE__))
#define gm_ballot(mask, yes) gm_union(mask, (uint64_t)((yes) != 0) << gm_lane())
#define gm_syncwarp(mask) ((void)gm_cpu_meet(GM_SIMT_SYNC, mask, 0, 0, __FILE__, __LINE__))

/* A block is one warp here. */
GM_DEVICE uint32_t gm_block_warp(void)
{
	return 0;
}

GM_DEVICE uint32_t gm_block_warps(void)
{
	return 1;
}

GM_DEVICE void gm_block_sync(void)
{
	gm_syncwarp(~0u);
}

GM_DEVICE uint32_t gm_popc(uint32_t bits)
{
	return (uint32_t)__builtin_popcount(bits);
}

GM_DEVICE uint32_t gm_ctz(uint32_t bits)
{
	return (uint32_t)__builtin_ctz(bits);
}

GM_DEVICE uint32_t gm_log2(uint64_t value)
{
	return 63u - (uint32_t)__builtin_clzll(value);
}

GM_DEVICE void gm_pause(uint32_t nanoseconds)
{
	gm_cpu_pause(nanoseconds);
}

GM_DEVICE uint64_t gm_nanoseconds(void)
{
	return gm_cpu_nanoseconds();
}

GM_DEVICE uint32_t gm_clock(void)
{
	return (uint32_t)gm_cpu_nanoseconds();
}

GM_DEVICE void gm_fence_system(void)
{
}

/* One row per function: name, order, type. The scheduler may switch lanes before each. */
#define GM_CPU_LOAD(name, order, type)               \
	GM_DEVICE type name(const type *word)        \
	{                                            \
		gm_cpu_step();                       \
		return __atomic_load_n(word, order); \
	}
#define GM_CPU_STORE(name, order, type)               \
	GM_DEVICE void name(type *word, type value)   \
	{                                             \
		gm_cpu_step();                        \
		__atomic_store_n(word, value, order); \
	}
#define GM_CPU_RMW(name, call, order, type)         \
	GM_DEVICE type name(type *word, type value) \
	{                                           \
		gm_cpu_step();                      \
		return call(word, value, order);    \
	}
#define GM_CPU_CAS(name, order, order_if_not, type)                                              \
	GM_DEVICE type name(type *word, type expected, type value)                               \
	{                                                                                        \
		gm_cpu_step();                                                                   \
		__atomic_compare_exchange_n(word, &expected, value, false, order, order_if_not); \
		return expected;                                                                 \
	}

/* The old value is not needed. */
#define gm_count64(word, value) ((void)gm_add64(word, value))

GM_CPU_LOAD(gm_load16, __ATOMIC_RELAXED, uint16_t)
GM_CPU_LOAD(gm_load32, __ATOMIC_RELAXED, uint32_t)
GM_CPU_LOAD(gm_load32_cached, __ATOMIC_RELAXED, uint32_t)
GM_CPU_LOAD(gm_load32_cached_address, __ATOMIC_ACQUIRE, uint32_t)
GM_CPU_LOAD(gm_load64, __ATOMIC_RELAXED, uint64_t)
GM_CPU_LOAD(gm_load64_cached, __ATOMIC_RELAXED, uint64_t)
GM_CPU_LOAD(gm_load32_address, __ATOMIC_ACQUIRE, uint32_t)
GM_CPU_LOAD(gm_load32_acquire, __ATOMIC_ACQUIRE, uint32_t)
GM_CPU_LOAD(gm_load64_acquire, __ATOMIC_ACQUIRE, uint64_t)
GM_CPU_LOAD(gm_load64_system, __ATOMIC_ACQUIRE, uint64_t)
/* Ordered here, for ThreadSanitizer does not know fences. */
GM_CPU_LOAD(gm_peek64_system, __ATOMIC_ACQUIRE, uint64_t)
GM_CPU_STORE(gm_post64_system, __ATOMIC_RELEASE, uint64_t)
GM_CPU_STORE(gm_store16, __ATOMIC_RELAXED, uint16_t)
GM_CPU_STORE(gm_store32, __ATOMIC_RELAXED, uint32_t)
GM_CPU_STORE(gm_store64, __ATOMIC_RELAXED, uint64_t)
GM_CPU_STORE(gm_store32_release, __ATOMIC_RELEASE, uint32_t)
GM_CPU_STORE(gm_store64_release, __ATOMIC_RELEASE, uint64_t)
GM_CPU_STORE(gm_store64_system, __ATOMIC_RELEASE, uint64_t)
GM_CPU_RMW(gm_add32, __atomic_fetch_add, __ATOMIC_RELAXED, uint32_t)
GM_CPU_RMW(gm_add64, __atomic_fetch_add, __ATOMIC_RELAXED, uint64_t)
GM_CPU_RMW(gm_add32_sync, __atomic_fetch_add, __ATOMIC_ACQ_REL, uint32_t)
GM_CPU_RMW(gm_add64_sync, __atomic_fetch_add, __ATOMIC_ACQ_REL, uint64_t)
GM_CPU_RMW(gm_or32_sync, __atomic_fetch_or, __ATOMIC_ACQ_REL, uint32_t)
GM_CPU_RMW(gm_and32_sync, __atomic_fetch_and, __ATOMIC_ACQ_REL, uint32_t)
GM_CPU_RMW(gm_and64_freed, __atomic_fetch_and, __ATOMIC_ACQ_REL, uint64_t)
GM_CPU_RMW(gm_or64, __atomic_fetch_or, __ATOMIC_RELEASE, uint64_t)
GM_CPU_RMW(gm_and64, __atomic_fetch_and, __ATOMIC_ACQ_REL, uint64_t)
GM_CPU_RMW(gm_exch64, __atomic_exchange_n, __ATOMIC_ACQ_REL, uint64_t)
GM_CPU_CAS(gm_cas32, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE, uint32_t)
GM_CPU_CAS(gm_cas64, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE, uint64_t)
GM_CPU_CAS(gm_cas32_relaxed, __ATOMIC_RELAXED, __ATOMIC_RELAXED, uint32_t)
GM_CPU_CAS(gm_cas64_relaxed, __ATOMIC_RELAXED, __ATOMIC_RELAXED, uint64_t)
/* Host memory is of one kind. */
#define gm_any_load64 gm_load64
#define gm_any_load64_acquire gm_load64_acquire
#define gm_any_exch64 gm_exch64
#define gm_any_cas64 gm_cas64
/* Stricter than on the GPU; heap/device/simt.h has the reason. */
GM_CPU_RMW(gm_or32, __atomic_fetch_or, __ATOMIC_ACQ_REL, uint32_t)
GM_CPU_RMW(gm_and32, __atomic_fetch_and, __ATOMIC_ACQ_REL, uint32_t)
GM_CPU_RMW(gm_add64_freed, __atomic_fetch_add, __ATOMIC_ACQ_REL, uint64_t)

#endif
