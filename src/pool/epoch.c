/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/epoch.h"

#include <stdlib.h>

#include "base/tick.h"
#include "pool/free.h"
#include "pool/internal.h"
#include "pool/stats.h"

static void number_raise(_Atomic uint64_t *to, uint64_t number)
{
	uint64_t seen = atomic_load(to);
	while (seen < number && !atomic_compare_exchange_weak(to, &seen, number))
		;
}

void gm_epoch_raise(struct gm_epoch *epoch, uint64_t number)
{
	number_raise(&epoch->passed, number);
}

void gm_epoch_seal(struct gm_epoch *epoch, uint64_t number)
{
	number_raise(&epoch->sealed, number);
}

struct gm_epoch *gm_epoch_open(struct gm_pool *pool, uint64_t context)
{
	_Atomic(struct gm_epoch *) *link = &pool->epochs;
	struct gm_epoch *epoch = NULL;
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	for (; *link && !(epoch && epoch->used); link = &(*link)->next)
		if (!(*link)->used || (*link)->context == context)
			epoch = *link;
	if (!epoch) {
		epoch = calloc(1, sizeof *epoch);
		if (!epoch)
			return NULL;
		gm_futex_lock_init(&epoch->lock, GM_LOCK_RANK_EPOCH);
		*link = epoch;
	}
	gm_futex_lock_take(&epoch->lock);
	epoch->context = context;
	epoch->used = true;
	gm_futex_lock_release(&epoch->lock);
	return epoch;
}

void gm_epoch_close(struct gm_pool *pool)
{
	for (struct gm_epoch *epoch = pool->epochs, *next; epoch; epoch = next) {
		next = epoch->next;
		epoch->passed = UINT64_MAX;
		gm_epoch_ask(pool, epoch, 0);
		free(epoch);
	}
}

static struct gm_epoch_event *epoch_event(struct gm_epoch *epoch, unsigned i)
{
	return &epoch->events[(epoch->first + i) % GM_EPOCH_EVENTS];
}

bool gm_epoch_is_pending(struct gm_epoch *epoch)
{
	gm_futex_lock_take(&epoch->lock);
	bool pending = epoch->n + epoch->asking > 0;
	gm_futex_lock_release(&epoch->lock);
	return pending;
}

/* Keep an event, in the order of the numbers; drop it if it has passed, or the ring is full.
 * `asked`: this thread has queried it. No lock held. */
static void epoch_keep(struct gm_pool *pool, struct gm_epoch *epoch, struct gm_epoch_event event,
		       bool asked)
{
	gm_futex_lock_take(&epoch->lock);
	epoch->asking -= asked;
	bool kept = event.event && event.number > epoch->passed && epoch->n < GM_EPOCH_EVENTS;
	unsigned i = epoch->n;
	epoch->n += kept;
	for (; kept && i && epoch_event(epoch, i - 1)->number > event.number; i--)
		*epoch_event(epoch, i) = *epoch_event(epoch, i - 1);
	if (kept)
		*epoch_event(epoch, i) = event;
	gm_futex_lock_release(&epoch->lock);
	if (event.event && !kept)
		pool->config.fences->drop(pool->config.fence_arg, event.context, event.event);
}

static bool event_passed(const struct gm_pool *pool, struct gm_epoch_event event)
{
	return pool->config.fences->passed(pool->config.fence_arg, event.context, event.event) ==
	       CUDA_SUCCESS;
}

/* While no other event is pending this one is queried at once: on an idle GPU it has passed. */
uint64_t gm_epoch_record(struct gm_pool *pool, struct gm_epoch *epoch)
{
	const struct gm_fence_ops *fences = pool->config.fences;
	if (!pool->config.defer || !fences->record)
		return 0;
	gm_futex_lock_take(&epoch->lock);
	struct gm_epoch_event event = {gm_limbo_number(pool), epoch->context, NULL};
	uint64_t before = epoch->recorded, number = event.number;
	bool alone = epoch->n + epoch->asking == 0;
	bool needed = epoch->sealed > before && epoch->sealed > epoch->passed &&
		      epoch->n < GM_EPOCH_EVENTS;
	if (needed)
		epoch->recorded = number;
	gm_futex_lock_release(&epoch->lock);
	if (!needed)
		return 0;
	CUresult result = fences->record(pool->config.fence_arg, event.context, &event.event);
	if (result != CUDA_SUCCESS) /* the next event covers these bags as well */
		atomic_compare_exchange_strong(&epoch->recorded, &number, before);
	else if (!event.event || (alone && event_passed(pool, event)))
		gm_epoch_raise(epoch, event.number);
	epoch_keep(pool, epoch, event, false);
	return event.number;
}

