/* SPDX-License-Identifier: BSD-3-Clause */
/* struct gm_pool, and functions of pool.c for the other files of the pool. */
#ifndef GM_POOL_INTERNAL_H
#define GM_POOL_INTERNAL_H

#include <stdatomic.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/lock.h"
#include "base/size.h"
#include "base/thread.h"
#include "pool/alias.h"
#include "pool/block.h"
#include "pool/chunk.h"
#include "pool/extent.h"
#include "pool/headroom.h"
#include "pool/hot.h"
#include "pool/limbo.h"
#include "pool/peer.h"
#include "pool/pool.h"
#include "pool/range.h"
#include "pool/shelf.h"
#include "pool/slab.h"

struct gm_peer {
	CUdevice device;
	bool granted;
};

/* Chunks under a block that keep their addresses while it lives. */
struct gm_pin {
	uint64_t id; /* of the block */
	CUdeviceptr base;
	uint64_t size;
	bool shared; /* by gm_pool_share: only the block's contents must not move to other chunks */
	bool counted; /* in chunk->pins; a shared one only while another process has it open */
};

/* Chunks mapped outside the range. */
struct gm_loan {
	CUdeviceptr at;
	uint64_t size;
	struct gm_chunk *chunks; /* through `after` */
	_Atomic uint64_t *spare; /* the borrower's variable for its bytes; NULL: not spare */
	bool stuck;		 /* the driver did not unmap it when it was taken back */
	struct gm_loan *next;
};

struct gm_pool {
	struct gm_pool_config config;
	const struct gm_driver *driver;
	uint64_t memory;	     /* of the device */
	_Atomic uint64_t trim_after; /* config.trim_after, or less; written under the lock */
	uint64_t small;		     /* blocks of up to so many bytes are never gm_limbo_is_large */
	atomic_uint extras;	     /* enum gm_chunk_extra: properties requested for new chunks */
	struct gm_table table;	     /* written under the lock, read without it */
	struct gm_shelf *shelves;    /* GM_SHELVES of them; each has its own lock */
	_Atomic uint64_t shelf_bytes; /* most bytes of a shelf's row */
	_Atomic uint64_t managed;     /* bytes that need room: gm_pool_make_room; 0: none */
	_Atomic uint64_t vacant;      /* bytes of vacant places (vacant.h), part of `mapped` */
	_Atomic uint64_t hosted;      /* bytes of those that have host memory, part of `vacant` */
	_Atomic uint64_t crowded_at;  /* time of the next call of config.crowded */
	atomic_uint n_collecting;     /* shelves whose open bags fill */
	atomic_bool full;	      /* these shelves have no share left; see limbo.h */
	atomic_uint n_shelves;	      /* shelves ever used; written under the lock */
	char pad[128];		      /* all threads read the above; few write the following */
	_Atomic uint64_t seals;	      /* total of sealed bags: the number of the last one */
	_Atomic uint64_t sealed;      /* bytes of sealed bags */
	_Atomic uint64_t stranded;    /* bytes of memory that was hot; see hot.h */
	_Atomic uint64_t sweep_at;    /* number of the seal that next checks the shelves */
	_Atomic(struct gm_epoch *) epochs;
	struct {
		_Atomic CUdeviceptr base; /* 0: none */
		CUmemGenericAllocationHandle handle;
	} stand_in;
	_Atomic uint64_t poll_at; /* time at which gm_pool_trim polls limbo; 0: unset, see trim.h */
	struct gm_lock lock;	  /* guards all that follows */
	struct gm_range range;
	struct gm_extents extents;
	struct gm_slabs slabs;
	struct gm_chunk **chunk_of; /* by 2 MiB granule of the range */
	struct gm_chunk *chunks;
	struct gm_chunk *idle_first, *idle_last; /* wholly idle chunks, longest idle first */
	uint64_t n_chunks, chunk_serial;
	struct gm_run *aliases; /* of chunks that moved while they were hot */
	unsigned n_aliases;
	struct gm_loan *loans;
	unsigned loans_moving; /* loans being taken back: in no list, yet counted as lent */
	uint64_t short_at;     /* time of the last shortage, for spare loans; 0: never */
	GM_ARRAY(struct gm_pin) pins;
	struct gm_peer peers[GM_PEERS];
	unsigned n_peers;
	uint64_t access; /* generation: grows with each grant and revocation */
	/* Sums, as in struct gm_pool_stats, without the sums of the shelves. */
	uint64_t requested, requested_peak, mapped_peak, lent, spare, live_blocks;
	_Atomic uint64_t handed_out, mapped; /* also read without the lock */
	int64_t granted;		     /* allowances of all shelves; see shelf.h */
	uint64_t pending;	   /* bytes being mapped or unmapped now, not part of `mapped` */
	uint64_t made;		   /* bytes of the handles that exist */
	uint64_t stand_ins;	   /* part of `made`: bytes of stand-ins (stand_in.c) */
	uint64_t away;		   /* bytes of chunks whose contents are away */
	uint64_t moving;	   /* bytes of chunks that are leaving or returning now */
	uint64_t changes;	   /* total of driver calls begun that change `made` */
	unsigned changing;	   /* calls of `changes` in progress */
	uint64_t given;		   /* total bytes returned to the driver */
	uint64_t given_early;	   /* part of it, by gm_pool_trim_sooner, since the last growth */
	unsigned regrets;	   /* growths after such returns; see trim.h */
	uint64_t exchanged;	   /* part of `given`: to make room for other chunks */
	unsigned giving;	   /* threads that are moving or returning chunks now */
	pthread_cond_t given_back; /* signalled when `giving` becomes 0 */
	unsigned check_turn;	   /* calls of gm_pool_debug_check */
	struct gm_headroom headroom;
	/* ns for which allocations may wait, as of the time patience_at (patience.h) */
	uint64_t patience, patience_at;
};

