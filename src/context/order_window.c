/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: do several streams have work, or only one again? See order.h. */
#include "context/order_state.h"

#define PAUSE 64 /* frees from one window to the next, at most */

static atomic_bool busy; /* a thread opens or polls a window */

void gm_window_close(void)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	gm_order.window.open = false;
	gm_order.window.pause = gm_order.window.pause < PAUSE ? 2 * gm_order.window.pause : PAUSE;
}

static void window_cancel(void)
{
	gm_order_take_lock();
	if (gm_order.window.open)
		gm_window_close();
	gm_order_release_lock();
}

static void window_begin(void)
{
	gm_order_take_lock();
	/* A free that saw a run begin comes here, too; submissions to its stream are not noted. */
	bool may = atomic_load(&gm_order.word) == GM_ORDER_MANY && !gm_order_captures_forbid();
	gm_order.window.open = may;
	gm_order.window.key = GM_ORDER_NONE;
	gm_order_release_lock();
	if (!may)
		return;
	/* A thread that is not counted inside here has submitted its work before, or will note
	 * it. */
	bool quiet = true;
	for (unsigned i = 0; i < GM_ORDER_LANES; i++)
		quiet = quiet && !atomic_load(&gm_order_lanes[i].inside);
	if (!quiet || gm_everywhere_record(gm_order.fences, (void *)gm_order.driver,
					   &gm_order.window.all) != CUDA_SUCCESS)
		window_cancel();
}

/* The window has passed. Under the lock. */
static void window_end(void)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	struct gm_order_window *w = &gm_order.window;
	w->open = false;
	w->pause = 1;
	gm_order_run_begin(w->key, w->context);
}

static bool window_ask(void)
{
	struct gm_order_window *w = &gm_order.window;
	void *driver = (void *)gm_order.driver;
	const bool all = gm_everywhere_passed(gm_order.fences, driver, &w->all) == CUDA_SUCCESS;
	gm_order_take_lock();
	if (w->open && gm_order_captures_forbid())
		gm_window_close();
	const bool open = w->open, passed = open && all;
	if (passed)
		window_end();
	gm_order_release_lock();
	if (!open)
		gm_everywhere_drop(gm_order.fences, driver, &w->all);
	return passed;
}

bool gm_window_try(void)
{
	if (atomic_exchange(&busy, true))
		return false;
	gm_order_take_lock();
	bool asks = gm_order.window.open || gm_order.window.all.n;
	bool begins = !asks && ++gm_order.window.tries >= gm_order.window.pause;
	if (begins)
		gm_order.window.tries = 0;
	gm_order_release_lock();
	if (begins)
		window_begin();
	bool passed = (begins || asks) && window_ask();
	atomic_store(&busy, false);
	return passed;
}

void gm_window_submit(const struct gm_order_stream *stream)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	struct gm_order_window *w = &gm_order.window;
	if (!w->open || w->key == stream->key)
		return;
	if (w->key != GM_ORDER_NONE || !stream->context) {
		gm_window_close();
		return;
	}
	w->key = stream->key;
	w->context = stream->context;
}

void gm_window_forget(void)
{
	atomic_store(&busy, false);
	gm_order.window = (struct gm_order_window){.pause = 1};
}
