/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/retire.h"

#include <stdlib.h>

#include "base/tick.h"
#include "log/log.h"
#include "pool/internal.h"

/* Recorded in its context after the retirement `up_to`. */
struct gm_retire_fence {
	CUevent event;
	uint64_t context, up_to;
	unsigned users; /* threads that ask or wait for it, and the queue that it stands in */
	struct gm_retire_fence *next;
};

/* --- the shelves and contexts --- */

static bool is_of(const struct gm_retired *r, uint64_t context)
{
	return r->used && r->context == context;
}

static bool is_by(const struct gm_retired *r, const struct gm_shelf *shelf, uint64_t context)
{
	return r->shelf == shelf && is_of(r, context);
}

static struct gm_retired *find(const struct gm_pool *pool, const struct gm_shelf *shelf,
			       uint64_t context)
{
	struct gm_retired *r =
		shelf->freed.into; /* it nearly always is; others are in other caches */
	if (GM_LIKELY(r && is_by(r, shelf, context)))
		return r;
	for (r = pool->retirees; r && !is_by(r, shelf, context);)
		r = r->next;
	return r;
}

static struct gm_retired *find_unused(struct gm_pool *pool)
{
	struct gm_retired **link = &pool->retirees;
	while (*link && (*link)->used)
		link = &(*link)->next;
	if (!*link)
		*link = calloc(1, sizeof **link);
	return *link;
}

/* As for a context that has retired nothing. What another thread is doing with it without the lock
 * is of an older epoch. */
static void clear(struct gm_retired *r)
{
	r->batches.first = r->batches.n = 0;
	r->fences = NULL;
	r->n = r->newest = r->asked = r->covered = r->passed = r->fresh_n = r->fresh_bytes = 0;
	r->n_fences = r->polling = r->misses = 0;
	r->used = false;
	r->epoch++;
}

struct gm_retired *gm_retired_of(struct gm_pool *pool, const struct gm_shelf *shelf,
				 uint64_t context)
{
	struct gm_retired *r = find(pool, shelf, context);
	if (GM_LIKELY(r != NULL))
		return r;
	r = find_unused(pool);
	if (!r)
		return NULL;
	clear(r);
	r->shelf = shelf;
	r->context = context;
	r->used = true;
	return r;
}

/* --- the blocks --- */

void gm_retired_note(const struct gm_pool *pool, const struct gm_piece *piece)
{
	if (!gm_log_wants(GM_RECORD_RETIRE))
		return;
	gm_log_put(&(struct gm_record){.address = GM_GET(piece->base),
				       .size = GM_GET(piece->size),
				       .held = GM_GET(piece->held),
				       .id = GM_GET(piece->id),
				       .context = (uint32_t)GM_GET(piece->context),
				       .device = (uint8_t)pool->config.ordinal,
				       .kind = GM_RECORD_RETIRE});
}

/* The number of the last of `n` more. Release: what used them was submitted before. */
static uint64_t number(struct gm_pool *pool, uint64_t n)
{
	uint64_t last = GM_GET(pool->retirements) + n;
	atomic_store_explicit(&pool->retirements, last, memory_order_release);
	return last;
}

/* Is the newest batch one that nobody has asked a fence for yet? */
static bool needs_fence(const struct gm_retired *r)
{
	return r->newest > r->asked && r->newest > r->passed;
}

void gm_retired_add(struct gm_pool *pool, struct gm_retired *r, struct gm_retiring *list)
{
	if (!list->first)
		return;
	bool join = needs_fence(r);
	r->newest = number(pool, list->n);
	gm_batch_add(&r->batches, list, r->newest, join);
	r->n += list->n;
	r->fresh_n += list->n;
	r->fresh_bytes += list->bytes;
	gm_pool_count_retired(pool, list->bytes);
	gm_pool_trim_retired(pool);
	*list = (struct gm_retiring){0};
}

