/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of streams: may freed memory be used again before its fence has passed?
 *
 * cudaFree names no stream. While one stream alone has unfinished work, in all contexts, all that
 * may still use a freed block is in that stream, and so is what will use it next: it may be used
 * again at once. `word` is that stream:
 *
 *     NONE   no work is unfinished          free: used again at once
 *     key    this stream alone has some     free: used again at once; the memory is *hot*
 *     MANY   several may have               free: waits, as with GPUMEM_FREE=defer
 *
 *     NONE --- a submission ---> key --- a submission to another stream ---> MANY
 *       ^                         ^                                           |
 *       +-------------------------+---- a window has passed ------------------+
 *
 * A window opens when no thread is in a submission: one event is recorded in each context, and the
 * streams of submissions from then on are noted. Once all the events have passed, `word` is the
 * one stream that was noted. `run` changes whenever other streams may have come in between.
 *
 * Hot memory is handed out only in the run in which it was freed, after an event E is recorded
 * behind the work that may still use it. A submission to another stream first waits for the last
 * E, in its stream. Memory that is hot when its run ends is usable once an event behind it has
 * passed. A stream is named by a key: handles come back, so the end of a stream or of a context
 * ends a run.
 *
 * One process has one order. Any thread may call, with no lock held unless it is said.
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
	/* A block of the context is about to be freed: may it be used again at once? Then the
	 * caller makes it idle. */
	enum gm_order_free (*free)(uint64_t context);
	/* Idle memory was taken for a block. Not 0: work of this context may still use it, and it
	 * has to wait for a fence. Waits for GM_ORDER_PATIENCE at most. */
	uint64_t (*take)(void);
	/* Is idle memory hot? Any lock may be held. What became idle before the call is counted. */
	bool (*is_hot)(void);
	/* Ask whether hot memory has cooled; `wait` for that. */
	void (*cool)(bool wait);
};

/* Starts the order, which begins with NONE: nothing was submitted yet. NULL: the driver cannot
 * record the events that it needs. `may` is asked at each free and each take: may memory be used
 * early in this process? */
const struct gm_order_ops *gm_order_start(const struct gm_driver *driver, bool (*may)(void));

extern atomic_bool gm_order_on;
static inline bool gm_order_is_on(void)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_order_on, memory_order_relaxed));
}

/* A stream of the program, as the driver is asked for it. */
struct gm_order_stream {
	CUstream handle;
	uint64_t key;	  /* unique among the streams that exist; odd for default streams */
	uint64_t context; /* key of its context; 0: unknown */
};

#define GM_ORDER_NONE 0u
#define GM_ORDER_MANY 2u

/*
 * Around the driver's call by which a thread submits work to a stream: the order notes the stream,
 * and the stream waits for E where it has to. `programmatic`: the work may begin before the work
 * before it in the same stream has ended, so it waits as that of another stream does.
 *
 * `known` is true if the stream is the one that has unfinished work; only else the caller finds the
 * context, and calls gm_order_submit.
 */
bool gm_order_enter(uint64_t key);
void gm_order_submit(const struct gm_order_stream *stream, bool programmatic);
void gm_order_leave(void);

/* A stream handle may come to name another stream. */
void gm_order_stream_ends(CUstream handle);

/* Around the driver's begin of a capture: no event is recorded and no wait inserted while one is
 * open, so the caller waits for E first. */
void gm_order_capture_begin(void);
void gm_order_capture_begun(void);

/* The physical address of memory, or its contents, become known where no stream orders their use:
 * wait until no memory is hot. */
void gm_order_cool(void);

/* From now on nothing is used early; one message says that `name` does what `why` says. Also before
 * gm_order_start. */
void gm_order_forbid(const char *name, const char *why);

/* When a stream will have waited for too long, in ns of the clock, or UINT64_MAX; report it. */
uint64_t gm_order_suspect_next(void);
void gm_order_suspect(uint64_t now);

/* The context has ended, and its work. */
void gm_order_context_gone(uint64_t context);

/* In a forked child: off. */
void gm_order_forget(void);

/* The stream that alone has unfinished work, GM_ORDER_NONE or GM_ORDER_MANY; for tests. */
uint64_t gm_order_sole(void);

#endif
