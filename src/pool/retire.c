/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/retire.h"

#include <stdlib.h>

#include "base/clock.h"
#include "log/log.h"
#include "pool/internal.h"

/* Recorded in its context after the retirement `up_to`. */
struct gm_retire_fence {
	CUevent event;
	uint64_t context, up_to;
	unsigned users; /* threads that ask or wait for it, and the queue that it stands in */
	struct gm_retire_fence *next;
};

/* --- the contexts --- */

static struct gm_retired *find(const struct gm_pool *pool, uint64_t context)
{
	struct gm_retired *r = pool->retirees;
	while (r && !(r->used && r->context == context))
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
	r->first = NULL;
	r->last = &r->first;
	r->fences = NULL;
	r->fences_last = &r->fences;
	r->n = r->newest = r->covered = r->passed = r->fresh_n = r->fresh_bytes = 0;
	r->n_fences = 0;
	r->used = r->recording = r->polling = false;
	r->epoch++;
}

struct gm_retired *gm_retired_of(struct gm_pool *pool, uint64_t context)
{
	struct gm_retired *r = find(pool, context);
	if (GM_LIKELY(r != NULL))
		return r;
	r = find_unused(pool);
	if (!r)
		return NULL;
	clear(r);
	r->context = context;
	r->used = true;
	return r;
}

/* --- the blocks --- */

static void note(const struct gm_pool *pool, const struct gm_piece *piece)
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

static void add_one(struct gm_pool *pool, struct gm_retired *r, struct gm_piece *piece)
{
	uint64_t held = GM_GET(piece->held);
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_RETIRED);
	gm_piece_end(piece);
	piece->retired_at = r->newest = ++pool->retirements;
	*r->last = piece;
	r->last = &piece->next;
	r->n++;
	r->fresh_n++;
	r->fresh_bytes += held;
	gm_pool_count_retired(pool, held);
	note(pool, piece);
}

void gm_retired_add(struct gm_pool *pool, struct gm_retired *r, struct gm_piece *list)
{
	for (struct gm_piece *piece = list, *next; piece; piece = next) {
		next = piece->next;
		piece->next = NULL;
		add_one(pool, r, piece);
	}
	gm_pool_trim_retired(pool);
}

struct gm_piece *gm_retired_take(struct gm_pool *pool, struct gm_retired *r)
{
	struct gm_piece *list = r->first, **end = &r->first;
	for (; *end && (*end)->retired_at <= r->passed; end = &(*end)->next) {
		gm_pool_count_settled(pool, GM_GET((*end)->held));
		r->n--;
	}
	if (end == &r->first)
		return NULL;
	r->first = *end;
	if (!r->first)
		r->last = &r->first;
	*end = NULL;
	return list;
}

static uint64_t put_back(struct gm_pool *pool, struct gm_retired *r)
{
	uint64_t bytes = 0;
	for (struct gm_piece *piece = gm_retired_take(pool, r), *next; piece; piece = next) {
		next = piece->next;
		bytes += GM_GET(piece->held);
		gm_pool_put_back(pool, piece);
	}
	return bytes;
}

/* --- the fences; what follows drops the lock around calls of config.defer --- */

static void let_go(struct gm_pool *pool, struct gm_retire_fence *fence)
{
	if (--fence->users)
		return;
	gm_pool_unlock(pool);
	pool->config.defer->drop(pool->config.fence_arg, fence->context, fence->event);
	gm_pool_lock(pool);
	free(fence);
}

/* All retirements up to `up_to` can be used again; fences up to there have served. Numbers are the
 * pool's, so none of a context that takes the place meanwhile is touched. */
static void pass(struct gm_pool *pool, struct gm_retired *r, uint64_t up_to)
{
	if (r->passed < up_to)
		r->passed = up_to;
	for (struct gm_retire_fence *fence; (fence = r->fences) && fence->up_to <= up_to;) {
		r->fences = fence->next;
		if (!r->fences)
			r->fences_last = &r->fences;
		r->n_fences--;
		let_go(pool, fence);
	}
}

static void append(struct gm_retired *r, struct gm_retire_fence *fence)
{
	fence->users = 1;
	r->covered = fence->up_to;
	r->n_fences++;
	*r->fences_last = fence;
	r->fences_last = &fence->next;
}

/* A fence behind what has none. It covers only work submitted before the record, so the number is
 * taken before. */
static void cover(struct gm_pool *pool, struct gm_retired *r)
{
	const struct gm_deferral *defer = pool->config.defer;
	if (!defer || !defer->record || r->newest <= r->covered || r->newest <= r->passed ||
	    r->recording || r->n_fences >= GM_RETIRE_FENCES)
		return;
	struct gm_retire_fence *fence = calloc(1, sizeof *fence);
	if (!fence)
		return; /* they wait for the next one */
	uint64_t epoch = r->epoch;
	*fence = (struct gm_retire_fence){.context = r->context, .up_to = r->newest, .users = 1};
	r->fresh_n = r->fresh_bytes = 0;
	r->recording = true;
	gm_pool_unlock(pool);
	CUresult result = defer->record(pool->config.fence_arg, fence->context, &fence->event);
	gm_pool_lock(pool);
	if (r->epoch == epoch)
		r->recording = false;
	if (result == CUDA_SUCCESS && fence->event && r->epoch == epoch) {
		append(r, fence);
		return;
	}
	if (result == CUDA_SUCCESS && r->epoch == epoch) /* nothing runs there */
		pass(pool, r, fence->up_to);
	if (fence->event)
		let_go(pool, fence);
	else
		free(fence);
}

