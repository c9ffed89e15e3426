/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/order.h"

#include <sched.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/thread.h"
#include "context/context.h"
#include "context/order_state.h"
#include "log/count.h"

atomic_bool gm_order_on;
struct gm_order_lane gm_order_lanes[GM_ORDER_LANES];
struct gm_order_state gm_order;

/* --- fences; under the lock --- */

static struct gm_order_fence *fence_new(void)
{
	gm_futex_lock_assert_held(&gm_order.lock);
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
	gm_futex_lock_assert_held(&gm_order.lock);
	f->refs++;
	return f;
}

static struct gm_order_fence *fence_replace(struct gm_order_fence **link, struct gm_order_fence *by)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	struct gm_order_fence *old = *link;
	*link = by ? fence_ref(by) : NULL;
	return old;
}

/* --- fences; no lock is held --- */

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

static bool fence_has_passed(struct gm_order_fence *f, bool wait)
{
	CUresult (*ask)(void *, uint64_t, CUevent) =
		wait ? gm_order.fences->wait_for : gm_order.fences->passed;
	if (atomic_load(&f->passed))
		return true;
	if (ask((void *)gm_order.driver, f->context, f->event) != CUDA_SUCCESS)
		return false;
	if (!atomic_exchange(&f->passed, true))
		gm_order.memory->passed(f->pool, f->context, f->number);
	return true;
}

/* Without an event, which lacks memory for example, the host waits for the work. */
static CUresult fence_await(const struct gm_order_fence *f)
{
	enum gm_fenced fenced = GM_FENCED_PASSED;
	CUresult result =
		gm_order.fences->wait((void *)gm_order.driver, f->context, false, &fenced);
	return fenced == GM_FENCED_LATER ? CUDA_ERROR_NOT_READY : result;
}

/* Record E, and make it the newest. The caller has set `recording`. */
static void fence_record(struct gm_order_fence *f)
{
	struct gm_order_fence *old = NULL;
	CUresult result = gm_order.fences->record((void *)gm_order.driver, f->context, &f->event);
	if (result != CUDA_SUCCESS)
		result = fence_await(f);
	if (result == CUDA_SUCCESS && !f->event) /* nothing can be pending */
		gm_order.memory->passed(f->pool, f->context, f->number);
	else if (!f->event) /* a capture has begun: the next segment covers this memory, too */
		atomic_store(&gm_order.hot, true);
	gm_order_take_lock();
	if (f->event)
		old = fence_replace(&gm_order.newest, f);
	else
		f->refs = 0;
	gm_order.recording = false;
	gm_order_release_lock();
	if (f->event)
		fence_drop(f);
	fence_drop(old);
}

/* Under the lock, which is dropped while another thread records. */
static void recording_await(void)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	while (gm_order.recording) {
		gm_order_release_lock();
		sched_yield();
		gm_order_take_lock();
	}
}

/* End the segment. Afterwards the newest fence covers all memory that is hot, unless an open
 * capture forbids the record; then such memory is not handed out. */
static void segment_end(void)
{
	gm_order_take_lock();
	recording_await();
	struct gm_order_fence *f = NULL;
	while (atomic_load(&gm_order.hot) && !gm_poll_captures_are_open() && !(f = fence_new())) {
		gm_order_release_lock(); /* threads use all the slots for a moment */
		sched_yield();
		gm_order_take_lock();
		recording_await();
	}
	if (f) {
		/* A free that opens the next segment from here on has a later number, or this
		 * event covers it as well. */
		atomic_store(&gm_order.hot, false);
		f->pool = atomic_load(&gm_order.pool);
		f->context = atomic_load(&gm_order.context);
		f->key = f->named = gm_order.key;
		gm_order.recording = true;
	}
	gm_order_release_lock();
	if (!f)
		return;
	f->number = gm_order.memory->number(f->pool);
	fence_record(f);
}

static struct gm_order_fence *newest_ref(void)
{
	gm_order_take_lock();
	struct gm_order_fence *f = gm_order.newest ? fence_ref(gm_order.newest) : NULL;
	gm_order_release_lock();
	return f;
}

static void memory_cool(bool wait)
{
	segment_end();
	struct gm_order_fence *f = newest_ref();
	if (f)
		fence_has_passed(f, wait);
	fence_drop(f);
}

/* --- runs --- */

