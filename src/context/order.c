/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/order.h"

#include "base/clock.h"
#include "base/msg.h"
#include "base/sys.h"
#include "base/thread.h"
#include "context/context.h"
#include "context/order_state.h"
#include "log/count.h"

#define NAP 50000u /* ns between two polls by an allocation that waits */

atomic_bool gm_order_on;
struct gm_order_lane gm_order_lanes[GM_ORDER_LANES];
struct gm_order_state gm_order;

/* --- fences; under the lock --- */

static struct gm_order_fence *fence_new(void)
{
	for (struct gm_order_fence *f = gm_order.fence; f < gm_order.fence + GM_ORDER_FENCES; f++) {
		if (f->refs)
			continue;
		*f = (struct gm_order_fence){.refs = 1};
		return f;
	}
	return NULL;
}

static struct gm_order_fence *fence_ref(struct gm_order_fence *f)
{
	f->refs++;
	return f;
}

/* No lock is held. */
static void fence_drop(struct gm_order_fence *f)
{
	CUevent event = NULL;
	if (!f)
		return;
	gm_order_take_lock();
	uint64_t context = f->context;
	if (f->refs == 1)
		event = f->event;
	else
		f->refs--;
	gm_order_release_lock();
	if (!event)
		return;
	gm_order.fences->drop((void *)gm_order.driver, context, event);
	gm_order_take_lock();
	f->refs = 0;
	gm_order_release_lock();
}

static struct gm_order_fence *fence_replace(struct gm_order_fence **link, struct gm_order_fence *by)
{
	struct gm_order_fence *old = *link;
	*link = by ? fence_ref(by) : NULL;
	return old;
}

/* --- fences; no lock is held --- */

static bool fence_has_passed(struct gm_order_fence *f, bool wait)
{
	CUresult (*ask)(void *, uint64_t, CUevent) =
		wait ? gm_order.fences->wait_for : gm_order.fences->passed;
	if (f->stamp <= atomic_load(&gm_order.cooled))
		return true;
	if (ask((void *)gm_order.driver, f->context, f->event) != CUDA_SUCCESS)
		return false;
	gm_order_take_lock();
	gm_order_raise(&gm_order.cooled, f->stamp);
	gm_order_release_lock();
	return true;
}

/* Record a fence behind the work that may use memory freed so far; the caller owns it. NULL: no
 * event can be recorded now. */
static struct gm_order_fence *fence_record(void)
{
	gm_order_take_lock();
	struct gm_order_fence *f = fence_new();
	uint64_t context = gm_order.hot_context, stamp = atomic_load(&gm_order.freed),
		 key = atomic_load(&gm_order.word);
	gm_order_release_lock();
	if (!f)
		return NULL;
	CUevent event = NULL;
	CUresult result = gm_order.fences->record((void *)gm_order.driver, context, &event);
	gm_order_take_lock();
	f->event = event;
	f->context = context;
	f->stamp = stamp;
	f->key = f->named = key;
	if (result == CUDA_SUCCESS && !event) /* nothing can be pending */
		gm_order_raise(&gm_order.cooled, stamp);
	if (!event)
		f->refs = 0;
	gm_order_release_lock();
	return event ? f : NULL;
}

/* --- captures --- */

void gm_order_capture_begin(void)
{
	if (!gm_order_is_on())
		return;
	gm_order_take_lock();
	gm_order.closing++;
	gm_order_release_lock();
	gm_order_cool();
}

void gm_order_capture_begun(void)
{
	if (!gm_order_is_on())
		return;
	gm_order_take_lock();
	gm_order.closing--;
	gm_order_release_lock();
}

/* --- hot memory --- */

static bool memory_is_hot(void)
{
	return atomic_load(&gm_order.freed) > atomic_load(&gm_order.cooled);
}

static void memory_cool(bool wait)
{
	if (!memory_is_hot())
		return;
	gm_order_take_lock();
	bool covered = gm_order.last && gm_order.last->stamp == atomic_load(&gm_order.freed);
	struct gm_order_fence *f = covered ? fence_ref(gm_order.last) : NULL, *old = NULL;
	gm_order_release_lock();
	if (!f)
		f = fence_record();
	if (!f)
		return;
	gm_order_take_lock();
	if (!gm_order.last || gm_order.last->stamp < f->stamp)
		old = fence_replace(&gm_order.last, f);
	gm_order_release_lock();
	fence_drop(old);
	fence_has_passed(f, wait);
	fence_drop(f);
}

void gm_order_cool(void)
{
	if (gm_order_is_on())
		memory_cool(true);
}

/* --- submissions --- */

bool gm_order_enter(uint64_t key)
{
	atomic_fetch_add(&gm_order_lanes[gm_thread_index() % GM_ORDER_LANES].inside, 1);
	return atomic_load(&gm_order.word) == key;
}

void gm_order_leave(void)
{
	atomic_fetch_sub(&gm_order_lanes[gm_thread_index() % GM_ORDER_LANES].inside, 1);
}

