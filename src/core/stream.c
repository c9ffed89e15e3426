/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/stream.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/size.h"
#include "base/tick.h"

#define STEP 512u /* sizes are rounded up to it, so that near ones meet */
#define TRIES 4u  /* marks whose events one allocation queries */

/* An event behind all work that used the blocks of the mark. */
struct mark {
	struct gm_context *context;
	CUevent event;
	unsigned users; /* its blocks, and threads that query it */
	bool recorded, passed;
};

struct kept {
	struct gm_block block;
	struct gm_context *context; /* of the block and of the stream */
	uint64_t number;	    /* of the stream */
	struct mark *mark;
	struct kept *older, *newer;
};

struct gm_streams {
	struct gm_streams_config config;
	struct gm_lock lock; /* of all that follows */
	struct kept *newest, *oldest;
	uint64_t bytes;
	unsigned count;
	uint64_t given;	     /* bytes that ever went to the pool */
	unsigned giving;     /* threads that are giving a block to the pool now */
	pthread_cond_t idle; /* signalled when `giving` becomes 0 */
};

struct gm_streams *gm_streams_create(const struct gm_streams_config *config)
{
	struct gm_streams *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->config = *config;
	gm_lock_init(&s->lock, GM_LOCK_RANK_TABLE);
	pthread_cond_init(&s->idle, NULL);
	return s;
}

uint64_t gm_streams_number(const struct gm_driver *driver, CUstream stream)
{
	unsigned long long number = 0;
	if (!driver->cuStreamGetId || driver->cuStreamGetId(stream, &number) != CUDA_SUCCESS)
		return 0;
	return number ? number : UINT64_MAX;
}

uint64_t gm_streams_kept(struct gm_streams *s)
{
	gm_lock_take(&s->lock);
	uint64_t bytes = s->bytes;
	gm_lock_release(&s->lock);
	return bytes;
}

/* --- the list --- */

static void kept_link(struct gm_streams *s, struct kept *k)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	k->newer = NULL;
	k->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = k;
	s->newest = k;
	s->bytes += k->block.held;
	s->count++;
}

static void kept_unlink(struct gm_streams *s, struct kept *k)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	*(k->newer ? &k->newer->older : &s->newest) = k->older;
	*(k->older ? &k->older->newer : &s->oldest) = k->newer;
	s->bytes -= k->block.held;
	s->count--;
}

/* One user less. Returns the mark if that was the last; the caller then drops it, unlocked. */
static struct mark *mark_leave(struct mark *mark)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	return mark && --mark->users == 0 ? mark : NULL;
}

static bool context_is_gone(const struct gm_context *context)
{
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

/* Call the driver with the event of a mark, which may be of any context. CUDA_ERROR_NOT_READY: the
 * context is ending, or has ended, and the event with it. */
static CUresult mark_call(const struct mark *mark, CUresult (*call)(CUevent event))
{
	if (!gm_context_enter(mark->context))
		return CUDA_ERROR_NOT_READY;
	CUresult result = call(mark->event);
	gm_context_leave(mark->context);
	return result;
}

static void mark_drop(const struct gm_streams *s, struct mark *mark)
{
	if (mark && mark->event)
		mark_call(mark, s->config.driver->cuEventDestroy_v2);
	free(mark);
}

/* --- allocation --- */

struct wish {
	size_t size;
	const struct gm_context *context;
	uint64_t number;
	struct mark *asked[TRIES]; /* had not passed; compared, never followed */
	unsigned n_asked;
};

static bool wish_has_asked(const struct wish *w, const struct mark *mark)
{
	for (unsigned i = 0; i < w->n_asked; i++)
		if (w->asked[i] == mark)
			return true;
	return false;
}

/* A block is reused in its own context only: the pool takes it back when that context ends. */
static bool kept_fits(const struct kept *k, const struct wish *w)
{
	return k->context == w->context && k->block.size >= w->size &&
	       k->block.size - w->size <= w->size / 8;
}

static bool kept_is_free_for(const struct kept *k, const struct wish *w)
{
	return (w->number && k->number == w->number) || (k->mark && k->mark->passed);
}

/* The smallest block that may be reused now, of equal ones the newest; or NULL, and *ask is a mark
 * whose event would free one when it has passed. */
static struct kept *kept_choose(const struct gm_streams *s, const struct wish *w, struct mark **ask)
{
	struct kept *best = NULL;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	*ask = NULL;
	for (struct kept *k = s->newest; k; k = k->older) {
		if (!kept_fits(k, w))
			continue;
		if (kept_is_free_for(k, w)) {
			if (!best || k->block.size < best->block.size)
				best = k;
		} else if (k->mark && k->mark->recorded && !wish_has_asked(w, k->mark)) {
			*ask = k->mark;
		}
	}
	return best;
}

static bool mark_has_passed(const struct gm_streams *s, const struct mark *mark)
{
	return mark_call(mark, s->config.driver->cuEventQuery) == CUDA_SUCCESS;
}

/* Remove a kept block for the wish from the list; or NULL. */
static struct kept *kept_take(struct gm_streams *s, struct wish *w)
{
	struct mark *ask = NULL, *unused = NULL;
	struct kept *k;
	gm_lock_take(&s->lock);
	while (!(k = kept_choose(s, w, &ask)) && ask && w->n_asked < TRIES) {
		ask->users++;
		gm_lock_release(&s->lock);
		bool passed = mark_has_passed(s, ask);
		gm_lock_take(&s->lock);
		ask->passed |= passed;
		w->asked[w->n_asked++] = ask;
		struct mark *last = mark_leave(ask);
		if (last) { /* its blocks left the list meanwhile */
			w->n_asked--;
			gm_lock_release(&s->lock);
			mark_drop(s, last);
			gm_lock_take(&s->lock);
		}
	}
	if (k) {
		kept_unlink(s, k);
		unused = mark_leave(k->mark);
	}
	gm_lock_release(&s->lock);
	mark_drop(s, unused);
	return k;
}

/* False: another call, cudaFree for one, has freed the block meanwhile. */
static bool block_is_live(const struct gm_streams *s, const struct gm_block *b)
{
	struct gm_block now;
	return gm_pool_find(s->config.pool, b->base, &now) && now.live && now.id == b->id;
}

static bool kept_reuse(struct gm_streams *s, struct wish *w, struct gm_block *out)
{
	struct kept *k;
	bool good = false;
	while (!good && (k = kept_take(s, w))) {
		*out = k->block;
		good = block_is_live(s, out);
		free(k);
	}
	return good;
}

CUresult gm_streams_alloc(struct gm_streams *s, size_t size, struct gm_context *context,
			  uint64_t number, struct gm_block *out)
{
	if (size == 0 || size > SIZE_MAX - STEP)
		return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	struct wish w = {
		.size = gm_round_up(size, STEP),
		.context = context,
		.number = number,
	};
	if (kept_reuse(s, &w, out))
		return CUDA_SUCCESS;
	CUresult result = s->config.take(s->config.arg, w.size, context, out);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_streams_drain(s))
		result = s->config.take(s->config.arg, w.size, context, out);
	return result;
}

