/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of functions behind gpumem.h: the preload's, exported under a name of its own, or the
 * library's (alone.c). Threading and errors are those of gpumem.h.
 */
#ifndef GM_CORE_CORE_H
#define GM_CORE_CORE_H

#include <stdbool.h>

#include "gpumem.h"
#include "heap/heap.h"
#include "library/buffer.h"
#include "pool/pool.h"

/* Grows with every change of the table: a preload of another version is not used. */
#define GM_CORE_VERSION 6

struct gm_core {
	/* `known`: the block is for `stream`, else for any stream. */
	CUresult (*alloc)(size_t size, int device, CUstream stream, bool known, CUdeviceptr *out);
	CUresult (*free)(CUdeviceptr block, int device, CUstream stream, bool known);
	uint64_t (*trim)(void);
	CUresult (*stats)(int device, struct gpumem_stats *out); /* all members; `size` is unused */
	bool (*mark)(const char *text);
	CUresult (*sleep)(void);
	CUresult (*wake)(void);
	struct {
		CUresult (*create)(int device, size_t limit, struct gm_heap_host **out);
		void (*destroy)(struct gm_heap_host *heap);
		void (*begin)(struct gm_heap_host *heap, CUstream stream);
		void (*end)(struct gm_heap_host *heap, CUstream stream);
		uint64_t (*trim)(struct gm_heap_host *heap);
		CUresult (*figures)(struct gm_heap_host *heap, struct gm_heap_figures *out);
		CUdeviceptr (*device)(const struct gm_heap_host *heap);
	} heap;
	struct {
		/* `most`: 0 for all memory of the device, or of the host. */
		CUresult (*create)(int device, bool host, size_t most, struct gm_buffer **out);
		CUresult (*destroy)(struct gm_buffer *buffer);
		CUresult (*reserve)(struct gm_buffer *buffer, uint64_t bytes);
		CUresult (*resize)(struct gm_buffer *buffer, uint64_t size);
		CUresult (*insert)(struct gm_buffer *buffer, uint64_t at, CUdeviceptr source,
				   uint64_t bytes, CUstream stream);
		CUresult (*erase)(struct gm_buffer *buffer, uint64_t at, uint64_t bytes,
				  CUstream stream);
		CUresult (*shrink)(struct gm_buffer *buffer);
		void (*figures)(const struct gm_buffer *buffer, struct gm_buffer_figures *out);
	} buffer;
};

/* The preload's table; NULL: no pools (GPUMEM_MODE=trace, GPUMEM_ENABLE=0, no cuInit yet), or
 * another version. */
#define GM_CORE_ENTRY "gm_preload_core"
const struct gm_core *gm_preload_core(unsigned version);

/* The figures of a pool, for both tables. */
static inline void gm_core_stats(const struct gm_pool_stats *pool, uint64_t kept,
				 struct gpumem_stats *out)
{
	*out = (struct gpumem_stats){
		.requested = pool->requested,
		.handed_out = pool->handed_out,
		.mapped = pool->mapped,
		.idle = pool->idle,
		.retired = pool->retired,
		.kept = kept,
		.largest_idle = pool->largest_idle,
		.unreclaimable = pool->unreclaimable,
		.live_blocks = pool->live_blocks,
		.requested_peak = pool->requested_peak,
		.mapped_peak = pool->mapped_peak,
	};
}

/* The library's own table, on the driver that `lookup` finds (gm_driver_load), after its cuInit
 * succeeded; NULL: the driver lacks a call. Call it once. */
const struct gm_core *gm_core_alone(void *(*lookup)(void *arg, const char *symbol), void *arg);

#endif