static bool fence_knows(const struct gm_order_fence *f, uint64_t key)
{
	for (unsigned i = 0; i < f->n_waited && i < GM_ORDER_WAITED; i++)
		if (f->waited[i] == key)
			return true;
	return false;
}

static void stream_wait(const struct gm_order_stream *stream, struct gm_order_fence *f)
{
	if (fence_has_passed(f, false))
		return;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(gm_order.driver);
	CUresult result = gm_order.driver->cuStreamWaitEvent(stream->handle, f->event, 0);
	gm_driver_quiet_end(gm_order.driver, mode);
	if (result != CUDA_SUCCESS) {
		fence_has_passed(f, true);
		return;
	}
	gm_counter_add(0, GM_C_ordered_waits, 1);
	gm_order_take_lock();
	f->waited[f->n_waited++ % GM_ORDER_WAITED] = stream->key;
	if (!f->since) {
		f->since = gm_clock_ns();
		f->waiter = stream->key;
	}
	gm_order_release_lock();
}

/* Under the lock. */
static void run_end(void)
{
	gm_order.run++;
	atomic_store(&gm_order.word, GM_ORDER_MANY);
}

void gm_order_submit(const struct gm_order_stream *stream, bool programmatic)
{
	struct gm_order_fence *f = NULL;
	gm_order_take_lock();
	uint64_t word = atomic_load(&gm_order.word);
	gm_window_submit(stream);
	if (word == GM_ORDER_NONE && stream->context) {
		gm_order.context = stream->context;
		atomic_store(&gm_order.word, stream->key);
	} else if (word != stream->key && word != GM_ORDER_MANY) {
		run_end();
	}
	if (gm_order.owed && (gm_order.owed->key != stream->key || programmatic) &&
	    !fence_knows(gm_order.owed, stream->key))
		f = fence_ref(gm_order.owed);
	gm_order_release_lock();
	if (!f)
		return;
	stream_wait(stream, f);
	fence_drop(f);
}

void gm_order_stream_ends(CUstream handle)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	gm_order_take_lock();
	if (atomic_load(&gm_order.word) == key)
		run_end();
	if (gm_order.window.open && gm_order.window.key == key)
		gm_window_close();
	if (gm_order.owed) {
		gm_order.owed->n_waited = 0;
		if (gm_order.owed->key == key)
			gm_order.owed->key = GM_ORDER_MANY;
	}
	gm_order_release_lock();
}

/* --- frees and allocations --- */

static void forbid_report(void)
{
	const char *name = atomic_load(&gm_order.name);
	if (name && gm_order_is_on())
		GM_MSG_ONCE(GM_MSG_WARN, "GPUMEM_FREE=ordered acts as defer: %s %s", name,
			    gm_order.why);
}

void gm_order_forbid(const char *name, const char *why)
{
	if (atomic_exchange(&gm_order.off, true))
		return;
	gm_order.why = why;
	atomic_store(&gm_order.name, name);
	forbid_report();
}

static bool order_allows(void)
{
	return !atomic_load_explicit(&gm_order.off, memory_order_relaxed) && gm_order.may();
}

/* Under the lock. */
static enum gm_order_free free_judge(uint64_t context)
{
	uint64_t word = atomic_load(&gm_order.word);
	if (gm_order_captures_forbid())
		return GM_ORDER_CAPTURE;
	if (word == GM_ORDER_MANY || (memory_is_hot() && gm_order.hot_run != gm_order.run))
		return GM_ORDER_STREAMS;
	if (word == GM_ORDER_NONE)
		return GM_ORDER_EARLY;
	if (gm_order.context != context)
		return GM_ORDER_CONTEXT;
	gm_order.hot_run = gm_order.run;
	gm_order.hot_context = context;
	atomic_fetch_add(&gm_order.freed, 1);
	return GM_ORDER_EARLY;
}

static enum gm_order_free order_free(uint64_t context)
{
	if (!order_allows())
		return GM_ORDER_OFF;
	gm_order_take_lock();
	enum gm_order_free why = free_judge(context);
	gm_order_release_lock();
	if (why == GM_ORDER_STREAMS)
		gm_window_try();
	return why;
}

/* Under the lock. True: hot memory may be handed out now, once a fence covers it. */
static bool run_goes_on(void)
{
	uint64_t word = atomic_load(&gm_order.word);
	return word != GM_ORDER_MANY && gm_order.run == gm_order.hot_run &&
	       !gm_order_captures_forbid();
}

/* True: E covers all hot memory, if any, and other streams wait for E. */
static bool take_early(void)
{
	gm_order_take_lock();
	bool goes_on = run_goes_on();
	bool covered = gm_order.owed && gm_order.owed->stamp == atomic_load(&gm_order.freed);
	gm_order_release_lock();
	if (!goes_on || covered)
		return goes_on;
	struct gm_order_fence *f = fence_record(), *old[2] = {NULL};
	if (!f)
		return !memory_is_hot();
	gm_order_take_lock();
	/* A stream that submitted work since the record has not waited for this fence. */
	goes_on = run_goes_on() && f->key == atomic_load(&gm_order.word);
	if (goes_on && (!gm_order.owed || gm_order.owed->stamp < f->stamp)) {
		old[0] = fence_replace(&gm_order.owed, f);
		old[1] = fence_replace(&gm_order.last, f);
	}
	gm_order_release_lock();
	fence_drop(old[0]);
	fence_drop(old[1]);
	fence_drop(f);
	return goes_on;
}

