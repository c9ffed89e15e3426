/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device allocators know of the machine they run on: lanes, warps, atomics. The allocators
 * are written once, in the language that C11 and CUDA C++ share, on top of these names alone;
 * simt_gpu.h maps them to the GPU, simt_cpu.h to the emulation in which every lane is a thread.
 *
 *   lane      one of the 32 threads of a warp, 0 to 31, whatever the shape of the block
 *   mask      a set of lanes, one bit each; a *_sync call is entered by every lane of its mask
 *   relaxed   atomic, orders nothing else; acquire, release: order the accesses after, before it
 *
 * Every call:
 *   gm_lane() gm_sm() gm_active()                    who am I; which lanes are here with me
 *   gm_match(mask, u64) gm_shfl(mask, u64, lane) gm_all(mask, bool) gm_syncwarp(mask)
 *   gm_load32/64 gm_store32/64                       relaxed
 *   gm_load32/64_acquire gm_store32/64_release
 *   gm_add32/64 gm_or32 gm_and32 gm_exch32 gm_cas32/64     relaxed; answer the old value
 *   gm_add32/64_release gm_and32_release ...         what was done before is seen by who acquires
 *   gm_cas32/64_acquire gm_or32_acquire              what was released is seen after it
 *   gm_load32_system ... gm_fence_system()           shared with the host
 *   gm_pause(ns) gm_nanoseconds()
 * Addresses are of 4- or 8-byte aligned words. No call faults or waits, but the *_sync ones.
 */
#ifndef GM_HEAP_SIMT_H
#define GM_HEAP_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#include "heap/device/simt_gpu.h"
#else
#include "heap/device/simt_cpu.h"
#endif

#define GM_WARP 32

/* Lanes of `mask` below mine: my rank in it. */
GM_DEVICE uint32_t gm_rank(uint32_t mask)
{
	return gm_popc(mask & ((1u << gm_lane()) - 1));
}

/* The first lane of `mask`, which acts for all of it. */
GM_DEVICE uint32_t gm_leader(uint32_t mask)
{
	return gm_ctz(mask);
}

#endif
