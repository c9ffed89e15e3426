/* SPDX-License-Identifier: BSD-3-Clause */
#include "library/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/size.h"
#include "base/sys.h"
#include "base/tick.h"
#include "library/cut.h"

#define CUT ((uint64_t)1 << 20)	       /* requests of this size or more cut a part, */
#define REST ((uint64_t)256 << 10)     /* if at least this much remains, */
#define WIDEST 8u		       /* and its block is at most this many times larger */
#define OLDEST 64u		       /* parts that one search for a block to give examines */
#define NAP 20000u		       /* ns between two queries of an allocation that waits */
#define PATIENCE ((uint64_t)10000000u) /* ns that it waits at most */

struct gm_streams {
	struct gm_streams_config config;
	struct gm_lock lock; /* guards all members below */
	struct gm_cuts parts;
	uint64_t used;	     /* bytes in use, about: frees by others are not noticed */
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
	uint64_t bytes = s->parts.bytes;
	gm_lock_release(&s->lock);
	return bytes;
}

/* --- marks --- */

static bool context_is_gone(const struct gm_context *context)
{
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

/* Release the lock, and drop the marks that have no users any more. */
static void streams_release(struct gm_streams *s)
{
	struct gm_mark *dead = s->parts.dead;
	s->parts.dead = NULL;
	gm_lock_release(&s->lock);
	gm_marks_drop(dead, s->config.driver);
}

/* Query the event of a mark. The lock is released meanwhile: the caller searches anew. */
static void mark_ask(struct gm_streams *s, struct gm_mark *mark, struct gm_asked *asked)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	mark->users++;
	gm_lock_release(&s->lock);
	bool passed = gm_mark_call(mark, s->config.driver->cuEventQuery) == CUDA_SUCCESS;
	gm_lock_take(&s->lock);
	mark->passed |= passed;
	if (!passed && mark->users > 1) /* else its address may be reused */
		asked->mark[asked->n++] = mark;
	gm_cuts_leave(&s->parts, mark);
}

/* --- giving blocks to the pool --- */

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

/* False: another call, such as cudaFree, has freed the block meanwhile. */
static bool block_is_live(const struct gm_streams *s, const struct gm_block *b)
{
	struct gm_block now;
	return gm_pool_find(s->config.pool, b->base, &now) && now.live && now.id == b->id;
}

/* pre: the context of the block is current. */
static CUresult block_wait_and_free(struct gm_streams *s, const struct gm_block *block,
				    const struct gm_mark *mark, bool passed)
{
	CUresult result = CUDA_SUCCESS;
	if (!block_is_live(s, block))
		return CUDA_SUCCESS;
	if (mark && !passed)
		result = s->config.driver->cuEventSynchronize(mark->event);
	return result == CUDA_SUCCESS ? block_free(s, block, mark != NULL) : result;
}

/* Free a block to the pool when its work is over: behind `mark`, which may have `passed`, or
 * without a mark behind a fence of its context. False: it cannot be freed now. */
static bool root_free(struct gm_streams *s, const struct gm_root *root, const struct gm_mark *mark,
		      bool passed)
{
	if (!gm_context_enter(root->context))
		return context_is_gone(root->context); /* the pool has its blocks already */
	CUresult result = block_wait_and_free(s, &root->block, mark, passed);
	gm_context_leave(root->context);
	/* Invalid: another call freed the block during the wait, and the address may be another
	 * block's. */
	return result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE;
}

/* Give a block that is wholly kept, in one part, to the pool; the lock is released meanwhile. Waits
 * for the mark of the part, unless that has passed. False: the block stays, as the newest. */
static bool root_give(struct gm_streams *s, struct gm_cut *part)
{
	struct gm_root *root = part->root;
	struct gm_mark *mark = part->mark && part->mark->recorded ? part->mark : NULL;
	bool passed = mark && mark->passed; /* read under the lock: a query may set it meanwhile */
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	gm_cuts_hide(&s->parts, part);
	s->giving++;
	streams_release(s);
	bool gone = root_free(s, root, mark, passed);
	gm_lock_take(&s->lock);
	gone |= context_is_gone(root->context); /* gm_streams_context_gone did not find the root */
	s->given += gone ? root->block.held : 0;
	if (gone || !gm_cuts_show(&s->parts, part))
		gm_cuts_end(&s->parts, part);
	if (--s->giving == 0)
		pthread_cond_broadcast(&s->idle);
	return gone;
}

