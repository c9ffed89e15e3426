/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/stream.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/size.h"
#include "base/tick.h"

#define STEP 512u /* sizes are rounded up to it, so that near ones meet */
#define TRIES 4u  /* marks that one allocation asks about */

/* An event behind all work that used its blocks. */
struct mark {
	CUevent event;
	unsigned users; /* blocks, and who is asking about it */
	bool recorded, passed;
};

struct kept {
	struct gm_block block;
	uint64_t number; /* of the stream */
	struct mark *mark;
	struct kept *older, *newer;
};

struct gm_streams {
	struct gm_streams_config config;
	struct gm_lock lock; /* of all that follows */
	struct kept *newest, *oldest;
	uint64_t bytes;
	unsigned count;
};

struct gm_streams *gm_streams_create(const struct gm_streams_config *config)
{
	struct gm_streams *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->config = *config;
	gm_lock_init(&s->lock, GM_RANK_TABLE);
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

/* --- the list; under the lock --- */

static void link_newest(struct gm_streams *s, struct kept *k)
{
	k->newer = NULL;
	k->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = k;
	s->newest = k;
	s->bytes += k->block.held;
	s->count++;
}

static void unlink_it(struct gm_streams *s, struct kept *k)
{
	*(k->newer ? &k->newer->older : &s->newest) = k->older;
	*(k->older ? &k->older->newer : &s->oldest) = k->newer;
	s->bytes -= k->block.held;
	s->count--;
}

/* One user less; the mark is the caller's to drop if it was the last. */
static struct mark *leave(struct mark *mark)
{
	return mark && --mark->users == 0 ? mark : NULL;
}

static void drop(const struct gm_streams *s, struct mark *mark)
{
	if (mark && mark->event)
		s->config.driver->cuEventDestroy_v2(mark->event);
	free(mark);
}

static bool fits(const struct kept *k, size_t size)
{
	return k->block.size >= size && k->block.size - size <= size / 8;
}

/* --- allocation --- */

struct wish {
	size_t size;
	uint64_t context, number;
	struct mark *asked[TRIES]; /* not passed yet; compared, never followed */
	unsigned n_asked;
};

static bool was_asked(const struct wish *w, const struct mark *mark)
{
	for (unsigned i = 0; i < w->n_asked; i++)
		if (w->asked[i] == mark)
			return true;
	return false;
}

static bool is_free_for(const struct kept *k, const struct wish *w)
{
	return (w->number && k->number == w->number && k->block.context == w->context) ||
	       (k->mark && k->mark->passed);
}

/* Under the lock: the best that may be reused now, of equals the newest; else *ask is a mark that
 * would make one so. */
static struct kept *choose(const struct gm_streams *s, const struct wish *w, struct mark **ask)
{
	struct kept *best = NULL;
	*ask = NULL;
	for (struct kept *k = s->newest; k; k = k->older) {
		if (!fits(k, w->size))
			continue;
		if (is_free_for(k, w)) {
			if (!best || k->block.size < best->block.size)
				best = k;
		} else if (k->mark && k->mark->recorded && !was_asked(w, k->mark)) {
			*ask = k->mark;
		}
	}
	return best;
}

static bool is_passed(const struct gm_streams *s, const struct mark *mark)
{
	return s->config.driver->cuEventQuery(mark->event) == CUDA_SUCCESS;
}

/* A kept block out of the list, or NULL. */
static struct kept *take_kept(struct gm_streams *s, struct wish *w)
{
	struct mark *ask = NULL, *unused = NULL;
	struct kept *k;
	gm_lock_take(&s->lock);
	while (!(k = choose(s, w, &ask)) && ask && w->n_asked < TRIES) {
		ask->users++;
		gm_lock_release(&s->lock);
		bool passed = is_passed(s, ask);
		gm_lock_take(&s->lock);
		ask->passed |= passed;
		w->asked[w->n_asked++] = ask;
		struct mark *last = leave(ask);
		if (last) { /* its blocks went meanwhile */
			w->n_asked--;
			gm_lock_release(&s->lock);
			drop(s, last);
			gm_lock_take(&s->lock);
		}
	}
	if (k) {
		unlink_it(s, k);
		unused = leave(k->mark);
	}
	gm_lock_release(&s->lock);
	drop(s, unused);
	return k;
}

/* Somebody may have freed it by another road meanwhile. */
static bool is_still(const struct gm_streams *s, const struct gm_block *b)
{
	struct gm_block now;
	return gm_pool_find(s->config.pool, b->base, &now) && now.live && now.id == b->id;
}

static bool reuse(struct gm_streams *s, struct wish *w, struct gm_block *out)
{
	struct kept *k;
	bool good = false;
	while (!good && (k = take_kept(s, w))) {
		*out = k->block;
		good = is_still(s, out);
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
		.context = context->key,
		.number = number,
	};
	if (reuse(s, &w, out))
		return CUDA_SUCCESS;
	CUresult result = s->config.take(s->config.arg, w.size, context, out);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_streams_settle(s))
		result = s->config.take(s->config.arg, w.size, context, out);
	return result;
}

/* --- free --- */