/* Under the lock. The caller then ends the segment, before the work of another stream. Each
 * submission is noted from now on, for a window may open. */
static void run_end(void)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	atomic_store(&gm_order.run, 0);
	if (atomic_load(&gm_order.word) != GM_ORDER_NONE)
		atomic_store(&gm_order.word, GM_ORDER_MANY);
}

void gm_order_capture_begin(void)
{
	if (!gm_order_is_on())
		return;
	gm_order_take_lock();
	run_end();
	atomic_fetch_add(&gm_order.closing, 1);
	gm_order_release_lock();
	segment_end();
}

void gm_order_capture_begun(void)
{
	if (gm_order_is_on())
		atomic_fetch_sub(&gm_order.closing, 1);
}

/* --- submissions --- */

bool gm_order_enter(uint64_t key)
{
	atomic_fetch_add(&gm_order_lanes[gm_thread_index() % GM_ORDER_LANES].inside, 1);
	return atomic_load(&gm_order.word) == key && !atomic_load(&gm_order.hot);
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

/* Work that a capture collects runs later, at a launch of its graph. */
static bool stream_is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	return gm_poll_captures_are_open() &&
	       (gm_order.driver->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
		status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static void stream_wait(const struct gm_order_stream *stream, struct gm_order_fence *f)
{
	if (stream_is_capturing(stream->handle) || fence_has_passed(f, false))
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
static void word_submit(const struct gm_order_stream *stream)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	uint64_t word = atomic_load(&gm_order.word);
	gm_window_submit(stream);
	if (word == stream->key || word == GM_ORDER_MANY)
		return;
	if (word == GM_ORDER_NONE && stream->context && !gm_order_captures_forbid()) {
		gm_order_run_begin(stream->key, stream->context);
		return;
	}
	run_end();
	atomic_store(&gm_order.word, GM_ORDER_MANY);
}

/* Under the lock: the fence for which the stream has to wait, or NULL. */
static struct gm_order_fence *fence_owed(const struct gm_order_stream *stream, bool programmatic)
{
	gm_futex_lock_assert_held(&gm_order.lock);
	struct gm_order_fence *f = gm_order.newest;
	bool other = !f || f->key != stream->key || stream->key == GM_ORDER_MANY;
	if (!f || !atomic_load(&gm_order.reused) || (!other && !programmatic) ||
	    fence_knows(f, stream->key))
		return NULL;
	return fence_ref(f);
}

void gm_order_submit(const struct gm_order_stream *stream, bool programmatic)
{
	gm_order_take_lock();
	word_submit(stream);
	gm_order_release_lock();
	/* First the run ends, then its last event is recorded, then `reused` is read: a thread
	 * that gets hot memory sets `reused` and then reads the run. */
	segment_end();
	gm_order_take_lock();
	struct gm_order_fence *f = fence_owed(stream, programmatic);
	gm_order_release_lock();
	if (!f)
		return;
	if (stream->key == GM_ORDER_MANY)
		fence_has_passed(f, true);
	else
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
	gm_order_release_lock();
	segment_end();
	gm_order_take_lock();
	if (gm_order.key == key)
		gm_order.key = GM_ORDER_MANY;
	for (unsigned i = 0; i < GM_ORDER_FENCES; i++) {
		struct gm_order_fence *f = &gm_order.fence[i];
		f->n_waited = 0;
		if (f->key == key)
			f->key = GM_ORDER_MANY;
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

static enum gm_order_free free_judge(uint64_t context, uint64_t *run)
{
	uint64_t now = atomic_load(&gm_order.run), word = atomic_load(&gm_order.word),
		 its = atomic_load(&gm_order.context);
	if (!order_allows())
		return GM_ORDER_OFF;
	if (gm_order_captures_forbid())
		return GM_ORDER_CAPTURE;
	if (word == GM_ORDER_NONE)
		return GM_ORDER_EARLY;
	if (!now || word == GM_ORDER_MANY || atomic_load(&gm_order.run) != now)
		return GM_ORDER_STREAMS;
	if (its != context)
		return GM_ORDER_CONTEXT;
	*run = now;
	return GM_ORDER_EARLY;
}

static enum gm_order_free order_free(uint64_t context, uint64_t *run)
{
	*run = 0;
	enum gm_order_free why = free_judge(context, run);
	if (why == GM_ORDER_STREAMS && gm_window_try())
		why = free_judge(context, run);
	return why;
}

/* Most frees and allocations find the flags set: threads that share only a stream write no common
 * cache line. */
static void order_heat(void *pool)
{
	if (atomic_load(&gm_order.pool) != pool)
		atomic_store(&gm_order.pool, pool);
	if (!atomic_load(&gm_order.hot))
		atomic_store(&gm_order.hot, true);
}

static bool order_take(uint64_t run)
{
	if (!atomic_load(&gm_order.reused))
		atomic_store(&gm_order.reused, true);
	return atomic_load(&gm_order.run) == run;
}

/* --- streams that wait for long --- */

uint64_t gm_order_suspect_next(void)
{
	uint64_t next = UINT64_MAX;
	if (!gm_order_is_on())
		return next;
	gm_order_take_lock();
	const struct gm_order_fence *f = gm_order.newest;
	if (f && f->since && !f->reported && !atomic_load(&f->passed))
		next = f->since + GM_ORDER_SUSPECT;
	gm_order_release_lock();
	return next;
}

void gm_order_suspect(uint64_t now)
{
	if (gm_order_suspect_next() > now)
		return;
	gm_order_take_lock();
	struct gm_order_fence *f = gm_order.newest;
	bool first = f && !f->reported;
	if (first)
		fence_ref(f)->reported = true;
	gm_order_release_lock();
	if (!first)
		return;
	if (!fence_has_passed(f, false))
		gm_msg(GM_MSG_WARN,
		       "GPUMEM_FREE=ordered: stream 0x%llx has waited 10 s for stream 0x%llx; if "
		       "one of them waits for the other, run the program with GPUMEM_FREE=defer",
		       (unsigned long long)f->waiter, (unsigned long long)f->named);
	fence_drop(f);
}

/* --- begin and end --- */

static const struct gm_order_ops ops = {.free = order_free,
					.heat = order_heat,
					.take = order_take,
					.run = &gm_order.run,
					.cool = memory_cool};

const struct gm_order_ops *gm_order_start(const struct gm_driver *driver,
					  const struct gm_order_memory *memory, bool (*may)(void))
{
	const struct gm_fence_ops *fences = gm_fence_ops(driver);
	if (!fences->record)
		return NULL;
	gm_futex_lock_init(&gm_order.lock, GM_LOCK_RANK_TABLE);
	gm_order.driver = driver;
	gm_order.fences = fences;
	gm_order.memory = memory;
	gm_order.may = may;
	gm_order.window.pause = 1;
	atomic_store(&gm_order_on, true);
	forbid_report();
	return &ops;
}

void gm_order_context_gone(uint64_t context)
{
	struct gm_order_fence *old = NULL;
	if (!gm_order_is_on())
		return;
	gm_order_take_lock();
	recording_await();
	if (gm_order.newest && gm_order.newest->context == context)
		old = fence_replace(&gm_order.newest, NULL);
	if (atomic_load(&gm_order.word) != GM_ORDER_MANY &&
	    atomic_load(&gm_order.context) == context) {
		gm_order_run_begin(GM_ORDER_NONE, 0);
		atomic_store(&gm_order.pool, NULL);
		atomic_store(&gm_order.hot, false);
	}
	if (gm_order.window.open)
		gm_window_close();
	gm_order_release_lock();
	fence_drop(old);
}

void gm_order_forget(void)
{
	atomic_store(&gm_order_on, false);
	for (unsigned i = 0; i < GM_ORDER_LANES; i++)
		atomic_store(&gm_order_lanes[i].inside, 0);
	atomic_store(&gm_order.off, false);
	gm_futex_lock_init(&gm_order.lock, GM_LOCK_RANK_TABLE);
	gm_order_take_lock();
	gm_order_run_begin(GM_ORDER_NONE, 0);
	gm_order_release_lock();
	atomic_store(&gm_order.pool, NULL);
	atomic_store(&gm_order.hot, false);
	atomic_store(&gm_order.closing, 0);
	gm_order.recording = false;
	for (unsigned i = 0; i < GM_ORDER_FENCES; i++)
		gm_order.fence[i] = (struct gm_order_fence){0};
	gm_order.newest = NULL;
	gm_window_forget();
}

uint64_t gm_order_sole(void)
{
	return atomic_load(&gm_order.word);
}