void gm_epoch_ask(struct gm_pool *pool, struct gm_epoch *epoch, uint64_t just)
{
	for (bool passed = true; passed;) {
		gm_futex_lock_take(&epoch->lock);
		struct gm_epoch_event oldest = *epoch_event(epoch, 0);
		bool busy = epoch->asking && !gm_limbo_is_past_bound(pool);
		passed = oldest.number <= epoch->passed;
		bool take = epoch->n && (passed || (oldest.number != just && !busy));
		epoch->first = (epoch->first + take) % GM_EPOCH_EVENTS;
		epoch->n -= take;
		epoch->asking += take;
		gm_futex_lock_release(&epoch->lock);
		if (!take)
			return;
		passed = passed || event_passed(pool, oldest);
		if (passed)
			gm_epoch_raise(epoch, oldest.number);
		epoch_keep(pool, epoch, oldest, true);
	}
}

void gm_epochs_ask(struct gm_pool *pool)
{
	if (GM_GET(pool->stranded))
		pool->config.order->cool(false);
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next)
		gm_epoch_ask(pool, epoch, 0);
}

void gm_epoch_poll(struct gm_pool *pool, struct gm_epoch *epoch)
{
	gm_epoch_ask(pool, epoch, gm_epoch_record(pool, epoch));
}

/* Take the newest pending event; the caller owns it. */
static void epoch_take_newest(struct gm_epoch *epoch, struct gm_epoch_event *event)
{
	gm_futex_lock_take(&epoch->lock);
	if (epoch->n)
		*event = *epoch_event(epoch, --epoch->n);
	gm_futex_lock_release(&epoch->lock);
}

/* The context of the epoch now; the epoch may pass to another context at any time. */
static uint64_t epoch_context(struct gm_epoch *epoch)
{
	gm_futex_lock_take(&epoch->lock);
	uint64_t context = epoch->context;
	gm_futex_lock_release(&epoch->lock);
	return context;
}

void gm_epoch_wait(struct gm_pool *pool, struct gm_epoch *epoch)
{
	const struct gm_fence_ops *fences = pool->config.fences;
	void *arg = pool->config.fence_arg;
	enum gm_fenced fenced = GM_FENCED_PASSED;
	CUresult result = CUDA_ERROR_NOT_READY;
	uint64_t began = gm_tick(), waited, before = epoch->recorded;
	struct gm_epoch_event event = {gm_limbo_number(pool), epoch_context(epoch), NULL};
	uint64_t number = event.number;
	bool records = pool->config.defer && fences->record;
	if (records && before >= epoch->sealed)
		epoch_take_newest(epoch, &event);
	if (!event.event) {
		epoch->recorded = number; /* blocks freed from now on do not join these bags */
		result = records ? fences->record(arg, event.context, &event.event)
				 : gm_pool_fence(pool, event.context, false, began, &fenced,
						 &waited);
		if (records && result != CUDA_SUCCESS)
			epoch_take_newest(epoch, &event);
	}
	if (event.event) {
		result = fences->wait_for(arg, event.context, event.event);
		if (result == CUDA_SUCCESS)
			gm_pool_count_fence(pool, gm_timing_since(began));
	}
	if (result == CUDA_SUCCESS && fenced == GM_FENCED_PASSED)
		gm_epoch_raise(epoch, event.number);
	else
		atomic_compare_exchange_strong(&epoch->recorded, &number, before);
	epoch_keep(pool, epoch, event, false);
	gm_epoch_ask(pool, epoch, 0); /* drops the events up to that number */
}
