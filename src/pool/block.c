/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/block.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/debug.h"
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

static inline unsigned shift_of(unsigned level)
{
	return GM_TABLE_SHIFT + level * GM_TABLE_FAN;
}

bool gm_table_open(struct gm_table *table, CUdeviceptr base, uint64_t size)
{
	uint64_t entries[GM_TABLE_LEVELS], all = 0;
	for (unsigned i = 0; i < GM_TABLE_LEVELS; i++)
		all += entries[i] = (size >> shift_of(i)) + 1;
	*table = (struct gm_table){.base = base, .size = size, .bytes = all * sizeof(void *)};
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

static void put(struct gm_table *table, unsigned level, uint64_t index, struct gm_extent *extent)
{
	atomic_store_explicit(&table->level[level][index], extent, memory_order_release);
}

static inline struct gm_extent *get(const struct gm_table *table, unsigned level, uint64_t index)
{
	return atomic_load_explicit(&table->level[level][index], memory_order_acquire);
}

void gm_table_enter_ends(struct gm_table *table, struct gm_extent *extent)
{
	uint64_t from = GM_GET(extent->piece.base) - table->base;
	uint64_t to = from + GM_GET(extent->piece.held);
	/* One that begins and ends in a granule is idle; what follows it owns the entry. */
	if (from >> GM_TABLE_SHIFT == to >> GM_TABLE_SHIFT)
		return;
	put(table, 0, from >> GM_TABLE_SHIFT, extent);
	put(table, 0, (to >> GM_TABLE_SHIFT) - 1, extent);
}

void gm_table_enter(struct gm_table *table, struct gm_extent *extent)
{
	uint64_t from = GM_GET(extent->piece.base) - table->base;
	uint64_t to = (from + GM_GET(extent->piece.held)) >> GM_TABLE_SHIFT;
	gm_table_enter_ends(table, extent);
	from = (from + GM_EXTENT_LEAST - 1) >> GM_TABLE_SHIFT;
	unsigned level = 0;
	for (; level + 1 < GM_TABLE_LEVELS && from < to; level++) {
		while (from < to && from % FAN)
			put(table, level, from++, extent);
		while (from < to && to % FAN)
			put(table, level, --to, extent);
		from /= FAN;
		to /= FAN;
	}
	while (from < to)
		put(table, level, from++, extent);
}

/* The hints for an address, finest first, for that leads to whatever begins there and to most
 * slabs; the last is that of the granule before its own. */
#define HINTS (GM_TABLE_LEVELS + 1)

static inline struct gm_extent *hint(const struct gm_table *table, uint64_t offset, unsigned nth)
{
	if (nth < GM_TABLE_LEVELS)
		return get(table, nth, offset >> shift_of(nth));
	uint64_t index = offset >> GM_TABLE_SHIFT;
	return index ? get(table, 0, index - 1) : NULL;
}

static bool holds(const struct gm_extent *extent, CUdeviceptr address)
{
	return address - GM_GET(extent->piece.base) < GM_GET(extent->piece.held);
}

struct gm_extent *gm_table_find(const struct gm_table *table, CUdeviceptr address)
{
	if (address - table->base >= table->size)
		return NULL;
	for (unsigned i = 0; i < HINTS; i++) {
		struct gm_extent *extent = hint(table, address - table->base, i);
		if (extent && GM_GET(extent->piece.state) > GM_IDLE && holds(extent, address))
			return extent;
	}
	return NULL;
}

struct gm_extent *gm_table_ends_at(const struct gm_table *table, CUdeviceptr border)
{
	if (border <= table->base)
		return NULL;
	struct gm_extent *extent = get(table, 0, ((border - table->base) >> GM_TABLE_SHIFT) - 1);
	if (!extent || GM_GET(extent->piece.state) == GM_UNUSED ||
	    GM_GET(extent->piece.base) + GM_GET(extent->piece.held) != border)
		return NULL;
	return extent;
}

struct gm_extent *gm_table_begins_at(const struct gm_table *table, CUdeviceptr border)
{
	if (border - table->base >= table->size)
		return NULL;
	struct gm_extent *extent = get(table, 0, (border - table->base) >> GM_TABLE_SHIFT);
	/* A short idle extent leaves the entry of its granule to the one after it. */
	for (int i = 0; i < 2 && extent && GM_GET(extent->piece.state) != GM_UNUSED; i++) {
		if (GM_GET(extent->piece.base) == border)
			return extent;
		extent = extent->before;
	}
	return NULL;
}

static inline const struct gm_piece *slot_at(const struct gm_slab *slab, uint64_t offset)
{
	if (!slab)
		return NULL;
	uint64_t index = gm_slab_index(offset, slab->inverse);
	return index < slab->n ? &slab->slots[index] : NULL;
}

struct gm_piece *gm_table_live(const struct gm_table *table, CUdeviceptr address)
{
	struct gm_extent *extent = gm_table_find(table, address);
	if (!extent)
		return NULL;
	const struct gm_piece *piece = &extent->piece;
	if (GM_GET(piece->state) == GM_SLAB)
		piece = slot_at(GM_GET(extent->slab), address - GM_GET(piece->base));
	return piece && gm_piece_is_live(piece) ? (struct gm_piece *)piece : NULL;
}

/* Acquire loads, so that the second look at the number cannot come before them. */
#define LOOK(field) atomic_load_explicit(&(field), memory_order_acquire)

/* A consistent copy of a piece. */
static inline void look(const struct gm_piece *piece, struct gm_block *out)
{
	unsigned seq;
	uint32_t state;
	do {
		seq = LOOK(piece->seq);
		state = LOOK(piece->state);
		out->base = LOOK(piece->base);
		out->held = LOOK(piece->held);
		out->size = LOOK(piece->size);
		out->id = LOOK(piece->id);
		out->context = LOOK(piece->context);
	} while (seq % 2 || seq != GM_GET(piece->seq));
	out->live = state == GM_LIVE || state == GM_FREEING;
}

/* Follow one hint to the piece at the address; NULL: it does not lead there. */
static inline const struct gm_piece *look_at(const struct gm_extent *extent, CUdeviceptr address,
					     struct gm_block *out)
{
	const struct gm_piece *piece;
	unsigned seq;
	do {
		seq = LOOK(extent->piece.seq);
		uint32_t state = LOOK(extent->piece.state);
		uint64_t offset = address - LOOK(extent->piece.base);
		piece = NULL;
		if (state > GM_IDLE && offset < LOOK(extent->piece.held))
			piece = state == GM_SLAB ? slot_at(LOOK(extent->slab), offset)
						 : &extent->piece;
		if (piece)
			look(piece, out);
	} while (GM_UNLIKELY(seq % 2 || seq != GM_GET(extent->piece.seq)));
	return piece;
}

struct gm_piece *gm_table_look(const struct gm_table *table, CUdeviceptr address,
			       struct gm_block *out)
{
	for (unsigned i = 0; i < HINTS; i++) {
		const struct gm_extent *extent = hint(table, address - table->base, i);
		const struct gm_piece *piece = extent ? look_at(extent, address, out) : NULL;
		if (piece && out->live)
			return (struct gm_piece *)piece;
	}
	*out = (struct gm_block){0};
	return NULL;
}

bool gm_piece_claim(struct gm_piece *piece, uint64_t id)
{
	unsigned seq = LOOK(piece->seq);
	do {
		while (GM_UNLIKELY(seq % 2))
			seq = LOOK(piece->seq);
		if (LOOK(piece->state) != GM_LIVE || LOOK(piece->id) != id)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&piece->seq, &seq, seq + 1, memory_order_acquire, memory_order_acquire));
	GM_SET(piece->state, GM_FREEING);
	gm_piece_end(piece);
	return true;
}
