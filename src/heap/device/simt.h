/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device allocators know of the machine they run on: lanes, warps, atomics. The allocators
 * are written once, in the language that C11 and CUDA C++ share, on top of these names alone;
 * simt_gpu.h maps them to the GPU, simt_cpu.h to the emulation in which every lane is a thread.
 *
 *   lane      one of the 32 threads of a warp, 0 to 31, whatever the shape of the block
 *   mask      a set of lanes, one bit each; a *_sync call is entered by every lane of its mask
 *   active    the lanes that happen to be at the same line with me: at least I
 *
 * Every call:
 *   gm_lane() gm_sm() gm_warp() gm_active()           who am I; which lanes are here with me
 *   gm_match(mask, u64) gm_shfl(mask, u64, lane) gm_shfl32
 *   gm_union(mask, bits), of lanes that are together; gm_ballot(mask, yes)
 *   gm_syncwarp(mask)                                 the one that orders memory as well
 *   gm_block_warp() gm_block_warps() gm_block_sync()  for whole blocks of whole warps
 *   gm_load32/64 gm_store32/64 gm_add32/64            relaxed: atomic, and orders nothing else
 *   gm_load32/64_acquire gm_store32/64_release
 *   gm_add32/64_sync gm_or32_sync gm_and32_sync gm_or64 gm_and64 gm_exch64 gm_cas32/64
 *                                                     acquire and release; all answer the old value
 *   gm_and32                                          give back what was the caller's: release, or
 *       its late writes would reach the next owner
 *   gm_or32 gm_add64_freed                            take what becomes the caller's; count what
 *       gm_and32 gave back. Relaxed on the GPU: the address that is taken, and the old value that
 *       is counted, come before what follows from them; acquire and release in the emulation
 *   gm_load32_cached                                  of what is constant while a kernel runs
 *   gm_load64_system gm_store64_system                acquire, release; shared with the host
 *   gm_peek64_system gm_post64_system gm_fence_system likewise, but relaxed, so that several are on
 *                                                     their way at once; and a fence behind them
 *   gm_popc gm_ctz gm_log2 gm_pause(ns) gm_nanoseconds()
 * Addresses are of 4- or 8-byte aligned words. No call faults, and none waits but the *_sync ones,
 * i.e. match, shfl, union, ballot and syncwarp.
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

/* The first `count` lanes of `mask`, or all. */
GM_DEVICE uint32_t gm_first(uint32_t mask, uint32_t count)
{
	uint32_t others = mask;
	if (count >= gm_popc(mask))
		return mask;
	for (; count; count--)
		others &= others - 1;
	return mask & ~others;
}

/* The lane of `mask` with that rank. */
GM_DEVICE uint32_t gm_nth(uint32_t mask, uint32_t rank)
{
	for (; rank; rank--)
		mask &= mask - 1;
	return gm_ctz(mask);
}

/* The first lane of `mask`, which acts for all of it. */
GM_DEVICE uint32_t gm_leader(uint32_t mask)
{
	return gm_ctz(mask);
}

#endif