/* --- free --- */

static CUresult block_free(struct gm_streams *s, const struct gm_block *block, bool done)
{
	struct gm_block b;
	uint64_t start = gm_tick();
	const struct gm_free how = {.after = done ? GM_FREE_AFTER_NOTHING : GM_FREE_AFTER_OWNER,
				    .id = block->id,
				    .call = gm_timing_since(start)};
	CUresult result = gm_pool_free(s->config.pool, block->base, &how, &b);
	if (result == CUDA_SUCCESS && s->config.freed)
		s->config.freed(s->config.arg, &b, start);
	return result;
}

/* In the context of the block; `event` is behind its work, or NULL. */
static CUresult kept_wait_and_free(struct gm_streams *s, const struct kept *k, CUevent event)
{
	CUresult result = CUDA_SUCCESS;
	if (!block_is_live(s, &k->block))
		return CUDA_SUCCESS;
	if (event)
		result = s->config.driver->cuEventSynchronize(event);
	return result == CUDA_SUCCESS ? block_free(s, &k->block, event != NULL) : result;
}

/* Free a block that is in no list to the pool, when its work is over: behind `event`, or without
 * one behind a fence of its context. False: it cannot be freed now. */
static bool kept_free(struct gm_streams *s, const struct kept *k, CUevent event)
{
	if (!gm_context_enter(k->context))
		return context_is_gone(k->context); /* the pool has its blocks already */
	CUresult result = kept_wait_and_free(s, k, event);
	gm_context_leave(k->context);
	/* Invalid: another call freed it during the wait, and the address may be another block's.
	 */
	return result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE;
}

static void kept_end_freeing(struct gm_streams *s, uint64_t bytes)
{
	gm_lock_take(&s->lock);
	s->given += bytes;
	if (--s->giving == 0)
		pthread_cond_broadcast(&s->idle);
	gm_lock_release(&s->lock);
}

/* Free the oldest block to the pool; false: there is none, or it cannot be freed now. */
static bool kept_free_oldest(struct gm_streams *s)
{
	gm_lock_take(&s->lock);
	struct kept *k = s->oldest;
	CUevent event = k && k->mark && k->mark->recorded ? k->mark->event : NULL;
	if (k)
		kept_unlink(s, k);
	s->giving += k != NULL;
	gm_lock_release(&s->lock);
	if (!k)
		return false;
	uint64_t held = k->block.held;
	bool gone = kept_free(s, k, event);
	struct mark *unused = NULL;
	gm_lock_take(&s->lock);
	gone |= context_is_gone(k->context); /* gm_streams_context_gone did not find it */
	if (gone)
		unused = mark_leave(k->mark);
	else
		kept_link(s, k);
	gm_lock_release(&s->lock);
	mark_drop(s, unused);
	kept_end_freeing(s, gone ? held : 0);
	if (gone)
		free(k);
	return gone;
}