struct gm_piece *gm_retired_take(struct gm_pool *pool, struct gm_retired *r, uint64_t most,
				 uint64_t *bytes)
{
	struct gm_retiring list = gm_batch_take(&r->batches, r->passed, most);
	*bytes = list.bytes;
	if (!list.first)
		return NULL;
	r->n -= list.n;
	gm_pool_count_settled(pool, list.bytes);
	return list.first;
}

static uint64_t put_back(struct gm_pool *pool, struct gm_retired *r)
{
	uint64_t bytes;
	for (struct gm_piece *piece = gm_retired_take(pool, r, UINT64_MAX, &bytes), *next; piece;
	     piece = next) {
		next = piece->next;
		gm_pool_put_back(pool, piece);
	}
	return bytes;
}

/* --- the fences; what follows drops the lock around calls of config.defer --- */

static void drop(struct gm_pool *pool, struct gm_retire_fence *fence)
{
	if (fence->event) {
		gm_pool_unlock(pool);
		pool->config.defer->drop(pool->config.fence_arg, fence->context, fence->event);
		gm_pool_lock(pool);
	}
	free(fence);
}

static void let_go(struct gm_pool *pool, struct gm_retire_fence *fence)
{
	if (--fence->users == 0)
		drop(pool, fence);
}

/* All retirements up to `up_to` can be used again; fences up to there have served. Numbers are the
 * pool's, so none of a context that takes the place meanwhile is touched. */
static void pass(struct gm_pool *pool, struct gm_retired *r, uint64_t up_to)
{
	if (r->passed < up_to) {
		r->passed = up_to;
		r->misses = 0;
	}
	for (struct gm_retire_fence *fence; (fence = r->fences) && fence->up_to <= up_to;) {
		r->fences = fence->next;
		r->n_fences--;
		let_go(pool, fence);
	}
}

/* In the order of the numbers: another thread's may be recorded before one that was begun earlier.
 * False: one that covers as much has passed, or is there. */
static bool enter(struct gm_retired *r, struct gm_retire_fence *fence)
{
	struct gm_retire_fence **link = &r->fences;
	while (*link && (*link)->up_to < fence->up_to)
		link = &(*link)->next;
	if (fence->up_to <= r->passed || (*link && (*link)->up_to == fence->up_to))
		return false;
	fence->users = 1;
	fence->next = *link;
	*link = fence;
	r->n_fences++;
	if (r->covered < fence->up_to)
		r->covered = fence->up_to;
	return true;
}

/* There is no fence for it: the next one will do. */
static void unask(struct gm_retired *r, uint64_t up_to)
{
	if (r->asked == up_to)
		r->asked = r->covered;
}

/* What the driver answered is known, and `epoch` still is. */
static void recorded(struct gm_pool *pool, struct gm_retired *r, struct gm_retire_fence *fence,
		     CUresult result)
{
	if (result == CUDA_SUCCESS && fence->event && enter(r, fence))
		return;
	if (result == CUDA_SUCCESS && !fence->event) /* nothing runs there any more */
		pass(pool, r, fence->up_to);
	else if (result != CUDA_SUCCESS)
		unask(r, fence->up_to);
	drop(pool, fence);
}

/* On an idle GPU a fence has passed as soon as it is recorded. Without the lock. */
static void ask_at_once(const struct gm_pool *pool, struct gm_retire_fence *fence)
{
	const struct gm_deferral *defer = pool->config.defer;
	void *arg = pool->config.fence_arg;
	if (defer->passed(arg, fence->context, fence->event) != CUDA_SUCCESS)
		return;
	defer->drop(arg, fence->context, fence->event);
	fence->event = NULL;
}

/* A fence behind what nobody has asked one for yet. It covers only work submitted before the
 * record, so the number is taken before: it is returned, or 0 for none. Several threads may do so
 * at a time: one that the system keeps from running is in nobody's way. */
