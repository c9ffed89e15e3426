/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From any address to the block that holds it, in O(1), without a lock.
 *
 * Pieces (extents and slots of slabs) are written between gm_piece_begin and gm_piece_end. Any
 * thread may read them, and reads again if the sequence number has changed. The memory of a piece
 * stays a piece of that kind while the pool lives, so a stale pointer is harmless. The writer of a
 * piece, by its state:
 *
 *     live       the thread that claims it to free it (gm_piece_claim), under any shelf's lock; of
 *                two threads that try, one succeeds
 *     freeing    the thread that claimed it, under the lock of a shelf or of the pool
 *     shelved    a thread that holds the lock of the piece's shelf
 *     retired    likewise; after limbo, the thread that took it out of limbo
 *     other      a thread that holds the pool's lock
 *     any        a thread that holds the pool's lock and the locks of all shelves
 *
 * The table maps addresses to extents at four levels. An extent in use is entered once for each
 * largest granule that it covers, so a block of any size costs at most some dozens of entries.
 *
 *     level   granule   entries of an extent from 2 MiB to 4 MiB + 128 KiB
 *       3       2 GiB   -
 *       2      64 MiB   -
 *       1       2 MiB   2 MiB
 *       0      64 KiB   2 MiB and 4 MiB + 64 KiB, its ends; 4 MiB
 *
 * Entries are hints and are never cleared: a reader checks that the extent holds the address. At
 * level 0 an entry names the last extent that begins in the granule. Extents in use are at least a
 * granule long, so at most one other extent reaches into it, and the granule before leads to that.
 */
#ifndef GM_POOL_BLOCK_H
#define GM_POOL_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

#define GM_TABLE_LEVELS 4
#define GM_TABLE_SHIFT 16 /* of level 0; each next level is 32 times coarser */
#define GM_TABLE_FAN 5
#define GM_EXTENT_LEAST ((uint64_t)1 << GM_TABLE_SHIFT) /* the length of an extent in use */

struct gm_extent;
struct gm_slab;

enum gm_state {
	GM_UNUSED, /* no memory */
	GM_IDLE,
	GM_LIVE,
	GM_FREEING, /* live, but claimed by a thread that frees it */
	GM_RETIRED,
	GM_SHELVED, /* idle, not joined with its neighbours; see shelf.h */
	GM_SLAB	    /* extents only: cut into slots */
};

/* One extent, or one slot of a slab. A cache line of its own: the next piece may be in use by
 * another thread. */
struct gm_piece {
	_Alignas(64) atomic_uint seq; /* odd while being written */
	_Atomic uint16_t state;
	atomic_bool pinned; /* while live: pool->pins has an entry for it */
	_Atomic uint64_t base, held;
	_Atomic uint64_t size, id, context; /* of a block; else 0, but see gm_piece_shelve */
	/* Only the writer reads and writes the following: */
	struct gm_piece *next; /* in a list of retired or shelved blocks; while idle: scratch */
	uint64_t stamp;	       /* hot.h; while live: it was hot when it was handed out; else 0 */
};

struct gm_table {
	_Atomic(struct gm_extent *) *level[GM_TABLE_LEVELS];
	void *memory;
	size_t bytes;
	CUdeviceptr base;
	uint64_t size;
};

_Static_assert(sizeof(struct gm_piece) == 64, "a piece is a cache line");

/* Zeroed memory, aligned for pieces; the caller frees it with free(). NULL: no host memory. */
void *gm_piece_memory(size_t bytes);

#define GM_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
/* Use between gm_piece_begin and gm_piece_end. Release: a thread that reads the value also reads
 * the odd sequence number. */
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

/* --- the pool's lock is held --- */

/* Enter both ends of an extent; enter all of an extent that is put into use. */
void gm_table_enter_ends(struct gm_table *table, struct gm_extent *extent);
void gm_table_enter(struct gm_table *table, struct gm_extent *extent);

/* The extent in use that holds `address`, or NULL. */
struct gm_extent *gm_table_find(const struct gm_table *table, CUdeviceptr address);

/* The extent, idle or in use, that ends or begins at `border`, a multiple of 2 MiB; or NULL. */
struct gm_extent *gm_table_ends_at(const struct gm_table *table, CUdeviceptr border);
struct gm_extent *gm_table_begins_at(const struct gm_table *table, CUdeviceptr border);

/* The slot or extent of the live block that holds `address`, or NULL. */
struct gm_piece *gm_table_live(const struct gm_table *table, CUdeviceptr address);

/* --- no lock is needed --- */

/* Read the block at `address`, which lies in the range. Fills in all of *out but `ordinal`. Returns
 * the live piece, or NULL. */
struct gm_piece *gm_table_read(const struct gm_table *table, CUdeviceptr address,
			       struct gm_block *out);

/* --- the caller may write the piece (see above) --- */

/* Claim the live block of this id for a free, under the lock of a shelf. False: the piece is no
 * longer this block, or another thread has claimed it. */
bool gm_piece_claim(struct gm_piece *piece, uint64_t id);

/* The piece becomes a live block. */
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

/* The piece becomes shelved, at a time of config.clock. */
static inline void gm_piece_shelve(struct gm_piece *piece, uint64_t now)
{
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_SHELVED);
	GM_SET(piece->size, 0);
	GM_SET(piece->id, now);
	GM_SET(piece->context, 0);
	gm_piece_end(piece);
}

static inline uint64_t gm_piece_shelved_at(const struct gm_piece *piece)
{
	return GM_GET(piece->id);
}

/* A copy of a live piece. */
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
