/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GM_OURO_POLICY defines the seven functions of a policy (heap.h); `flavour` is page or chunk.
 */
#ifndef GM_HEAP_POLICIES_OURO_POLICY_H
#define GM_HEAP_POLICIES_OURO_POLICY_H

#include "heap/policies/ouro_chunk.h"
#include "heap/policies/ouro_page.h"

#define GM_OURO_POLICY(name, flavour, kind)                                                      \
	GM_DEVICE_HOST size_t gm_##name##_bytes(uint32_t capacity)                               \
	{                                                                                        \
		return gm_ouro_bytes(kind, capacity);                                            \
	}                                                                                        \
	GM_DEVICE void gm_##name##_init(struct gm_heap *heap, uint32_t thread, uint32_t threads) \
	{                                                                                        \
		(void)threads;                                                                   \
		gm_ouro_init(heap, kind, thread);                                                \
	}                                                                                        \
	GM_DEVICE void *gm_##name##_malloc(struct gm_heap *heap, size_t size)                    \
	{                                                                                        \
		return gm_ouro_##flavour##_malloc(heap, kind, size);                             \
	}                                                                                        \
	GM_DEVICE void gm_##name##_free(struct gm_heap *heap, void *address)                     \
	{                                                                                        \
		gm_ouro_##flavour##_free(heap, kind, address);                                   \
	}                                                                                        \
	GM_DEVICE size_t gm_##name##_usable(struct gm_heap *heap, const void *address)           \
	{                                                                                        \
		return gm_ouro_##flavour##_usable(heap, address);                                \
	}                                                                                        \
	GM_DEVICE void gm_##name##_trim(struct gm_heap *heap)                                    \
	{                                                                                        \
		(void)heap;                                                                      \
	}                                                                                        \
	GM_DEVICE void gm_##name##_stats(struct gm_heap *heap, struct gm_heap_stats *stats)      \
	{                                                                                        \
		gm_ouro_##flavour##_stats(heap, stats);                                          \
	}

#endif