uint64_t gm_streams_drain(struct gm_streams *s)
{
	gm_lock_take(&s->lock);
	unsigned n = s->count;
	uint64_t before = s->given;
	gm_lock_release(&s->lock);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(s->config.driver);
	for (; n; n--) /* a block that stays becomes the newest */
		kept_free_oldest(s);
	gm_driver_quiet_end(s->config.driver, mode);
	gm_lock_take(&s->lock);
	while (s->giving)
		gm_lock_wait(&s->lock, &s->idle);
	uint64_t given = s->given - before;
	gm_lock_release(&s->lock);
	return given;
}

static bool streams_are_full(struct gm_streams *s)
{
	gm_lock_take(&s->lock);
	bool beyond = s->count > GM_STREAMS_MOST || s->bytes > s->config.most;
	gm_lock_release(&s->lock);
	return beyond;
}

/* If the stream has many blocks without a mark, give them `mark`, and return true. Blocks kept from
 * now on are not behind its event. */
static bool mark_batch_blocks(struct gm_streams *s, uint64_t number, struct mark *mark)
{
	uint64_t bytes = 0;
	unsigned n = 0;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (struct kept *k = s->newest; k; k = k->older)
		if (k->number == number && !k->mark) {
			bytes += k->block.held;
			n++;
		}
	if (n < GM_STREAMS_BATCH && bytes < GM_STREAMS_BYTES)
		return false;
	for (struct kept *k = s->newest; k; k = k->older)
		if (k->number == number && !k->mark) {
			k->mark = mark;
			mark->users++;
		}
	return true;
}

/* Not in a capture: the event would become part of the graph, and tell nothing about the stream. */
static bool event_record(const struct gm_driver *driver, CUstream stream, CUevent *event)
{
	CUstreamCaptureStatus status;
	if (driver->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_NONE)
		return false;
	if (driver->cuEventCreate(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return false;
	if (driver->cuEventRecord(*event, stream) == CUDA_SUCCESS)
		return true;
	driver->cuEventDestroy_v2(*event);
	*event = NULL;
	return false;
}

/* Its blocks have no mark again. */
static void mark_unset(struct gm_streams *s, struct mark *mark)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (struct kept *k = s->newest; k; k = k->older)
		if (k->mark == mark) {
			k->mark = NULL;
			mark->users--;
		}
}

static void stream_mark(struct gm_streams *s, struct gm_context *context, CUstream stream,
			uint64_t number)
{
	struct mark *mark = calloc(1, sizeof *mark);
	if (!mark)
		return;
	mark->context = context;
	mark->users = 1; /* this thread */
	gm_lock_take(&s->lock);
	bool wanted = mark_batch_blocks(s, number, mark);
	gm_lock_release(&s->lock);
	bool recorded = wanted && event_record(s->config.driver, stream, &mark->event);
	gm_lock_take(&s->lock);
	mark->recorded = recorded;
	if (!recorded)
		mark_unset(s, mark);
	mark = mark_leave(mark);
	gm_lock_release(&s->lock);
	mark_drop(s, mark);
}

static bool block_is_kept(const struct gm_streams *s, const struct gm_block *b)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (const struct kept *k = s->newest; k; k = k->older)
		if (k->block.id == b->id)
			return true;
	return false;
}

/* Add a block to the list. CUDA_ERROR_INVALID_VALUE: it is there already. */
static CUresult block_keep(struct gm_streams *s, const struct gm_block *b,
			   struct gm_context *context, uint64_t number)
{
	struct kept *k = calloc(1, sizeof *k);
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->block = *b;
	k->context = context;
	k->number = number;
	gm_lock_take(&s->lock);
	bool twice = block_is_kept(s, b);
	if (!twice)
		kept_link(s, k);
	gm_lock_release(&s->lock);
	if (twice)
		free(k);
	return twice ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult gm_streams_free(struct gm_streams *s, CUdeviceptr address, struct gm_context *context,
			 CUstream stream, uint64_t number)
{
	struct gm_block b;
	if (!gm_pool_find(s->config.pool, address, &b) || !b.live || b.base != address)
		return CUDA_ERROR_INVALID_VALUE;
	/* A block of another context ends with that context, whatever work is queued here. */
	if (!number || b.context != context->key)
		number = 0;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	if (number)
		result = block_keep(s, &b, context, number);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return block_free(s, &b, false);
	if (result == CUDA_SUCCESS) {
		stream_mark(s, context, stream, number);
		while (streams_are_full(s) && kept_free_oldest(s))
			;
	}
	return result;
}

/* --- ends --- */

static void kept_forget(struct gm_streams *s, bool all, uint64_t key)
{
	struct kept *older;
	gm_lock_take(&s->lock);
	for (struct kept *k = s->newest; k; k = older) {
		older = k->older;
		if (!all && k->context->key != key)
			continue;
		kept_unlink(s, k);
		free(mark_leave(k->mark)); /* the event went with its context */
		free(k);
	}
	gm_lock_release(&s->lock);
}

void gm_streams_context_gone(struct gm_streams *s, uint64_t key)
{
	kept_forget(s, false, key);
}

void gm_streams_destroy(struct gm_streams *s)
{
	if (!s)
		return;
	kept_forget(s, true, 0);
	gm_lock_destroy(&s->lock);
	pthread_cond_destroy(&s->idle);
	free(s);
}
