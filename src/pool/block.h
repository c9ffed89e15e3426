/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From any address to the block that holds it, in O(1), without a lock.
 *
 * Pieces (extents and slots of slabs) are written between gm_piece_begin and gm_piece_end, and read
 * by anyone, who starts again when the sequence number moved. Their memory stays a piece of that
 * kind while the pool lives, so that a stale pointer is harmless. Who may write one:
 *   live     who claims it to free it (gm_piece_claim), under the lock of any shelf; of two that
 *            try, one succeeds
 *   freeing  who claimed it, under the lock of a shelf or the pool
 *   shelved  who holds the lock of its shelf; retired, while that has not handed it over: likewise
 *   else     who holds the pool's lock
 * Whoever holds the pool's lock and those of all shelves may write any.
 *
 * The table maps addresses to extents at four granularities, 64 KiB to 2 GiB. An extent in use is
 * entered once for each largest granule that it covers, so a block of any size costs at most some
 * dozens of entries. Entries are hints and are never cleared: who follows one checks that the
 * extent holds the address. At 64 KiB an entry names the last extent that begins in the granule;
 * extents in use are at least that long, so the granule before leads to the only other one.
 */
#ifndef GM_POOL_BLOCK_H
#define GM_POOL_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

#define GM_TABLE_LEVELS 4
#define GM_TABLE_SHIFT 16 /* of the finest level; each next one is 32 times coarser */
#define GM_TABLE_FAN 5
#define GM_EXTENT_LEAST ((uint64_t)1 << GM_TABLE_SHIFT) /* of an extent in use */

struct gm_extent;
struct gm_slab;

enum gm_state {
	GM_UNUSED, /* describes nothing */
	GM_IDLE,
	GM_LIVE,
	GM_FREEING, /* live, and a free of it is waiting for its fence */
	GM_RETIRED,
	GM_SHELVED, /* idle as it is, ready for the next request of its size; see shelf.h */
	GM_SLAB	    /* extents only: cut into slots */
};

/* One extent, or one slot of a slab: a cache line, for the next one may be another thread's. */
struct gm_piece {
	_Alignas(64) atomic_uint seq; /* odd while being written */
	_Atomic uint16_t state;
	bool pinned; /* while live: there are pins of it in pool->pins */
	_Atomic uint64_t base, held;
	_Atomic uint64_t size, id, context; /* of a block; else 0 */
	/* Only by who may write the piece: */
	struct gm_piece *next; /* in a list of retired or shelved blocks; scratch while idle */
	uint64_t shelved_at;   /* while shelved: since when */
};

struct gm_table {
	_Atomic(struct gm_extent *) *level[GM_TABLE_LEVELS];
	void *memory;
	size_t bytes;
	CUdeviceptr base;
	uint64_t size;
};

_Static_assert(sizeof(struct gm_piece) == 64, "a piece is a cache line");

/* Zeroed memory for pieces and what goes with them, for free(); NULL: there is none. */
void *gm_piece_memory(size_t bytes);

#define GM_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
/* Between gm_piece_begin and gm_piece_end. Release: who sees it also sees the odd number. */
#define GM_SET(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

static inline void gm_piece_begin(struct gm_piece *piece)
{
	atomic_store_explicit(&piece->seq, GM_GET(piece->seq) + 1, memory_order_relaxed);
}

static inline void gm_piece_end(struct gm_piece *piece)
{
	atomic_store_explicit(&piece->seq, GM_GET(piece->seq) + 1, memory_order_release);
}

static inline bool gm_piece_is_live(const struct gm_piece *piece)
{
	uint32_t state = GM_GET(piece->state);
	return state == GM_LIVE || state == GM_FREEING;
}

/* Reserve (not touch) the table of a range; false: no host memory. */
bool gm_table_open(struct gm_table *table, CUdeviceptr base, uint64_t size);
void gm_table_close(struct gm_table *table);

/* Under the pool's lock: enter the ends of an extent, and, when it comes into use, all of it. */
void gm_table_enter_ends(struct gm_table *table, struct gm_extent *extent);
void gm_table_enter(struct gm_table *table, struct gm_extent *extent);

/* Under the pool's lock: the extent in use that holds `address`, or NULL; the extent that ends or
 * begins at `border`, a multiple of 2 MiB, idle or in use, or NULL. */
struct gm_extent *gm_table_find(const struct gm_table *table, CUdeviceptr address);
struct gm_extent *gm_table_ends_at(const struct gm_table *table, CUdeviceptr border);
struct gm_extent *gm_table_begins_at(const struct gm_table *table, CUdeviceptr border);

/* Under the pool's lock: the slot or extent of the live block that holds `address`, or NULL. */
struct gm_piece *gm_table_live(const struct gm_table *table, CUdeviceptr address);

/* What is at `address`, which lies in the range; no lock. All but `ordinal` is filled in. Returns
 * the live piece, or NULL. */
struct gm_piece *gm_table_look(const struct gm_table *table, CUdeviceptr address,
			       struct gm_block *out);

/* If the piece is the live block of that id, and no other thread is freeing it, the caller is from
 * now on. Under the lock of a shelf. */
bool gm_piece_claim(struct gm_piece *piece, uint64_t id);

/* A piece that the caller may write becomes a live block. */
static inline void gm_piece_hand_out(struct gm_piece *piece, uint64_t size, uint64_t id,
				     uint64_t context)
{
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_LIVE);
	GM_SET(piece->size, size);
	GM_SET(piece->id, id);
	GM_SET(piece->context, context);
	gm_piece_end(piece);
}

/* A copy of a live piece, which the caller may write. */
static inline void gm_piece_copy(const struct gm_piece *piece, unsigned ordinal,
				 struct gm_block *out)
{
	*out = (struct gm_block){.base = GM_GET(piece->base),
				 .size = GM_GET(piece->size),
				 .held = GM_GET(piece->held),
				 .id = GM_GET(piece->id),
				 .context = GM_GET(piece->context),
				 .ordinal = ordinal,
				 .live = gm_piece_is_live(piece)};
}

#endif
