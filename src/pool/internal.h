/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the pool share: the pool itself and its books. */
#ifndef GM_POOL_INTERNAL_H
#define GM_POOL_INTERNAL_H

#include <stdatomic.h>

#include "base/array.h"
#include "base/debug.h"
#include "base/lock.h"
#include "base/size.h"
#include "base/thread.h"
#include "log/count.h"
#include "log/record.h"
#include "pool/block.h"
#include "pool/chunk.h"
#include "pool/extent.h"
#include "pool/freed.h"
#include "pool/pool.h"
#include "pool/range.h"
#include "pool/retire.h"
#include "pool/shelf.h"
#include "pool/slab.h"

#define GM_POOL_CHUNK (32 * GM_MIB)	/* grown by for blocks of less than a granule */
#define GM_POOL_DEFERRED (128 * GM_MIB) /* likewise at most for others where frees are deferred */
#define GM_POOL_PIECE (512 * GM_MIB)	/* the longest handle, */
#define GM_POOL_WHOLE 32		/* but for this part of the memory, which goes first */
#define GM_POOL_BIG_STEP (64 * GM_KIB)	/* sizes from GM_POOL_BIG are multiples of it */
#define GM_POOL_BIG GM_MIB		/* below: multiples of GM_SLAB_LEAST_SLOT */
#define GM_POOL_ALIGNED_FROM (64 * GM_MIB) /* blocks that are 2 MiB-aligned whatever their size */
#define GM_POOL_ALIGN 512u

struct gm_peer {
	CUdevice device;
	bool granted;
};

/* Chunks under a block that must stay where they are while it lives. */
struct gm_pin {
	uint64_t id; /* of the block */
	CUdeviceptr base;
	uint64_t size;
};

/* Chunks mapped outside the range. */
struct gm_loan {
	CUdeviceptr at;
	uint64_t size;
	struct gm_chunk *chunks; /* through `after` */
	struct gm_loan *next;
};

struct gm_pool {
	struct gm_pool_config config;
	const struct gm_driver *driver;
	uint64_t memory;	      /* of the device */
	atomic_uint extras;	      /* of enum gm_chunk_extra: what new chunks are asked to be */
	struct gm_table table;	      /* written under the lock, looked up without */
	struct gm_shelf *shelves;     /* GM_SHELVES; each has a lock of its own */
	_Atomic uint64_t shelf_bytes; /* the most of larger blocks that one may hold */
	_Atomic uint64_t
		freed_share;	 /* the most bytes of freed blocks that a shelf collects, and */
	atomic_bool may_collect; /* it may do so now; see freed.h */
	atomic_uint n_shelves;	 /* that were ever used; written under the lock */
	char apart[128];	 /* all threads read the above, and few write what follows */
	struct gm_lock lock;	 /* of all that follows */
	struct gm_range range;
	struct gm_extents extents;
	struct gm_slabs slabs;
	struct gm_chunk **chunk_of; /* by 2 MiB granule of the range */
	struct gm_chunk *chunks;
	struct gm_chunk *idle_first, *idle_last; /* wholly idle ones, longest idle first */
	uint64_t n_chunks, chunk_serial;
	struct gm_loan *loans;
	unsigned loans_moving; /* being taken back: in no list, yet counted as lent */
	GM_ARRAY(struct gm_pin) pins;
	struct gm_peer peers[GM_PEERS];
	unsigned n_peers;
	uint64_t access;	     /* generation: grows with each grant and revocation */
	struct gm_retired *retirees; /* by shelf and context */
	_Atomic uint64_t
		retirements;   /* how many there were; numbers them; also read without the lock */
	unsigned n_collecting; /* shelves */
	uint64_t n_allowed;    /* times that a shelf was told to collect, and */
	uint64_t sweep_at;     /* when it is next seen which do so no more; see freed.h */
	uint64_t look_at;      /* when gm_pool_trim polls what is retired; 0: nothing is */
	/* Sums, as in struct gm_pool_stats, but for what the shelves' sums add to them. */
	uint64_t requested, requested_peak, handed_out, mapped, mapped_peak, lent;
	uint64_t live_blocks;
	_Atomic uint64_t idle, retired; /* also read without the lock */
	int64_t granted;		/* allowances of all shelves; see shelf.h */
	uint64_t pending;	   /* bytes being mapped or unmapped just now, beyond `mapped` */
	uint64_t given, exchanged; /* bytes that ever went back; of these, to take their place */
	unsigned giving;	   /* threads that are moving memory, or giving it back, just now */
	pthread_cond_t given_back; /* signalled when there is none any more */
	unsigned check_turn;	   /* debug builds check a large pool in turns */
};