static uint64_t cover(struct gm_pool *pool, struct gm_retired *r, bool look_at_once)
{
	const struct gm_deferral *defer = pool->config.defer;
	if (!defer || !defer->record || !needs_fence(r) || r->n_fences >= GM_RETIRE_FENCES)
		return 0;
	struct gm_retire_fence *fence = calloc(1, sizeof *fence);
	if (!fence)
		return 0; /* they wait for the next one */
	uint64_t epoch = r->epoch, up_to = r->newest;
	*fence = (struct gm_retire_fence){.context = r->context, .up_to = up_to, .users = 1};
	look_at_once = look_at_once && !r->fences; /* else an older one is asked first */
	r->fresh_n = r->fresh_bytes = 0;
	r->asked = up_to;
	gm_pool_unlock(pool);
	CUresult result = defer->record(pool->config.fence_arg, fence->context, &fence->event);
	if (result == CUDA_SUCCESS && fence->event && look_at_once)
		ask_at_once(pool, fence);
	gm_pool_lock(pool);
	if (r->epoch == epoch)
		recorded(pool, r, fence, result);
	else
		drop(pool, fence);
	return up_to;
}

/* Has it passed? With `wait`, it has once this returns CUDA_SUCCESS. */
static CUresult ask(struct gm_pool *pool, struct gm_retired *r, struct gm_retire_fence *fence,
		    bool wait)
{
	const struct gm_deferral *defer = pool->config.defer;
	uint64_t begin = wait ? gm_tick() : 0, epoch = r->epoch;
	fence->users++;
	gm_pool_unlock(pool);
	CUresult result = (wait ? defer->wait : defer->passed)(pool->config.fence_arg,
							       fence->context, fence->event);
	if (wait && result == CUDA_SUCCESS)
		gm_pool_count_fence(pool, gm_timing_since(begin));
	gm_pool_lock(pool);
	if (result == CUDA_SUCCESS && r->epoch == epoch)
		pass(pool, r, fence->up_to);
	let_go(pool, fence);
	return result;
}

static bool is_past_bound(const struct gm_pool *pool)
{
	return pool->retired > pool->config.retire;
}

/* Ask the oldest fences whether they have passed, until one has not, or is the one recorded just
 * now, up to `just`. Below the bound one thread does at a time. */
static void look(struct gm_pool *pool, struct gm_retired *r, uint64_t just)
{
	CUresult result = CUDA_SUCCESS;
	while (result == CUDA_SUCCESS && r->fences) {
		if ((r->polling && !is_past_bound(pool)) || r->fences->up_to == just)
			return;
		uint64_t epoch = r->epoch;
		r->polling++;
		result = ask(pool, r, r->fences, false);
		if (r->epoch != epoch)
			return;
		r->polling--;
	}
}

void gm_retired_poll(struct gm_pool *pool, struct gm_retired *r)
{
	look(pool, r, cover(pool, r, true));
}

/* The shelves that collect: each has as much of the bound. */
static unsigned crew(const struct gm_pool *pool)
{
	return pool->n_collecting ? pool->n_collecting : 1;
}

uint32_t gm_retired_batch(const struct gm_pool *pool)
{
	unsigned n = crew(pool);
	return GM_RETIRE_BATCH * (n < GM_RETIRE_CREW ? n : GM_RETIRE_CREW);
}

void gm_retired_restock(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context)
{
	struct gm_retired *r = find(pool, shelf, context);
	if (!r || !r->n)
		return;
	uint64_t most = is_past_bound(pool) ? UINT64_MAX : gm_retired_batch(pool), bytes;
	struct gm_piece *list = gm_retired_take(pool, r, most, &bytes);
	if (list)
		gm_shelf_stock(pool, shelf, list, bytes);
}

/* Many blocks may have passed, and no fence is known to have. While the GPU is busy each allocation
 * comes here: the first one asks, the second, the fourth ... */
static bool is_worth_a_look(struct gm_retired *r)
{
	if (r->n < r->fresh_n + GM_RETIRE_MISSED || gm_batch_oldest(&r->batches) <= r->passed)
		return false;
	unsigned misses = r->misses++;
	return (misses & (misses + 1)) == 0;
}

