/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by order.c and order_window.c. */
#ifndef GM_CONTEXT_ORDER_STATE_H
#define GM_CONTEXT_ORDER_STATE_H

#include "base/debug.h"
#include "base/futex_lock.h"
#include "context/everywhere.h"
#include "context/fence.h"
#include "context/order.h"
#include "context/poll.h"

#define GM_ORDER_LANES 64  /* of threads in submissions; further threads share them */
#define GM_ORDER_FENCES 64 /* that exist at once */
#define GM_ORDER_WAITED 8  /* streams known to wait for a fence */

/* E: an event behind the work from before the frees of a segment, and what it covers. */
struct gm_order_fence {
	unsigned refs; /* under the lock; 0: the slot is free */
	CUevent event;
	atomic_bool passed;
	void *pool;
	uint64_t context, number; /* covers memory of the pool up to this number */
	uint64_t key;		  /* of the stream that had that work */
	uint64_t waited[GM_ORDER_WAITED], since;
	unsigned n_waited;
	uint64_t named;	 /* the first `key`, for messages */
	uint64_t waiter; /* key of the first stream that waits, since `since` */
	bool reported;
};

struct gm_order_window {
	bool open;
	uint64_t key, context;
	struct gm_everywhere all; /* of the thread that has `busy` */
	unsigned pause, tries;
};

struct gm_order_lane {
	_Alignas(128) atomic_uint inside;
};

extern GM_HIDDEN struct gm_order_lane gm_order_lanes[GM_ORDER_LANES];
struct gm_order_state {
	const struct gm_driver *driver;
	const struct gm_fence_ops *fences;
	bool (*may)(void);
	atomic_bool off;
	const char *why;	    /* of gm_order_forbid; written before `name` */
	_Atomic(const char *) name; /* NULL: no reason yet */
	const struct gm_order_memory *memory;
	/* Read without the lock; written under it, but for pool, hot and reused. */
	_Atomic uint64_t word, run, context; /* the latter two are of `word` */
	_Atomic(void *) pool;		     /* with the hot memory of the run */
	atomic_bool hot;		     /* a segment is open */
	atomic_bool reused;		     /* hot memory was handed out in the last run */
	atomic_uint closing;		     /* threads that begin a capture */
	struct gm_futex_lock lock;	     /* guards the members below */
	uint64_t runs;			     /* total */
	uint64_t key;			     /* of the stream of the last run */
	bool recording;			     /* a thread ends a segment */
	struct gm_order_fence fence[GM_ORDER_FENCES];
	struct gm_order_fence *newest; /* E; if `reused`, other streams wait for it */
	struct gm_order_window window;
};

extern GM_HIDDEN struct gm_order_state gm_order;

static inline void gm_order_take_lock(void)
{
	gm_futex_lock_take(&gm_order.lock);
}

static inline void gm_order_release_lock(void)
{
	gm_futex_lock_release(&gm_order.lock);
}

/* No event may be recorded now. With or without the lock. */
static inline bool gm_order_captures_forbid(void)
{
	return atomic_load(&gm_order.closing) || gm_poll_captures_are_open() ||
	       !gm_poll_captures_are_counted();
}

/* --- under the lock --- */

/* A run begins, of the stream `key` alone; or GM_ORDER_NONE: no work is unfinished. */
static inline void gm_order_run_begin(uint64_t key, uint64_t context)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	atomic_store(&gm_order.reused, false);
	atomic_store(&gm_order.context, context);
	gm_order.key = key;
	atomic_store(&gm_order.word, key);
	atomic_store(&gm_order.run, key == GM_ORDER_NONE ? 0 : ++gm_order.runs);
}

/* A stream gets a submission while a window is open. */
void gm_window_submit(const struct gm_order_stream *stream);

/* The window closes without a result. */
void gm_window_close(void);

/* --- no lock is held --- */

/* Several streams may have unfinished work: find out whether they still do. True: a run has begun,
 * or no work is unfinished. */
bool gm_window_try(void);

/* In a forked child. */
void gm_window_forget(void);

#endif