/*
 * Where a block of `held` bytes may begin. Multiples of 2 MiB are aligned to it, as the driver
 * does, which costs nothing: aligned neighbours leave no gaps. With odd sizes of 2 MiB and more the
 * gaps would cost up to half of the memory, as they do natively.
 */
static inline uint64_t gm_pool_align_of(uint64_t held)
{
	return held && (held >= GM_POOL_ALIGNED_FROM || held % GM_POOL_GRANULE == 0)
		       ? GM_POOL_GRANULE
		       : GM_POOL_ALIGN;
}

/* Does what is idle go back at once? */
static inline bool gm_pool_trims_at_once(const struct gm_pool *pool)
{
	return pool->config.idle && pool->config.trim_after == 0;
}

static inline void gm_pool_lock(const struct gm_pool *pool)
{
	gm_lock_take(&((struct gm_pool *)pool)->lock);
}

static inline void gm_pool_unlock(const struct gm_pool *pool)
{
	gm_lock_release(&((struct gm_pool *)pool)->lock);
}

/* The calling thread's shelf. No lock held. */
static inline struct gm_shelf *gm_shelf_mine(struct gm_pool *pool)
{
	unsigned index = gm_thread_index() % GM_SHELVES;
	if (GM_UNLIKELY(index >= GM_GET(pool->n_shelves)))
		gm_shelf_begin(pool, index);
	return &pool->shelves[index];
}

/* Call `each` for every extent that is no slab and every slot, idle ones included, until it returns
 * false. Under the lock; `each` may free pieces. */
bool gm_pool_each_piece(const struct gm_pool *pool, bool (*each)(void *arg, struct gm_piece *piece),
			void *arg);

/* pool.c. Under the lock: a used piece becomes idle; the sums of live or retired blocks were
 * corrected already. It was last used now, or until `since`. */
void gm_pool_put_back(struct gm_pool *pool, struct gm_piece *piece);
void gm_pool_put_back_since(struct gm_pool *pool, struct gm_piece *piece, uint64_t since);

/* What a block takes of the idle extents: itself, or a slab for it. */
struct gm_want {
	uint64_t length, align;
};

/* alloc.c. Under the lock: what a block of `size` bytes wants, and a piece for it out of idle
 * memory; NULL: there is none. gm_pool_take_any is for when no slab can be cut any more: a slot of
 * a larger class, or an extent. */
struct gm_want gm_pool_want(uint64_t size);
struct gm_piece *gm_pool_take(struct gm_pool *pool, uint64_t size);
struct gm_piece *gm_pool_take_any(struct gm_pool *pool, uint64_t size);

/* ladder.c. Under the lock, dropped meanwhile: come by a piece for `size` bytes that idle memory
 * does not hold. *piece is NULL unless the result is SUCCESS. */
CUresult gm_pool_climb(struct gm_pool *pool, uint64_t size, struct gm_piece **piece);
/* Is there room for `length` bytes beside what is in use? */
bool gm_pool_can_hold(struct gm_pool *pool, uint64_t length);

/*
 * grow.c. gm_pool_map and gm_pool_shed are called under the lock, drop it around driver calls, and
 * hold it again when they return. gm_pool_map puts side by side, at `at`, where free addresses
 * begin (0: anywhere): the detached chunks `idle`, moved there, and `bytes` (a multiple of 2 MiB)
 * of new memory, in handles of `piece` bytes at most. On failure no new memory is mapped, and what
 * was idle is idle again, here or there; a chunk that the driver maps in neither place went back to
 * it. gm_pool_piece: how long the handles are to be of a growth by `bytes`. gm_pool_shed gives back
 * wholly idle chunks of `bytes` in all, if there are as many, to make room for others, and returns
 * how much it gave. gm_pool_give, likewise, gives detached chunks back, for nothing.
 */
CUresult gm_pool_map(struct gm_pool *pool, CUdeviceptr at, struct gm_chunk *idle, uint64_t bytes,
		     uint64_t piece);