static inline void gm_pool_lock(const struct gm_pool *pool)
{
	gm_lock_take(&((struct gm_pool *)pool)->lock);
}

static inline void gm_pool_unlock(const struct gm_pool *pool)
{
	gm_lock_release(&((struct gm_pool *)pool)->lock);
}

/* Handles of a few MiB: they are moved or vacated one by one. */
static inline bool gm_pool_handles_are_short(const struct gm_pool *pool)
{
	return pool->config.order || pool->config.short_handles;
}

/* Does the address lie in the pool's range? gm_pool_reserves, inlined. */
static inline bool gm_pool_has(const struct gm_pool *pool, CUdeviceptr address)
{
	return address - pool->table.base < pool->table.size;
}

/* Abort a debug build unless the caller holds the pool's lock and those of all shelves in use. */
static inline void gm_pool_assert_all_held(const struct gm_pool *pool)
{
#ifdef GM_DEBUG
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_lock_assert_all_held(GM_LOCK_RANK_SHELF, pool->n_shelves);
#else
	(void)pool;
#endif
}

/* The shelves ever used; they come first. */
static inline unsigned gm_shelves_in_use(const struct gm_pool *pool)
{
	return GM_GET(pool->n_shelves);
}

/* The calling thread's shelf. No lock is held. */
static inline struct gm_shelf *gm_shelf_mine(struct gm_pool *pool)
{
	unsigned index = gm_thread_index() % GM_SHELVES;
	if (GM_UNLIKELY(index >= GM_GET(pool->n_shelves)))
		gm_shelf_begin(pool, index);
	return &pool->shelves[index];
}

/* The time by config.clock; 0 in a pool that is never trimmed, unless frees are deferred and a
 * clock is set. No lock is needed. */
uint64_t gm_pool_now(const struct gm_pool *pool);

/* --- the pool's lock is held --- */

/* Call `each` for every extent that is no slab and for every slot, idle or not, until it returns
 * false. `each` may free pieces. */
bool gm_pool_each_piece(const struct gm_pool *pool, bool (*each)(void *arg, struct gm_piece *piece),
			void *arg);

/* Make a piece in use idle; the sums no longer count it as live or retired. Its last use was now,
 * or at `since`. */
void gm_pool_put_back(struct gm_pool *pool, struct gm_piece *piece);
void gm_pool_put_back_since(struct gm_pool *pool, struct gm_piece *piece, uint64_t since);

/* Make a live block idle, or (`heat` is not NULL) hot, and correct the sums. */
void gm_pool_release(struct gm_pool *pool, struct gm_piece *piece, const struct gm_heat *heat);

#endif