/* Has it passed? With `wait`, it has once this returns CUDA_SUCCESS. */
static CUresult ask(struct gm_pool *pool, struct gm_retired *r, struct gm_retire_fence *fence,
		    bool wait)
{
	const struct gm_deferral *defer = pool->config.defer;
	uint64_t begin = wait ? gm_clock_ns() : 0, epoch = r->epoch;
	fence->users++;
	gm_pool_unlock(pool);
	CUresult result = (wait ? defer->wait : defer->passed)(pool->config.fence_arg,
							       fence->context, fence->event);
	if (wait && result == CUDA_SUCCESS)
		gm_pool_count_fence(pool, begin);
	gm_pool_lock(pool);
	if (result == CUDA_SUCCESS && r->epoch == epoch)
		pass(pool, r, fence->up_to);
	let_go(pool, fence);
	return result;
}

void gm_retired_poll(struct gm_pool *pool, struct gm_retired *r)
{
	cover(pool, r);
	CUresult result = CUDA_SUCCESS;
	while (result == CUDA_SUCCESS && r->fences && !r->polling) {
		uint64_t epoch = r->epoch;
		r->polling = true;
		result = ask(pool, r, r->fences, false);
		if (r->epoch != epoch)
			return;
		r->polling = false;
	}
}

bool gm_retired_due(const struct gm_pool *pool, const struct gm_retired *r)
{
	const struct gm_pool_config *config = &pool->config;
	return config->defer && config->defer->record &&
	       (r->fresh_n >= GM_RETIRE_BATCH ||
		r->fresh_bytes > config->retire / GM_RETIRE_PARTS ||
		pool->retired > config->retire);
}

uint64_t gm_retired_collect(struct gm_pool *pool)
{
	uint64_t bytes = 0;
	if (!pool->retired || !pool->config.defer)
		return 0;
	if (!pool->config.defer->record)
		return pool->retired > pool->config.retire ? gm_retired_settle(pool) : 0;
	for (struct gm_retired *r = pool->retirees; r; r = r->next) {
		if (!r->n)
			continue;
		gm_retired_poll(pool, r);
		bytes += put_back(pool, r);
	}
	return bytes;
}

/* --- waiting --- */

CUresult gm_pool_fence(struct gm_pool *pool, uint64_t context, bool native, enum gm_fenced *fenced)
{
	*fenced = GM_FENCED_PASSED;
	if (!pool->config.fence)
		return CUDA_SUCCESS;
	uint64_t begin = gm_clock_ns();
	CUresult result = pool->config.fence(pool->config.fence_arg, context, native, fenced);
	if (result == CUDA_SUCCESS && *fenced == GM_FENCED_PASSED)
		gm_pool_count_fence(pool, begin);
	return result;
}

/* Wait for what is retired now: for the last fence if that is behind all of it. */
static void await(struct gm_pool *pool, struct gm_retired *r)
{
	enum gm_fenced fenced;
	uint64_t epoch = r->epoch, up_to = r->newest, context = r->context;
	cover(pool, r);
	if (r->epoch != epoch || r->passed >= up_to)
		return;
	struct gm_retire_fence *last = r->fences;
	while (last && last->next)
		last = last->next;
	if (last && last->up_to >= up_to) {
		ask(pool, r, last, true);
		return;
	}
	gm_pool_unlock(pool);
	CUresult result = gm_pool_fence(pool, context, false, &fenced);
	gm_pool_lock(pool);
	if (result == CUDA_SUCCESS && fenced == GM_FENCED_PASSED && r->epoch == epoch)
		pass(pool, r, up_to);
}

uint64_t gm_retired_settle(struct gm_pool *pool)
{
	uint64_t bytes = 0;
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
	struct gm_retired *r = find(pool, context);
	if (!r || !r->n)
		return;
	pass(pool, r, up_to);
	put_back(pool, r);
}

/* --- ends --- */

void gm_retired_gone(struct gm_pool *pool, uint64_t context)
{
	struct gm_retired *r = find(pool, context);
	if (!r)
		return;
	struct gm_retire_fence *fences = r->fences;
	r->passed = UINT64_MAX;
	put_back(pool, r);
	clear(r);
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
	uint64_t n = 0, last = 0;
	unsigned n_fences = 0;
	struct gm_piece *const *link = &r->first;
	for (; *link; link = &(*link)->next, n++) {
		if (GM_GET((*link)->state) != GM_RETIRED || (*link)->retired_at <= last ||
		    (*link)->retired_at > r->newest)
			return "retired blocks are listed by age";
		last = (*link)->retired_at;
	}
	if (link != r->last || n != r->n)
		return "retired blocks are listed";
	last = 0;
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
	*n = 0;
	for (const struct gm_retired *r = pool->retirees; r && !why; r = r->next) {
		*n += r->n;
		why = check_one(r);
	}
	return why;
}