uint64_t gm_streams_drain(struct gm_streams *s)
{
	CUstreamCaptureMode mode = gm_driver_quiet_begin(s->config.driver);
	gm_lock_take(&s->lock);
	uint64_t before = s->given;
	for (unsigned n = s->parts.count; n && s->parts.oldest; n--) {
		struct gm_cut *part = s->parts.oldest;
		if (part->root->kept == part->root->parts) {
			root_give(s, gm_cuts_unite(&s->parts, part->root));
		} else { /* a part that stays becomes the newest */
			gm_cuts_unkeep(&s->parts, part);
			gm_cuts_keep(&s->parts, part);
		}
	}
	streams_release(s);
	gm_driver_quiet_end(s->config.driver, mode);
	gm_lock_take(&s->lock);
	while (s->giving)
		gm_lock_wait(&s->lock, &s->idle);
	uint64_t given = s->given - before;
	gm_lock_release(&s->lock);
	return given;
}

/* --- how much is kept --- */

static bool streams_are_full(const struct gm_streams *s)
{
	uint64_t most = s->used / GM_STREAMS_SHARE;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (most < GM_STREAMS_LEAST)
		most = GM_STREAMS_LEAST;
	if (most > s->config.most)
		most = s->config.most;
	return s->parts.bytes > most || s->parts.count > GM_STREAMS_MOST;
}

/* Has all work on a root ended? *ask: a mark to query if that is unknown. */
static bool root_is_done(const struct gm_streams *s, struct gm_root *root,
			 const struct gm_asked *asked, struct gm_mark **ask)
{
	if (root->kept != root->parts)
		return false;
	for (struct gm_cut *p = gm_cuts_first((struct gm_cuts *)&s->parts, root); p;
	     p = p->behind) {
		if (p->mark && p->mark->passed)
			continue;
		if (!*ask && gm_mark_is_worth_asking(p->mark, asked))
			*ask = p->mark;
		return false;
	}
	return true;
}

/* One of the oldest parts, if all work on its root has ended; NULL: none. */
static struct gm_cut *part_done(const struct gm_streams *s, const struct gm_asked *asked,
				struct gm_mark **ask)
{
	struct gm_cut *part = s->parts.oldest;
	for (unsigned seen = 0; part && seen < OLDEST; seen++, part = part->newer)
		if (root_is_done(s, part->root, asked, ask))
			return part;
	return NULL;
}

/* Give the oldest blocks whose work has ended to the pool, until kept memory is within the bound.
 * Waits for nothing. */
static void streams_shed(struct gm_streams *s)
{
	struct gm_asked asked = {0};
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	while (streams_are_full(s)) {
		struct gm_mark *ask = NULL;
		struct gm_cut *part = part_done(s, &asked, &ask);
		if (part) {
			if (!root_give(s, gm_cuts_unite(&s->parts, part->root)))
				return;
		} else if (ask) {
			mark_ask(s, ask, &asked);
		} else {
			return;
		}
	}
}

/* The pool would have to grow for a block: give it the memory kept beyond the bound, as soon as
 * work there has ended. */
static void streams_shed_waiting(struct gm_streams *s, size_t size)
{
	struct gm_pool_stats stats;
	uint64_t until = 0;
	bool full = true;
	while (full) {
		gm_lock_take(&s->lock);
		streams_shed(s);
		full = streams_are_full(s);
		streams_release(s);
		if (!full)
			return;
		gm_pool_stats(s->config.pool, &stats);
		if (stats.largest_idle >= size || (until && gm_clock_ns() > until))
			return;
		if (!until)
			until = gm_clock_ns() + PATIENCE;
		gm_sys_nap(NAP);
	}
}

/* --- allocation --- */

struct wish {
	uint64_t size;
	const struct gm_context *context;
	uint64_t number;
	struct gm_asked asked;
};

static bool part_can_be_cut(const struct gm_cut *part, const struct wish *w)
{
	return w->size >= CUT && part->size >= w->size + REST &&
	       part->root->block.size / WIDEST <= w->size;
}

