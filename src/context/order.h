/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of streams: may freed memory be used again before its fence has passed?
 *
 * cudaFree names no stream. While one stream alone, in all contexts, has unfinished work, all work
 * that may still use a freed block is in that stream, and so is the next work to use the block. The
 * block may then be used again at once. `word` names that stream:
 *
 *     NONE   no work is unfinished          free: used again at once
 *     key    this stream alone has some     free: used again at once; the memory is *hot*
 *     MANY   several may have some          free: waits, as with GPUMEM_FREE=defer
 *
 *     NONE --- a submission ---> key --- a submission to another stream ---> MANY
 *       ^                         ^                                           |
 *       +-------------------------+---- a window has passed ------------------+
 *
 * A window opens when no thread is in a submission: one event is recorded in each context, and the
 * streams of later submissions are noted. Once all the events have passed, `word` is the one stream
 * that was noted. `run` changes whenever other streams may have had work in between.
 *
 * Hot memory is handed out only in the run in which it was freed, after an event E is recorded
 * behind the work that may still use it. A submission to another stream first waits for the last
 * E, in its stream. Memory that is hot when its run ends is usable once an event behind it has
 * passed. Handles are reused, so a key names a stream, and the end of a stream or of a context ends
 * a run.
 *
 * One process has one order. Any thread may call, with no lock held unless stated.
 */
#ifndef GM_CONTEXT_ORDER_H
#define GM_CONTEXT_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"
#include "driver/driver.h"

#define GM_ORDER_PATIENCE 1000000000u /* ns that an allocation waits for hot memory, at most */
#define GM_ORDER_SUSPECT 10000000000u /* ns after which a stream that still waits is reported */

/* Why a freed block may be used again at once, or not. */
enum gm_order_free {
	GM_ORDER_EARLY,
	GM_ORDER_STREAMS, /* several streams have unfinished work */
	GM_ORDER_CAPTURE, /* a capture is open, or not all are counted */
	GM_ORDER_CONTEXT, /* the block is of another context than the stream */
	GM_ORDER_PINNED,  /* its physical address may be known elsewhere */
	GM_ORDER_OFF,	  /* by gm_order_forbid */
	GM_ORDER_FREES
};

/* The pool's view; see struct gm_pool_config. */
struct gm_order_ops {
	/* A block of the context is about to be freed. GM_ORDER_EARLY: it may be used again at
	 * once, and the caller makes it idle. Else the reason against that. */
	enum gm_order_free (*free)(uint64_t context);
	/* Idle memory was taken for a block. 0: it may be used now. Else work of this context may
	 * still use it, and the caller waits for a fence. Waits for GM_ORDER_PATIENCE at most. */
	uint64_t (*take)(void);
	/* Is idle memory hot? Any lock may be held. Memory that became idle before the call
	 * counts. */
	bool (*is_hot)(void);
	/* Poll whether hot memory has cooled; `wait`: wait until it has. */
	void (*cool)(bool wait);
};

/* Start the order, with NONE: no work was submitted yet. NULL: the driver cannot record the events
 * that this needs. `may`, called at each free and each take: may memory be used early in this
 * process? */
const struct gm_order_ops *gm_order_start(const struct gm_driver *driver, bool (*may)(void));

extern atomic_bool gm_order_on;
static inline bool gm_order_is_on(void)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_order_on, memory_order_relaxed));
}

/* A stream of the program, as described by the driver. */
struct gm_order_stream {
	CUstream handle;
	uint64_t key;	  /* unique among the streams that exist; odd for default streams */
	uint64_t context; /* key of its context; 0: unknown */
};

#define GM_ORDER_NONE 0u
#define GM_ORDER_MANY 2u

/*
 * Around the driver's call by which a thread submits work to a stream: the order notes the stream,
 * and the stream waits for E if it has to. `programmatic`: the work may begin before earlier work
 * of the same stream has ended, so it waits as work of another stream does.
 *
 * gm_order_enter is true if this stream alone has unfinished work. Otherwise, or if `programmatic`,
 * the caller finds the stream's context and calls gm_order_submit.
 */
bool gm_order_enter(uint64_t key);
void gm_order_submit(const struct gm_order_stream *stream, bool programmatic);
void gm_order_leave(void);

/* From now on the handle may name another stream. */
void gm_order_stream_ends(CUstream handle);

/* Around the driver's begin of a capture. While one is open, no event is recorded and no wait
 * inserted, so capture_begin waits until no memory is hot. */
void gm_order_capture_begin(void);
void gm_order_capture_begun(void);

/* Wait until no memory is hot. To be called before the physical address or the contents of memory
 * become known to users that no stream orders. */
void gm_order_cool(void);

/* From now on no memory is used early. The reason, for one message: `name` is its subject, `why`
 * the rest of the sentence. Also before gm_order_start. */
void gm_order_forbid(const char *name, const char *why);

/* The time at which a stream will have waited for too long, in ns of the clock, or UINT64_MAX;
 * gm_order_suspect reports it. */
uint64_t gm_order_suspect_next(void);
void gm_order_suspect(uint64_t now);

/* The context has ended, and with it its work. */
void gm_order_context_gone(uint64_t context);

/* In a forked child: off. */
void gm_order_forget(void);

/* The stream that alone has unfinished work, GM_ORDER_NONE or GM_ORDER_MANY; for tests. */
uint64_t gm_order_sole(void);

#endif
