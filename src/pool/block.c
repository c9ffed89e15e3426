/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/block.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/debug.h"
#include "base/lock.h"
#include "base/size.h"
#include "pool/extent.h"
#include "pool/slab.h"

#define FAN ((uint64_t)1 << GM_TABLE_FAN)

void *gm_piece_memory(size_t bytes)
{
	bytes = gm_round_up(bytes, _Alignof(struct gm_piece));
	void *memory = aligned_alloc(_Alignof(struct gm_piece), bytes);
	return memory ? memset(memory, 0, bytes) : NULL;
}

static inline unsigned level_shift(unsigned level)
{
	return GM_TABLE_SHIFT + level * GM_TABLE_FAN;
}

bool gm_table_open(struct gm_table *table, CUdeviceptr base, uint64_t size)
{
	uint64_t entries[GM_TABLE_LEVELS], total = 0;
	for (unsigned i = 0; i < GM_TABLE_LEVELS; i++)
		total += entries[i] = (size >> level_shift(i)) + 1;
	*table = (struct gm_table){.base = base, .size = size, .bytes = total * sizeof(void *)};
	table->memory = mmap(NULL, table->bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table->memory == MAP_FAILED) {
		table->memory = NULL;
		return false;
	}
	_Atomic(struct gm_extent *) *at = table->memory;
	for (unsigned i = 0; i < GM_TABLE_LEVELS; at += entries[i++])
		table->level[i] = at;
	return true;
}

void gm_table_close(struct gm_table *table)
{
	if (table->memory)
		munmap(table->memory, table->bytes);
	*table = (struct gm_table){0};
}

static void entry_put(struct gm_table *table, unsigned level, uint64_t index,
		      struct gm_extent *extent)
{
	atomic_store_explicit(&table->level[level][index], extent, memory_order_release);
}

static inline struct gm_extent *entry_get(const struct gm_table *table, unsigned level,
					  uint64_t index)
{
	return atomic_load_explicit(&table->level[level][index], memory_order_acquire);
}

void gm_table_enter_ends(struct gm_table *table, struct gm_extent *extent)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	uint64_t from = GM_GET(extent->piece.base) - table->base;
	uint64_t to = from + GM_GET(extent->piece.held);
	/* An extent that begins and ends in one granule is idle; its successor has the entry. */
	if (from >> GM_TABLE_SHIFT == to >> GM_TABLE_SHIFT)
		return;
	entry_put(table, 0, from >> GM_TABLE_SHIFT, extent);
	entry_put(table, 0, (to >> GM_TABLE_SHIFT) - 1, extent);
}

void gm_table_enter(struct gm_table *table, struct gm_extent *extent)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	uint64_t from = GM_GET(extent->piece.base) - table->base;
	uint64_t to = (from + GM_GET(extent->piece.held)) >> GM_TABLE_SHIFT;
	gm_table_enter_ends(table, extent);
	from = (from + GM_EXTENT_LEAST - 1) >> GM_TABLE_SHIFT;
	unsigned level = 0;
	for (; level + 1 < GM_TABLE_LEVELS && from < to; level++) {
		while (from < to && from % FAN)
			entry_put(table, level, from++, extent);
		while (from < to && to % FAN)
			entry_put(table, level, --to, extent);
		from /= FAN;
		to /= FAN;
	}
	while (from < to)
		entry_put(table, level, from++, extent);
}

/* The hints for an address. Level 0 is first, for it leads to a block that begins there and to most
 * slabs; level 0 of the granule before is last. */
#define HINTS (GM_TABLE_LEVELS + 1)

static inline struct gm_extent *entry_hint(const struct gm_table *table, uint64_t offset,
					   unsigned nth)
{
	if (nth < GM_TABLE_LEVELS)
		return entry_get(table, nth, offset >> level_shift(nth));
	uint64_t index = offset >> GM_TABLE_SHIFT;
	return index ? entry_get(table, 0, index - 1) : NULL;
}

static bool extent_holds(const struct gm_extent *extent, CUdeviceptr address)
{
	return address - GM_GET(extent->piece.base) < GM_GET(extent->piece.held);
}

struct gm_extent *gm_table_find(const struct gm_table *table, CUdeviceptr address)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (address - table->base >= table->size)
		return NULL;
	for (unsigned i = 0; i < HINTS; i++) {
		struct gm_extent *extent = entry_hint(table, address - table->base, i);
		if (extent && GM_GET(extent->piece.state) > GM_IDLE &&
		    extent_holds(extent, address))
			return extent;
	}
	return NULL;
}