/* So many, or bytes, are enough for a fence where nothing else comes back. Of the largest blocks a
 * whole batch is few: it is better to have more of them. */
static bool is_half(const struct gm_pool *pool, const struct gm_freed *freed, uint64_t n)
{
	uint64_t half = gm_retired_batch(pool) / 2;
	return n >= (half > GM_RETIRE_BATCH ? half : GM_RETIRE_BATCH) ||
	       (n >= GM_RETIRE_FEW && freed->list.bytes >= freed->share / 2);
}

/* Is nothing on its way back, while half a batch lies on the shelf? Then it is handed over; with
 * `all`, whatever lies there is. */
static bool hand_over_half(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_retired *r,
			   bool all)
{
	struct gm_freed *freed = &shelf->freed;
	gm_quick_take(&shelf->lock);
	bool any = freed->most && freed->into == r;
	bool enough = any && !r->fences && is_half(pool, freed, r->fresh_n + freed->list.n);
	if (enough || (any && all)) {
		gm_freed_hand_over(pool, shelf);
		gm_freed_allow(pool, shelf, r);
	}
	gm_quick_release(&shelf->lock);
	return enough;
}

bool gm_retired_miss(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context, bool must)
{
	struct gm_retired *r = find(pool, shelf, context);
	if (!r)
		return false;
	bool asks = hand_over_half(pool, shelf, r, must);
	if (asks)
		gm_retired_poll(pool, r);
	else if ((asks = is_worth_a_look(r) || must))
		look(pool, r, 0);
	gm_retired_restock(pool, shelf, context);
	return asks;
}

bool gm_retired_due(const struct gm_pool *pool, const struct gm_retired *r)
{
	const struct gm_pool_config *config = &pool->config;
	if (!config->defer || !config->defer->record)
		return false;
	if (r->fresh_n >= gm_retired_batch(pool))
		return true;
	if (r->fresh_n < GM_RETIRE_LEAST)
		return !r->fences &&
		       (r->fresh_bytes > config->retire / GM_RETIRE_LEAST || is_past_bound(pool));
	return r->fresh_bytes > config->retire / GM_RETIRE_PARTS / crew(pool) ||
	       is_past_bound(pool);
}

uint64_t gm_retired_return(struct gm_pool *pool, struct gm_retired *r)
{
	if (!r->n)
		return 0;
	gm_retired_poll(pool, r);
	return put_back(pool, r);
}

void gm_retired_poll_others(struct gm_pool *pool, const struct gm_retired *but)
{
	for (struct gm_retired *r = pool->retirees; r && is_past_bound(pool); r = r->next)
		if (r != but)
			gm_retired_return(pool, r);
}

uint64_t gm_retired_collect(struct gm_pool *pool)
{
	uint64_t bytes = 0;
	if (!pool->config.defer)
		return 0;
	gm_freed_collect(pool);
	if (!pool->config.defer->record)
		return is_past_bound(pool) ? gm_retired_settle(pool) : 0;
	for (struct gm_retired *r = pool->retirees; r; r = r->next)
		bytes += gm_retired_return(pool, r);
	return bytes;
}

uint64_t gm_retired_glance(struct gm_pool *pool)
{
	uint64_t bytes = 0;
	if (is_past_bound(pool))
		return gm_retired_collect(pool);
	const struct gm_shelf *mine = &pool->shelves[gm_thread_index() % GM_SHELVES];
	for (struct gm_retired *r = pool->retirees; r; r = r->next) {
		if (r->shelf == mine) /* else others would lack it, and look for ours */
			bytes += put_back(pool, r);
	}
	return bytes;
}

/* --- waiting --- */

