/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All policies, and a table of them by name for the CPU. The GPU has no such table, because a call
 * through a pointer is too slow there: each policy is compiled on its own, and the heap's creator
 * chooses the code.
 */
#ifndef GM_HEAP_DEVICE_POLICIES_H
#define GM_HEAP_DEVICE_POLICIES_H

#include "heap/device/aligned.h"
#include "heap/device/granule.h"
#include "heap/policies/bump.h"
#include "heap/policies/corw.h"
#include "heap/policies/kma.h"
#include "heap/policies/ouro_s_c.h"
#include "heap/policies/ouro_s_p.h"
#include "heap/policies/ouro_va_c.h"
#include "heap/policies/ouro_va_p.h"
#include "heap/policies/ouro_vl_c.h"
#include "heap/policies/ouro_vl_p.h"
#include "heap/policies/rw.h"
#include "heap/policies/rw_bm.h"

enum {
	GM_POLICY_FREES = 1,
	GM_POLICY_MIXES = 2,
	GM_POLICY_RETURNS = 4,
	GM_POLICY_EXACT = 8,
	GM_POLICY_UNFAIR = 16,
	GM_POLICY_NATURAL = 32,
	GM_POLICY_WIDE = 64,
	GM_POLICY_STEADY = 128,
	GM_POLICY_KEEPS = 256,
};

/* The largest power of two that is aligned to itself, for gm_aligned_size. */
#define GM_POLICY_ALIGNS(can) \
	((can)&GM_POLICY_WIDE ? GM_ALIGNED_WIDE : (can)&GM_POLICY_NATURAL ? GM_ALIGNED_NATURAL : 16)

/* Not for the host's side of a heap: it has no lanes. */
#if !defined __CUDACC__ && !defined GM_HEAP_HOST
struct gm_policy {
	const char *name;
	size_t (*bytes)(uint32_t capacity);
	void (*init)(struct gm_heap *heap, uint32_t thread, uint32_t threads);
	void *(*malloc)(struct gm_heap *heap, size_t size);
	void (*free)(struct gm_heap *heap, void *address);
	size_t (*usable)(struct gm_heap *heap, const void *address);
	void (*trim)(struct gm_heap *heap);
	void (*stats)(struct gm_heap *heap, struct gm_heap_stats *stats);
	unsigned can; /* GM_POLICY_...: policy.def */
};

static const struct gm_policy gm_policies[] = {
#define GM_POLICY(name, n, can) \
	{name,                  \
	 gm_##n##_bytes,        \
	 gm_##n##_init,         \
	 gm_##n##_malloc,       \
	 gm_##n##_free,         \
	 gm_##n##_usable,       \
	 gm_##n##_trim,         \
	 gm_##n##_stats,        \
	 can},
#include "heap/device/policy.def"
#undef GM_POLICY
};

enum { GM_POLICIES = sizeof gm_policies / sizeof gm_policies[0] };
#endif

#endif