/* A block is used again in its own context only: the pool takes it back when that context ends. */
static bool part_fits(const struct gm_cut *part, const struct wish *w)
{
	return part->root->context == w->context && part->size >= w->size &&
	       (part->size - w->size <= w->size / 8 || part_can_be_cut(part, w));
}

static bool part_is_free_for(const struct gm_cut *part, const struct wish *w)
{
	return (w->number && part->number == w->number) || (part->mark && part->mark->passed);
}

/* The smallest part that may be used again now, among equals the newest. NULL: none; *ask is then a
 * mark that frees a part once it has passed. */
static struct gm_cut *part_choose(const struct gm_streams *s, const struct wish *w,
				  struct gm_mark **ask)
{
	struct gm_cut *best = NULL;
	unsigned last = gm_cut_bin(w->size >= CUT ? w->size * WIDEST : w->size + w->size / 8);
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (unsigned bin = gm_cut_bin(w->size); bin <= last && !best; bin++)
		for (struct gm_cut *p = s->parts.bin[bin]; p; p = p->next) {
			if (!part_fits(p, w))
				continue;
			if (!part_is_free_for(p, w)) {
				if (gm_mark_is_worth_asking(p->mark, &w->asked))
					*ask = p->mark;
			} else if (!best || p->size < best->size) {
				best = p;
			}
		}
	return best;
}

/* Take a kept part for the wish; *out describes it to the program. False: its block is no longer
 * live. */
static bool part_use(struct gm_streams *s, struct gm_cut *part, const struct wish *w,
		     struct gm_block *out)
{
	struct gm_root *root = part->root;
	bool good = block_is_live(s, &root->block);
	*out = root->block;
	if (!good) {
		gm_cuts_forget(&s->parts, root);
		return false;
	}
	if (!part_can_be_cut(part, w) || !gm_cuts_split(&s->parts, part, w->size))
		gm_cuts_unkeep(&s->parts, part);
	gm_cuts_leave(&s->parts, part->mark);
	part->mark = NULL;
	out->base = part->at;
	out->size = part->size;
	out->held = part->held;
	s->used += part->held;
	if (root->parts == 1)
		gm_cuts_forget(&s->parts, root);
	return true;
}

static bool kept_use(struct gm_streams *s, struct wish *w, struct gm_block *out)
{
	bool good = false;
	gm_lock_take(&s->lock);
	while (!good) {
		struct gm_mark *ask = NULL;
		struct gm_cut *part = part_choose(s, w, &ask);
		if (part)
			good = part_use(s, part, w, out);
		else if (ask)
			mark_ask(s, ask, &w->asked);
		else
			break;
	}
	streams_release(s);
	return good;
}

CUresult gm_streams_alloc(struct gm_streams *s, size_t size, struct gm_context *context,
			  uint64_t number, struct gm_block *out)
{
	if (size == 0 || size > SIZE_MAX - GM_CUT_STEP)
		return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	struct wish w = {
		.size = gm_round_up(size, GM_CUT_STEP),
		.context = context,
		.number = number,
	};
	if (kept_use(s, &w, out))
		return CUDA_SUCCESS;
	streams_shed_waiting(s, w.size);
	CUresult result = s->config.take(s->config.arg, w.size, context, out);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_streams_drain(s))
		result = s->config.take(s->config.arg, w.size, context, out);
	if (result == CUDA_SUCCESS) {
		gm_lock_take(&s->lock);
		s->used += out->held;
		gm_lock_release(&s->lock);
	}
	return result;
}

/* --- free --- */

/* The part at an address, in use or kept. NULL: none, or its block is no longer live. */
static struct gm_cut *part_find(struct gm_streams *s, CUdeviceptr address)
{
	struct gm_cut *part = gm_cuts_find(&s->parts, address);
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!part || block_is_live(s, &part->root->block))
		return part;
	gm_cuts_forget(&s->parts, part->root);
	return NULL;
}

/* If the stream has many parts without a mark, give them `mark`, and return true. Parts kept from
 * now on are not behind its event. */
static bool mark_batch(struct gm_streams *s, uint64_t number, struct gm_mark *mark)
{
	uint64_t bytes = 0;
	unsigned n = 0;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (struct gm_cut *p = s->parts.newest; p; p = p->older)
		if (p->number == number && !p->mark) {
			bytes += p->held;
			n++;
		}
	if (n < GM_STREAMS_BATCH && bytes < GM_STREAMS_BYTES)
		return false;
	for (struct gm_cut *p = s->parts.newest; p; p = p->older)
		if (p->number == number && !p->mark) {
			p->mark = mark;
			mark->users++;
		}
	return true;
}