CUresult gm_pool_fence(struct gm_pool *pool, uint64_t context, bool native, uint64_t began,
		       enum gm_fenced *fenced, uint64_t *waited)
{
	*fenced = GM_FENCED_PASSED;
	*waited = 0;
	if (!pool->config.fence)
		return CUDA_SUCCESS;
	CUresult result = pool->config.fence(pool->config.fence_arg, context, native, fenced);
	if (result == CUDA_SUCCESS && *fenced == GM_FENCED_PASSED)
		*waited = gm_pool_count_fence(pool, gm_timing_since(began));
	return result;
}

/* Wait for what is retired now: for the last fence if that is behind all of it. */
static void await(struct gm_pool *pool, struct gm_retired *r)
{
	enum gm_fenced fenced;
	uint64_t epoch = r->epoch, up_to = r->newest, context = r->context, waited;
	cover(pool, r, false);
	if (r->epoch != epoch || r->passed >= up_to)
		return;
	struct gm_retire_fence *last = r->fences;
	while (last && last->next)
		last = last->next;
	if (last && last->up_to >= up_to) {
		ask(pool, r, last, true);
		return;
	}
	if (r->asked < up_to)
		r->asked = up_to; /* or what is retired meanwhile would join it */
	gm_pool_unlock(pool);
	CUresult result = gm_pool_fence(pool, context, false, gm_tick(), &fenced, &waited);
	gm_pool_lock(pool);
	if (r->epoch != epoch)
		return;
	if (result == CUDA_SUCCESS && fenced == GM_FENCED_PASSED)
		pass(pool, r, up_to);
	else
		unask(r, up_to);
}

uint64_t gm_retired_settle(struct gm_pool *pool)
{
	uint64_t bytes = 0;
	gm_freed_collect(pool);
	for (struct gm_retired *r = pool->retirees; r; r = r->next) {
		if (!r->n)
			continue;
		await(pool, r);
		bytes += put_back(pool, r);
	}
	return bytes;
}

uint64_t gm_pool_settle(struct gm_pool *pool)
{
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	uint64_t bytes = gm_retired_settle(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return bytes;
}

void gm_retired_passed(struct gm_pool *pool, uint64_t context, uint64_t up_to)
{
	for (struct gm_retired *r = pool->retirees; r; r = r->next) {
		if (!is_of(r, context) || !r->n)
			continue;
		pass(pool, r, up_to);
		put_back(pool, r);
	}
}

/* --- ends --- */

void gm_retired_gone(struct gm_pool *pool, uint64_t context)
{
	struct gm_retire_fence *fences = NULL, **last = &fences;
	for (struct gm_retired *r = pool->retirees; r; r = r->next) {
		if (!is_of(r, context))
			continue;
		*last = r->fences;
		while (*last)
			last = &(*last)->next;
		r->passed = UINT64_MAX;
		put_back(pool, r);
		clear(r);
	}
	for (struct gm_retire_fence *next; fences; fences = next) {
		next = fences->next;
		let_go(pool, fences);
	}
}

void gm_retired_close(struct gm_pool *pool)
{
	for (struct gm_retired *r = pool->retirees, *next; r; r = next) {
		next = r->next;
		gm_pool_lock(pool);
		pass(pool, r, UINT64_MAX);
		gm_pool_unlock(pool);
		free(r);
	}
}

static const char *check_one(const struct gm_retired *r)
{
	const char *why = gm_batch_check(&r->batches, r->n, r->newest);
	uint64_t last = 0;
	unsigned n_fences = 0;
	if (why)
		return why;
	for (const struct gm_retire_fence *f = r->fences; f; f = f->next, n_fences++) {
		if (f->up_to <= last || f->up_to > r->covered || f->context != r->context ||
		    !f->users)
			return "fences are listed by age";
		last = f->up_to;
	}
	return n_fences == r->n_fences ? NULL : "fences are counted";
}

const char *gm_retired_check(const struct gm_pool *pool, uint64_t *n)
{
	const char *why = NULL;
	for (const struct gm_retired *r = pool->retirees; r && !why; r = r->next) {
		*n += r->n;
		why = check_one(r);
	}
	return why;
}
