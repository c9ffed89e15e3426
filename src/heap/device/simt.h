/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine that the device allocators run on: lanes, warps, atomics. The allocators are written
 * once, in the language that C11 and CUDA C++ share, and use these names alone. simt_gpu.h maps
 * them to the GPU, sim/simt_cpu.h to the emulation, in which every lane is a thread.
 *
 *   lane      one of the 32 threads of a warp, 0 to 31, whatever the shape of the block
 *   mask      a set of lanes, one bit each; a *_sync call is entered by every lane of its mask
 *   active    the lanes that are at the same line as the caller, at least the caller itself
 *
 * Every call:
 *   gm_lane() gm_sm() gm_warp() gm_active()           the caller; the active lanes
 *   gm_seat()                                         the place of the caller's warp in its grid:
 *       neighbours differ by one. A hint
 *   gm_match(mask, u64) gm_match32 gm_shfl(mask, u64, lane) gm_shfl32
 *   gm_union(mask, bits), of active lanes; gm_ballot(mask, yes)
 *   gm_syncwarp(mask)                                 the only one that orders memory, too
 *   gm_clock()                                        changes all the time: for random numbers
 *   gm_block_warp() gm_block_warps() gm_block_sync()  for whole blocks of whole warps
 *   gm_load32/64 gm_store32/64 gm_add32/64 gm_cas32/64_relaxed
 *                                                     relaxed: atomic, and orders nothing else
 *   gm_load16 gm_store16 gm_count64                   likewise; gm_count64 adds to a word
 *   gm_load32/64_acquire gm_store32/64_release
 *   gm_add32/64_sync gm_or32_sync gm_and32_sync gm_and64 gm_exch64 gm_cas32/64
 *                                                     acquire and release; all return the old value
 *   gm_or64                                           put into a set: release. The lane that takes
 *       it out acquires
 *   gm_and32 gm_and64_freed                           free memory: release, or the caller's last
 *       writes would reach the next owner's memory
 *   gm_or32 gm_add64_freed                            allocate memory; count memory that gm_and32
 *       freed. Relaxed on the GPU: all that follows depends on the allocated address, and on the
 *       old value that is counted. Acquire and release in the emulation
 *   gm_load32/64_cached                               of words that are constant while a kernel
 *       runs, or whose old value will do: the multiprocessor may have kept it, until its next
 *       acquire
 *   gm_load32_address                                 of a word that names the next place: acquire
 *       in the emulation. Relaxed on the GPU, where an acquire drops all values that
 *       gm_load32_cached keeps
 *   gm_load32_cached_address                          both: a place, and an old value will do
 *   gm_any_load64 gm_any_load64_acquire gm_any_exch64 gm_any_cas64
 *                                                     likewise, of words that may be in shared
 *       memory. All others are in global memory
 *   gm_load64_system gm_store64_system                acquire, release; shared with the host
 *   gm_peek64_system gm_post64_system gm_fence_system likewise, but relaxed, so that several are
 *       in flight at once; and a fence behind them
 *   gm_popc gm_ctz gm_log2 gm_high32 gm_pause(ns) gm_nanoseconds()
 *   GM_ROLLED                                         before a loop that is not worth copies
 *   gm_mask_hide(lanes, mask)                         hide from the compiler that the mask may be
 *       uniform
 *
 * Addresses are of 4- or 8-byte aligned words. No call faults. Only the *_sync ones wait: match,
 * shfl, union, ballot and syncwarp.
 *
 * Rules of *_sync calls:
 *   1. All lanes of a mask make the same calls with it, in the same order. The hardware pairs lanes
 *      by their mask alone, whatever call they are at: a lane that is one call behind gets the
 *      operands of another call, and stays behind. The emulation pairs in the same way, and aborts
 *      when the calls differ.
 *   2. A mask comes from gm_active, gm_match or gm_ballot, is a subset of one, or went through
 *      gm_mask_hide (reasons in simt_gpu.h). tests/unit/heap_masks.py finds code that breaks this.
 */
#ifndef GM_HEAP_DEVICE_SIMT_H
#define GM_HEAP_DEVICE_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#include "heap/device/simt_gpu.h"
#else
#include "sim/simt_cpu.h"
#endif

#define GM_WARP 32

/* The upper half of a product. */
GM_DEVICE uint32_t gm_high32(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b >> 32);
}

/* The caller's rank in `mask`: the number of its lanes below the caller. */
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
	GM_ROLLED
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

/* The first lane of `mask`, which acts for all its lanes. */
GM_DEVICE uint32_t gm_leader(uint32_t mask)
{
	return gm_ctz(mask);
}

#endif
