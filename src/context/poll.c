/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/poll.h"

#include <sched.h>

#include "base/debug.h"
#include "context/event.h"

#define FOR_OTHERS 3 /* polls in a row for other threads */
#define EAGER 400    /* turns of waiting without a pause: about as long as a poll takes */

unsigned gm_poll_patience = 700; /* turns in total; then the polling thread counts as not running */

atomic_uint gm_poll_captures;
static atomic_bool all_counted; /* gm_poll_captures has each capture of the process */

/* Record an event and query it; the caller has begun a poll. If work is pending, *pending is its
 * event, which the caller puts back; without `pending` the context keeps the event. */
static CUresult poll_once(const struct gm_driver *driver, struct gm_context *context,
			  CUevent *pending)
{
	CUevent *event = &context->poll.event;
	CUresult result = CUDA_SUCCESS;
	if (GM_UNLIKELY(atomic_load(&gm_poll_captures) || !atomic_load(&all_counted)))
		return CUDA_ERROR_NOT_READY;
	if (GM_UNLIKELY(!*event))
		result = gm_event_take(driver, context, event);
	if (result == CUDA_SUCCESS)
		result = driver->cuCtxRecordEvent(context->handle, *event);
	if (result == CUDA_SUCCESS)
		result = driver->cuEventQuery(*event);
	if (GM_UNLIKELY(result == CUDA_ERROR_NOT_READY) && pending) {
		*pending = *event;
		*event = NULL;
	}
	return result;
}

/* False: another poll is under way, or was since `word` was read. */
static bool poll_begin(struct gm_poll *poll, uint64_t word)
{
	return word % 2 == 0 && atomic_compare_exchange_strong(&poll->word, &word, word + 1);
}

/* Only the thread that polls changes the word. */
static uint64_t poll_word(const struct gm_poll *poll)
{
	return atomic_load_explicit(&poll->word, memory_order_relaxed);
}

static bool poll_is_wanted(const struct gm_poll *poll)
{
	return atomic_load_explicit(&poll->wanted, memory_order_relaxed) > poll_word(poll) + 1;
}

/* One poll ends, and the next one begins. */
static void poll_next(struct gm_poll *poll, CUresult result)
{
	atomic_store_explicit(&poll->result, result, memory_order_relaxed);
	atomic_fetch_add(&poll->word, 2);
}

static void poll_end(struct gm_poll *poll, CUresult result)
{
	atomic_store_explicit(&poll->result, result, memory_order_relaxed);
	atomic_store_explicit(&poll->word, poll_word(poll) + 1, memory_order_release);
}

/* After poll_begin: the caller's poll, and some for others. */
static CUresult poll_run(const struct gm_driver *driver, struct gm_context *context,
			 CUevent *pending)
{
	struct gm_poll *poll = &context->poll;
	CUresult own = poll_once(driver, context, pending), result = own;
	for (unsigned i = 0; i < FOR_OTHERS && result == CUDA_SUCCESS && poll_is_wanted(poll);
	     i++) {
		poll_next(poll, result);
		result = poll_once(driver, context, NULL);
	}
	poll_end(poll, result);
	return own;
}

static inline void processor_spin(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#elif defined __aarch64__
	__asm__ volatile("yield");
#endif
}

CUresult gm_poll_context(const struct gm_driver *driver, struct gm_context *context,
			 CUevent *pending)
{
	struct gm_poll *poll = &context->poll;
	if (!driver->cuCtxRecordEvent || !atomic_load_explicit(&all_counted, memory_order_relaxed))
		return CUDA_ERROR_NOT_READY;
	if (GM_LIKELY(poll_begin(poll, poll_word(poll))))
		return poll_run(driver, context, pending);
	/* This write precedes the next poll_begin: that poll sees the work that this thread
	 * submitted. */
	uint64_t word = atomic_fetch_add(&poll->word, 0), enough = (word + 1) / 2 * 2 + 2;
	atomic_store_explicit(&poll->wanted, enough, memory_order_relaxed);
	for (unsigned i = 0; i < gm_poll_patience; i++) {
		word = atomic_load(&poll->word);
		if (word >= enough &&
		    atomic_load_explicit(&poll->result, memory_order_relaxed) == CUDA_SUCCESS)
			return CUDA_SUCCESS;
		if (poll_begin(poll, word))
			return poll_run(driver, context, pending);
		if (i > EAGER)
			processor_spin();
	}
	return CUDA_ERROR_NOT_READY;
}

/* --- captures --- */

/* Wait for polls under way; polls that begin from now on see the count of captures. */
static void polls_await(void)
{
	for (struct gm_context *c = gm_context_newest(); c; c = c->next) {
		uint64_t word = atomic_load(&c->poll.word);
		while (word % 2 && atomic_load(&c->poll.word) == word)
			sched_yield();
	}
}

bool gm_poll_captures_are_counted(void)
{
	return atomic_load(&all_counted);
}

void gm_poll_captures_counted(bool all)
{
	atomic_store(&all_counted, all);
	polls_await();
}

void gm_poll_capture_begin(void)
{
	atomic_fetch_add(&gm_poll_captures, 1);
	polls_await();
}

void gm_poll_capture_end(void)
{
	atomic_fetch_sub(&gm_poll_captures, 1);
}

void gm_poll_forget_all(void)
{
	atomic_store_explicit(&gm_poll_captures, 0, memory_order_relaxed);
	atomic_store_explicit(&all_counted, false, memory_order_relaxed);
}
