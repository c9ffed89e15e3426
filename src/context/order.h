/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of streams: may freed memory be used again before its fence has passed?
 *
 * cudaFree names no stream. While one stream alone, in all contexts, has unfinished work, all work
 * that may still use a freed block is in that stream, and so is the next work to use the block. The
 * block may then be used again at once. `word` names that stream:
 *
 *     NONE   no work is unfinished          free: the memory is idle
 *     key    this stream alone has some     free: the memory is *hot*, and stays so until a fence
 *     MANY   several may have some          free: waits, as with GPUMEM_FREE=defer
 *
 *     NONE --- a submission ---> key --- a submission to another stream ---> MANY
 *       ^                         ^                                           |
 *       +-------------------------+---- a window has passed ------------------+
 *
 * A *run* is the time in which one stream alone has work; it has a number. Hot memory is handed out
 * only in the run in which it was freed. The pool keeps the number with the memory (pool/hot.h).
 *
 *     free X, hot       a segment opens
 *     malloc -> X       X is reused: other streams must wait for what was submitted before the free
 *     launch on s       the segment ends: one event E is recorded, before the launch
 *     launch on t       the run ends, after its last E; t waits for that, if hot memory was reused
 *
 * So E covers the work from before the free, for which the native cudaFree waits, and none after
 * it. Events are recorded only if memory became hot since the last one. While a capture is open
 * none is recorded, so a run ends before a capture begins.
 *
 * A window opens when no thread is in a submission: one event is recorded in each context, and the
 * streams of later submissions are noted. Once all the events have passed, `word` is the one stream
 * that was noted, and a new run begins. Handles are reused, so a key names a stream, and the end of
 * a stream or of a context ends a run.
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
	 * once, in the run *run; *run is 0 if no work can use it any more. Else the reason against
	 * that. Takes no lock of the process. */
	enum gm_order_free (*free)(uint64_t context, uint64_t *run);
	/* Memory of this pool is about to become hot; the pool has read its number. */
	void (*heat)(void *pool);
	/* Memory freed in the run is about to be handed out. False: the run has ended. Any lock may
	 * be held. */
	bool (*take)(uint64_t run);
	/* The number of the present run; 0: there is none. */
	const _Atomic uint64_t *run;
	/* End the segment, so that an event covers all memory that is hot now; then poll the last
	 * event, or `wait` until it has passed. Waits for work from before the frees alone. */
	void (*cool)(bool wait);
};

/* The order's view of the memory of a pool. */
struct gm_order_memory {
	/* A number for the memory that is hot now: an event that is recorded afterwards covers
	 * it. */
	uint64_t (*number)(void *pool);
	/* An event of the context that covers this number has passed. */
	void (*passed)(void *pool, uint64_t context, uint64_t number);
};

/* Start the order, with NONE: no work was submitted yet. NULL: the driver cannot record the events
 * that this needs. `may`, called at each free: may memory be used early in this process? */
const struct gm_order_ops *gm_order_start(const struct gm_driver *driver,
					  const struct gm_order_memory *memory, bool (*may)(void));

extern GM_HIDDEN atomic_bool gm_order_on;
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
#define GM_ORDER_MANY 2u /* as the key of a stream: unknown streams; the host waits for E */

/*
 * Around the driver's call by which a thread submits work to a stream: the order notes the stream,
 * and the stream waits for E if it has to. `programmatic`: the work may begin before earlier work
 * of the same stream has ended, so it waits as work of another stream does.
 *
 * gm_order_enter is true if this stream alone has unfinished work, and no segment is open.
 * Otherwise, or if `programmatic`, the caller finds the stream's context and calls gm_order_submit.
 */
bool gm_order_enter(uint64_t key);
void gm_order_submit(const struct gm_order_stream *stream, bool programmatic);
void gm_order_leave(void);

/* From now on the handle may name another stream. */
void gm_order_stream_ends(CUstream handle);

/* Around the driver's begin of a capture. The run ends. Waits for no work of the GPU. */
void gm_order_capture_begin(void);
void gm_order_capture_begun(void);

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