static bool take_waiting(void)
{
	uint64_t all = atomic_load(&gm_order.freed), until = gm_clock_ns() + GM_ORDER_PATIENCE;
	while (true) {
		memory_cool(false);
		if (atomic_load(&gm_order.cooled) >= all)
			return true;
		gm_order_take_lock();
		bool over = gm_order.given_up >= all || gm_clock_ns() > until;
		if (over && gm_order.given_up < all)
			gm_order.given_up = all;
		gm_order_release_lock();
		if (over)
			return false;
		gm_sys_nap(NAP);
	}
}

static uint64_t order_take(void)
{
	if (!memory_is_hot() || (order_allows() && take_early()) || take_waiting())
		return 0;
	gm_order_take_lock();
	uint64_t context = gm_order.hot_context;
	gm_order_release_lock();
	return context;
}

/* --- streams that wait for long --- */

uint64_t gm_order_suspect_next(void)
{
	uint64_t next = UINT64_MAX;
	if (!gm_order_is_on())
		return next;
	gm_order_take_lock();
	const struct gm_order_fence *f = gm_order.owed;
	if (f && f->since && !f->reported && f->stamp > atomic_load(&gm_order.cooled))
		next = f->since + GM_ORDER_SUSPECT;
	gm_order_release_lock();
	return next;
}

void gm_order_suspect(uint64_t now)
{
	struct gm_order_fence *f = NULL;
	if (gm_order_suspect_next() > now)
		return;
	gm_order_take_lock();
	if (gm_order.owed) {
		f = fence_ref(gm_order.owed);
		f->reported = true;
	}
	gm_order_release_lock();
	if (f && !fence_has_passed(f, false))
		gm_msg(GM_MSG_WARN,
		       "GPUMEM_FREE=ordered: stream 0x%llx has waited 10 s for stream 0x%llx; if "
		       "one of "
		       "them waits for the other, run the program with GPUMEM_FREE=defer",
		       (unsigned long long)f->waiter, (unsigned long long)f->named);
	fence_drop(f);
}

/* --- begin and end --- */

static const struct gm_order_ops ops = {
	.free = order_free, .take = order_take, .is_hot = memory_is_hot, .cool = memory_cool};

const struct gm_order_ops *gm_order_start(const struct gm_driver *driver, bool (*may)(void))
{
	const struct gm_fence_ops *fences = gm_fence_ops(driver);
	if (!fences->record)
		return NULL;
	gm_futex_lock_init(&gm_order.lock, GM_LOCK_RANK_TABLE);
	gm_order.driver = driver;
	gm_order.fences = fences;
	gm_order.may = may;
	gm_order.window.pause = 1;
	atomic_store(&gm_order_on, true);
	forbid_report();
	return &ops;
}

void gm_order_context_gone(uint64_t context)
{
	struct gm_order_fence *old[2] = {NULL};
	if (!gm_order_is_on())
		return;
	gm_order_take_lock();
	if (gm_order.hot_context == context)
		gm_order_raise(&gm_order.cooled, atomic_load(&gm_order.freed));
	if (gm_order.owed && gm_order.owed->context == context)
		old[0] = fence_replace(&gm_order.owed, NULL);
	if (gm_order.last && gm_order.last->context == context)
		old[1] = fence_replace(&gm_order.last, NULL);
	if (atomic_load(&gm_order.word) != GM_ORDER_MANY && gm_order.context == context) {
		gm_order.run++;
		atomic_store(&gm_order.word, GM_ORDER_NONE);
	}
	if (gm_order.window.open)
		gm_window_close();
	gm_order_release_lock();
	fence_drop(old[0]);
	fence_drop(old[1]);
}

void gm_order_forget(void)
{
	atomic_store(&gm_order_on, false);
	for (unsigned i = 0; i < GM_ORDER_LANES; i++)
		atomic_store(&gm_order_lanes[i].inside, 0);
	atomic_store(&gm_order.off, false);
	atomic_store(&gm_order.word, GM_ORDER_NONE);
	atomic_store(&gm_order.freed, 0);
	atomic_store(&gm_order.cooled, 0);
	gm_order.run = gm_order.context = gm_order.hot_run = gm_order.hot_context =
		gm_order.given_up = 0;
	gm_order.closing = 0;
	for (unsigned i = 0; i < GM_ORDER_FENCES; i++)
		gm_order.fence[i] = (struct gm_order_fence){0};
	gm_order.owed = gm_order.last = NULL;
	gm_window_forget();
}

uint64_t gm_order_sole(void)
{
	return atomic_load(&gm_order.word);
}