struct gm_extent *gm_table_ends_at(const struct gm_table *table, CUdeviceptr border)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (border <= table->base)
		return NULL;
	struct gm_extent *extent =
		entry_get(table, 0, ((border - table->base) >> GM_TABLE_SHIFT) - 1);
	if (!extent || GM_GET(extent->piece.state) == GM_UNUSED ||
	    GM_GET(extent->piece.base) + GM_GET(extent->piece.held) != border)
		return NULL;
	return extent;
}

struct gm_extent *gm_table_begins_at(const struct gm_table *table, CUdeviceptr border)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (border - table->base >= table->size)
		return NULL;
	struct gm_extent *extent = entry_get(table, 0, (border - table->base) >> GM_TABLE_SHIFT);
	/* Short idle and hot extents have no entry: that of their granule names the extent behind
	 * them. */
	while (extent && GM_GET(extent->piece.state) != GM_UNUSED &&
	       GM_GET(extent->piece.base) > border)
		extent = extent->before;
	return extent && GM_GET(extent->piece.state) != GM_UNUSED &&
			       GM_GET(extent->piece.base) == border
		       ? extent
		       : NULL;
}

static inline const struct gm_piece *slab_slot_at(const struct gm_slab *slab, uint64_t offset)
{
	if (!slab)
		return NULL;
	uint64_t index = gm_slab_index(offset, slab->inverse);
	return index < GM_GET(slab->n) ? &slab->slots[index] : NULL;
}

struct gm_piece *gm_table_live(const struct gm_table *table, CUdeviceptr address)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_extent *extent = gm_table_find(table, address);
	if (!extent)
		return NULL;
	const struct gm_piece *piece = &extent->piece;
	if (GM_GET(piece->state) == GM_SLAB)
		piece = slab_slot_at(GM_GET(extent->slab), address - GM_GET(piece->base));
	return piece && gm_piece_is_live(piece) ? (struct gm_piece *)piece : NULL;
}

/* Acquire: the second load of the sequence number stays behind these loads. */
#define ACQUIRE(field) atomic_load_explicit(&(field), memory_order_acquire)

/* Copy a piece; false: it was written meanwhile. */
static inline bool piece_read(const struct gm_piece *piece, struct gm_block *out)
{
	unsigned seq = ACQUIRE(piece->seq);
	uint32_t state = ACQUIRE(piece->state);
	out->base = ACQUIRE(piece->base);
	out->held = ACQUIRE(piece->held);
	out->size = ACQUIRE(piece->size);
	out->id = ACQUIRE(piece->id);
	out->context = ACQUIRE(piece->context);
	out->live = state == GM_LIVE || state == GM_FREEING;
	return seq % 2 == 0 && seq == GM_GET(piece->seq);
}

/* Follow one hint to the piece at the address; NULL: the hint is stale. */
static inline const struct gm_piece *table_read_at(const struct gm_extent *extent,
						   CUdeviceptr address, struct gm_block *out)
{
	for (;;) {
		unsigned seq = ACQUIRE(extent->piece.seq);
		uint32_t state = ACQUIRE(extent->piece.state);
		uint64_t offset = address - ACQUIRE(extent->piece.base);
		const struct gm_piece *piece = NULL;
		if (state > GM_IDLE && offset < ACQUIRE(extent->piece.held))
			piece = state == GM_SLAB ? slab_slot_at(ACQUIRE(extent->slab), offset)
						 : &extent->piece;
		bool read = !piece || piece_read(piece, out);
		if (GM_LIKELY(read && seq % 2 == 0 && seq == GM_GET(extent->piece.seq)))
			return piece;
	}
}

struct gm_piece *gm_table_read(const struct gm_table *table, CUdeviceptr address,
			       struct gm_block *out)
{
	for (unsigned i = 0; i < HINTS; i++) {
		const struct gm_extent *extent = entry_hint(table, address - table->base, i);
		const struct gm_piece *piece = extent ? table_read_at(extent, address, out) : NULL;
		if (piece && out->live)
			return (struct gm_piece *)piece;
	}
	*out = (struct gm_block){0};
	return NULL;
}

bool gm_piece_claim(struct gm_piece *piece, uint64_t id)
{
	unsigned seq = ACQUIRE(piece->seq);
	do {
		while (GM_UNLIKELY(seq % 2))
			seq = ACQUIRE(piece->seq);
		if (ACQUIRE(piece->state) != GM_LIVE || ACQUIRE(piece->id) != id)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&piece->seq, &seq, seq + 1, memory_order_acquire, memory_order_acquire));
	GM_SET(piece->state, GM_FREEING);
	gm_piece_end(piece);
	return true;
}