static CUresult free_now(struct gm_streams *s, CUdeviceptr address, bool done)
{
	struct gm_block b;
	uint64_t start = gm_tick();
	CUresult result = done ? gm_pool_free_done(s->config.pool, address, &b)
			       : gm_pool_free(s->config.pool, address, &b);
	if (result == CUDA_SUCCESS && s->config.freed)
		s->config.freed(s->config.arg, &b, start);
	return result;
}

/* A block that is in no list any more goes to the pool when its work is over: behind `event`, or,
 * where it has none, behind a fence of its context. */
static CUresult give(struct gm_streams *s, const struct kept *k, CUevent event)
{
	CUresult result = CUDA_SUCCESS;
	if (!is_still(s, &k->block))
		return CUDA_SUCCESS;
	if (event)
		result = s->config.driver->cuEventSynchronize(event);
	return result == CUDA_SUCCESS ? free_now(s, k->block.base, event != NULL) : result;
}

/* The oldest one goes; 0: there is none, or it cannot go now, and stays. */
static uint64_t give_oldest(struct gm_streams *s)
{
	gm_lock_take(&s->lock);
	struct kept *k = s->oldest;
	CUevent event = k && k->mark && k->mark->recorded ? k->mark->event : NULL;
	if (k)
		unlink_it(s, k);
	gm_lock_release(&s->lock);
	if (!k)
		return 0;
	uint64_t held = k->block.held;
	bool gone = give(s, k, event) == CUDA_SUCCESS;
	struct mark *unused = NULL;
	gm_lock_take(&s->lock);
	if (gone)
		unused = leave(k->mark);
	else
		link_newest(s, k);
	gm_lock_release(&s->lock);
	if (!gone)
		return 0;
	drop(s, unused);
	free(k);
	return held;
}

uint64_t gm_streams_settle(struct gm_streams *s)
{
	uint64_t sum = 0, held;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(s->config.driver);
	while ((held = give_oldest(s)))
		sum += held;
	gm_driver_quiet_end(s->config.driver, mode);
	return sum;
}

static bool is_beyond(struct gm_streams *s)
{
	gm_lock_take(&s->lock);
	bool beyond = s->count > GM_STREAMS_MOST || s->bytes > s->config.most;
	gm_lock_release(&s->lock);
	return beyond;
}

/* Under the lock: if the stream's blocks without a mark are many, they get `mark`; true then. What
 * is kept from now on is not behind its event. */
static bool batch(struct gm_streams *s, uint64_t number, struct mark *mark)
{
	uint64_t bytes = 0;
	unsigned n = 0;
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

/* An event in a capture would be part of the graph, and say nothing of the stream. */
static bool record(const struct gm_driver *driver, CUstream stream, CUevent *event)
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

/* Under the lock: the blocks wait for another mark. */
static void unmark(struct gm_streams *s, struct mark *mark)
{
	for (struct kept *k = s->newest; k; k = k->older)
		if (k->mark == mark) {
			k->mark = NULL;
			mark->users--;
		}
}

static void mark_batch(struct gm_streams *s, CUstream stream, uint64_t number)
{
	struct mark *mark = calloc(1, sizeof *mark);
	if (!mark)
		return;
	mark->users = 1; /* us */
	gm_lock_take(&s->lock);
	bool wanted = batch(s, number, mark);
	gm_lock_release(&s->lock);
	bool recorded = wanted && record(s->config.driver, stream, &mark->event);
	gm_lock_take(&s->lock);
	mark->recorded = recorded;
	if (!recorded)
		unmark(s, mark);
	mark = leave(mark);
	gm_lock_release(&s->lock);
	drop(s, mark);
}

/* Under the lock. */
static bool is_kept(const struct gm_streams *s, CUdeviceptr address)
{
	for (const struct kept *k = s->newest; k; k = k->older)
		if (k->block.base == address)
			return true;
	return false;
}

/* Into the list, unless it is there already. */
static CUresult keep(struct gm_streams *s, const struct gm_block *b, uint64_t key, uint64_t number)
{
	struct kept *k = calloc(1, sizeof *k);
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->block = *b;
	k->block.context = key;
	k->number = number;
	gm_lock_take(&s->lock);
	bool twice = is_kept(s, b->base);
	if (!twice)
		link_newest(s, k);
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
	/* A block that another context owns goes when that does, whatever was queued here. */
	if (!number || b.context != context->key)
		number = 0;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	if (number)
		result = keep(s, &b, context->key, number);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return free_now(s, address, false);
	if (result == CUDA_SUCCESS) {
		mark_batch(s, stream, number);
		while (is_beyond(s) && give_oldest(s))
			;
	}
	return result;
}

/* --- ends --- */

static void forget(struct gm_streams *s, bool all, uint64_t key)
{
	struct kept *older;
	gm_lock_take(&s->lock);
	for (struct kept *k = s->newest; k; k = older) {
		older = k->older;
		if (!all && k->block.context != key)
			continue;
		unlink_it(s, k);
		free(leave(k->mark)); /* the event went with its context */
		free(k);
	}
	gm_lock_release(&s->lock);
}

void gm_streams_context_gone(struct gm_streams *s, uint64_t key)
{
	forget(s, false, key);
}

void gm_streams_destroy(struct gm_streams *s)
{
	if (!s)
		return;
	forget(s, true, 0);
	gm_lock_destroy(&s->lock);
	free(s);
}