uint64_t gm_pool_piece(const struct gm_pool *pool, uint64_t bytes);
uint64_t gm_pool_shed(struct gm_pool *pool, uint64_t bytes);
uint64_t gm_pool_give(struct gm_pool *pool, struct gm_chunk *chunks);
/* Under the lock, dropped meanwhile: what other threads are giving back has arrived. */
void gm_pool_await_given(struct gm_pool *pool);
/* The most that may be mapped, and what is left of it under the limit. */
uint64_t gm_pool_most(const struct gm_pool *pool);
uint64_t gm_pool_room(const struct gm_pool *pool);
/* The least that must be mapped, and where (0: anywhere), to have `length` bytes at a multiple of
 * `align`: an idle extent that ends before free addresses need not be mapped again. */
uint64_t gm_pool_shortfall(const struct gm_pool *pool, uint64_t length, uint64_t align,
			   CUdeviceptr *at);

/* remap.c. Under the lock, dropped meanwhile: idle memory for `want`, put together from idle
 * chunks, with new memory for the rest. Unless `shed`, none is given back for it. */
CUresult gm_pool_remap(struct gm_pool *pool, struct gm_want want, bool shed);

/* Count and log a chunk mapped, moved (from `old`) or given back. */
void gm_chunk_note(struct gm_pool *pool, const struct gm_chunk *chunk, enum gm_record_kind kind,
		   uint64_t ns, CUdeviceptr old);

/* retire.c. No lock held: ask for a fence, and count it, from `began` (gm_tick) on. */
CUresult gm_pool_fence(struct gm_pool *pool, uint64_t context, bool native, uint64_t began,
		       enum gm_fenced *fenced, uint64_t *waited);

/* chunk.c. The time by config.clock; in a pool that is never trimmed 0, but for frees that
 * are deferred, where a clock is given. */
uint64_t gm_pool_now(const struct gm_pool *pool);

/* trim.c. A block was freed: whoever trims is told, if there is more than he leaves. */
void gm_pool_tell_idle(struct gm_pool *pool);

/* trim.c. Under the lock: memory was retired, and is to be looked at again. */
void gm_pool_trim_retired(struct gm_pool *pool);

/* pin.c. Under the lock: the block is no more. */
void gm_pool_unpin(struct gm_pool *pool, struct gm_piece *piece);

/* The live counters of blocks change by so much. No lock needed. */
static inline void gm_pool_show_live(const struct gm_pool *pool, uint64_t size, uint64_t held,
				     uint64_t n)
{
	unsigned device = pool->config.ordinal;
	_Atomic uint64_t *parts = gm_count_device(device);
	gm_count_in(parts, device, GM_C_requested, size);
	gm_count_in(parts, device, GM_C_handed_out, held);
	gm_count_in(parts, device, GM_C_idle, -held);
	gm_count_in(parts, device, GM_C_live_blocks, n);
}

/* stats.c. */
/* Idle bytes with those of the shelves, as good as can be known without locks. */
uint64_t gm_pool_idle(const struct gm_pool *pool);
/* Under all locks: add the sums of the shelves to the pool's. */
void gm_pool_sum_up(struct gm_pool *pool);
/* Under the pool's lock alone: count one block more, allocated by a thread of this shelf. */
void gm_pool_count_live(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held);
/* Under the lock: keep the sums and the live counters. */
void gm_pool_count_freed(struct gm_pool *pool, uint64_t size, uint64_t held);
void gm_pool_count_retired(struct gm_pool *pool, uint64_t bytes);
void gm_pool_count_settled(struct gm_pool *pool, uint64_t bytes);
void gm_pool_count_chunk(struct gm_pool *pool, uint64_t size);
void gm_pool_count_chunk_gone(struct gm_pool *pool, uint64_t size);
/* A fence was waited for by `call`, until now, which it returns; 0: that is not timed. No lock. */
uint64_t gm_pool_count_fence(const struct gm_pool *pool, struct gm_timing call);
void gm_pool_count_lent(struct gm_pool *pool, uint64_t lent);

/* valid.c. The unlocked half of gm_pool_is_valid: under all locks. */
bool gm_pool_check(const struct gm_pool *pool, const char **why);

/* At entry and exit of every mutator of a debug build; now and then only once the pool is large.
 * Under the pool's lock alone, or with none held. */
#ifdef GM_DEBUG
void gm_pool_debug_check(struct gm_pool *pool);
void gm_pool_debug_visit(struct gm_pool *pool);
#else
static inline void gm_pool_debug_check(struct gm_pool *pool)
{
	(void)pool;
}
static inline void gm_pool_debug_visit(struct gm_pool *pool)
{
	(void)pool;
}
#endif

#endif
