/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUMEM_LEND=1: parts of PyTorch's cached segments that no tensor uses serve other allocations.
 *
 *     cudaMalloc lacks memory -> gm_lend_reclaim: unused chunks become idle memory of the pool
 *     the cache hands out a tensor over them -> gm_lend_report: they get memory again, before the
 *                                               tensor is the program's
 *
 * The border is c10::reportMemoryUsageToProfiler (tensors.h), which the cache calls under its mutex
 * for each tensor. Rules:
 *
 *     whose      blocks of cudaMalloc, called by libc10_cuda itself, in which a tensor was placed
 *     when       an allocation lacks memory; the longest unused chunks first
 *     after      a fence of all streams of all contexts, from after the last free in the chunk
 *     captures   what is handed out while one is open stays, for a graph uses it without a hook
 *     pinned     blocks whose physical address is known elsewhere stay (gm_pool_pin)
 *     trust      the cache tells its sum of tensors in each call. If ours differs, all chunks get
 *                memory and nothing is lent again
 *
 * Memory for a tensor: idle memory of the pool; other unused chunks; once a call, after a wait of
 * GM_LEND_WAIT; memory of the host, up to 1/32 of the device's; else PyTorch's own OutOfMemoryError
 * (gm_lend_refuse). What the program does after its free of a tensor, or of a graph's input, faults
 * where natively it had luck; so lending is off by default.
 *
 * Any thread; no lock is held. The lock here is taken under PyTorch's mutex, and nothing of PyTorch
 * is called under it.
 */
#ifndef GM_SHIM_TORCH_LEND_H
#define GM_SHIM_TORCH_LEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "context/context.h"
#include "pool/pool.h"

#define GM_LEND_WAIT 50000000u			 /* ns, for a tensor */
#define GM_LEND_WAIT_BLOCK UINT64_C(10000000000) /* ns, for an allocation call */
#define GM_LEND_REST 1000000000u /* ns without a further wait of the thread, after one in vain */
#define GM_LEND_HOST_PART 32

extern GM_HIDDEN atomic_bool gm_lend_on;
static inline bool gm_lend_is_on(void)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_lend_on, memory_order_relaxed));
}

/* modules.h: obeys GPUMEM_LEND; pools make handles that can be taken apart. */
void gm_lend_start(void);
void gm_lend_pool_config(unsigned ordinal, struct gm_pool_config *config);

/* The program got a block. In its allocation call, of which the frames are unwound. */
void gm_lend_made(const struct gm_block *block);

/* Around a free of the block at `address`: begin waits for chunks on their way, and returns what
 * `end` needs. */
struct gm_lent {
	struct gm_segment *segment; /* NULL: nothing is lent there */
	unsigned ordinal;
};
struct gm_lent gm_lend_free_begin(const struct gm_pool *pool, CUdeviceptr address);
void gm_lend_free_end(struct gm_lent lent, bool freed);

/* The cache handed out (`bytes` > 0) or took back a tensor; `sum`: of all its tensors. False: there
 * is no memory for it, and the caller calls gm_lend_refuse. */
bool gm_lend_report(unsigned ordinal, CUdeviceptr address, int64_t bytes, uint64_t sum);

/* Make PyTorch throw its OutOfMemoryError through the caller, which has taken the guard down. */
void gm_lend_refuse(unsigned ordinal);

/* modules.h. `bytes`: of the allocation that lacks memory; UINT64_MAX: all that is unused. */
uint64_t gm_lend_reclaim(unsigned ordinal, uint64_t bytes);
void gm_lend_context_gone(struct gm_context *context);
void gm_lend_forget(void);

#endif