/* Take the mark from its parts. */
static void mark_unset(struct gm_streams *s, struct gm_mark *mark)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (struct gm_cut *p = s->parts.newest; p; p = p->older)
		if (p->mark == mark) {
			p->mark = NULL;
			mark->users--;
		}
}

/* The mark was recorded, or could not be. */
static void mark_finish(struct gm_streams *s, struct gm_mark *mark, bool recorded)
{
	gm_lock_take(&s->lock);
	mark->recorded = recorded;
	if (!recorded)
		mark_unset(s, mark);
	gm_cuts_leave(&s->parts, mark);
	streams_release(s);
}

static void stream_mark(struct gm_streams *s, struct gm_context *context, CUstream stream,
			uint64_t number)
{
	struct gm_mark *mark = gm_mark_new(context);
	if (!mark)
		return;
	gm_lock_take(&s->lock);
	bool wanted = mark_batch(s, number, mark);
	gm_lock_release(&s->lock);
	bool recorded = wanted && gm_mark_record(mark, s->config.driver, stream);
	mark_finish(s, mark, recorded);
}

/* Keep a part in use; releases the lock. With number 0 the part waits for a fence of its
 * context. */
static void part_keep(struct gm_streams *s, struct gm_cut *part, struct gm_context *context,
		      CUstream stream, uint64_t number)
{
	part->number = number;
	part->mark = NULL;
	s->used -= part->held < s->used ? part->held : s->used;
	gm_cuts_keep(&s->parts, part);
	gm_cuts_join(&s->parts, part);
	gm_lock_release(&s->lock);
	if (number)
		stream_mark(s, context, stream, number);
	gm_lock_take(&s->lock);
	streams_shed(s);
	streams_release(s);
}

/* Free a whole block, as the pool described it; none of its parts is listed. Releases the lock. */
static CUresult whole_free(struct gm_streams *s, const struct gm_block *block)
{
	s->used -= block->held < s->used ? block->held : s->used;
	streams_release(s);
	return block_free(s, block, false);
}

/* The block that begins at an address and is in use. */
static bool block_at(const struct gm_streams *s, CUdeviceptr address, struct gm_block *out)
{
	return gm_pool_find(s->config.pool, address, out) && out->live && out->base == address;
}

CUresult gm_streams_free(struct gm_streams *s, CUdeviceptr address, struct gm_context *context,
			 CUstream stream, uint64_t number)
{
	struct gm_block b;
	gm_lock_take(&s->lock);
	struct gm_cut *part = part_find(s, address);
	if (part ? part->kept : !block_at(s, address, &b)) {
		streams_release(s);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (part)
		b = part->root->block;
	/* A block of another context ends with that context, even if work on it is queued here. */
	if (b.context != context->key)
		number = 0;
	if (!number && part && part->root->parts == 1) {
		gm_cuts_forget(&s->parts, part->root);
		part = NULL;
	} else if (number && !part) {
		part = gm_cuts_add(&s->parts, &b, context);
	}
	if (!part)
		return whole_free(s, &b);
	part_keep(s, part, context, stream, number);
	return CUDA_SUCCESS;
}

/* --- ends --- */

static struct gm_root *root_of_context(struct gm_streams *s, bool all, uint64_t key)
{
	struct gm_cut *part, *next;
	HASH_ITER(hh, s->parts.table, part, next)
	{
		if (all || part->root->context->key == key)
			return part->root;
	}
	return NULL;
}

static void parts_forget_all(struct gm_streams *s, bool all, uint64_t key)
{
	struct gm_root *root;
	gm_lock_take(&s->lock);
	while ((root = root_of_context(s, all, key)))
		gm_cuts_forget(&s->parts, root);
	streams_release(s); /* the events went with their context */
}

void gm_streams_context_gone(struct gm_streams *s, uint64_t key)
{
	parts_forget_all(s, false, key);
}

void gm_streams_destroy(struct gm_streams *s)
{
	if (!s)
		return;
	parts_forget_all(s, true, 0);
	gm_lock_destroy(&s->lock);
	pthread_cond_destroy(&s->idle);
	free(s);
}
