/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/kernel/inkernel.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/msg.h"
#include "base/sys.h"
#include "knob/knob.h"
#include "residency/door.h"
#include "shim/context/capture.h"
#include "shim/foreign/graph.h"
#include "shim/idle/trim.h"
#include "shim/kernel/heaplimit.h"
#include "shim/kernel/inkernel_log.h"
#include "shim/kernel/watched.h"
#include "shim/memory/device.h"
#include "takeover/helper.h"

/* The longest wait of a thread that needs a context for the thread that takes it over. The wait is
 * bounded: that thread waits for the GPU, where a kernel may be waiting for this one. */
#define PATIENCE UINT64_C(2000000000)	     /* ns */
#define UNLOAD_PATIENCE UINT64_C(1000000000) /* ns */
#define NAP 100000			     /* ns */

/* A list that only grows, at its head, under the lock; read without the lock. */
static _Atomic(struct gm_inkernel *) all;
static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_SHIM);
static GM_TLS struct gm_inkernel *recent;
static atomic_bool second_wanted;

bool gm_inkernel_wanted(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	return knobs->mode.choice == GM_MODE_POOL && gm_heap_wanted(knobs);
}

/* --- the list --- */

static struct gm_inkernel *inkernel_find(uint64_t key)
{
	struct gm_inkernel *h = recent;
	if (h && h->key == key)
		return h;
	h = atomic_load_explicit(&all, memory_order_acquire);
	while (h && h->key != key)
		h = h->next;
	if (h)
		recent = h;
	return h;
}

struct gm_inkernel *gm_inkernel_known(struct gm_context *context)
{
	struct gm_inkernel *h = inkernel_find(context->key);
	if (h)
		return h;
	gm_lock_take(&lock);
	h = inkernel_find(context->key);
	if (!h && (h = calloc(1, sizeof *h))) {
		h->key = context->key;
		h->context = context;
		h->next = atomic_load_explicit(&all, memory_order_relaxed);
		atomic_store_explicit(&all, h, memory_order_release);
	}
	gm_lock_release(&lock);
	return h;
}

enum gm_inkernel_state gm_inkernel_state(const struct gm_inkernel *h)
{
	return atomic_load_explicit(&h->state, memory_order_acquire);
}

static struct gm_heap_host *inkernel_heap(const struct gm_inkernel *h)
{
	return h && gm_inkernel_state(h) == GM_INKERNEL_TAKEN ? h->heap : NULL;
}

/* --- taking over --- */

static void guard_set(bool up)
{
	gm_shim_inside = up;
}

static void test_launch(void *heap, CUstream stream)
{
	gm_heap_launch(heap, stream, NULL);
}

static void test_launched(void *heap, CUstream stream, bool launched)
{
	gm_heap_launched(heap, stream, launched, NULL);
}

/* The limit of the heap: at least the program's own, unless the user set GPUMEM_HEAP_LIMIT. */
static uint64_t heap_limit(struct gm_inkernel *h)
{
	const struct gm_knobs *knobs = gm_knob_get();
	uint64_t limit = gm_heap_limit(knobs, gm_shim_devices[h->context->ordinal].total);
	uint64_t asked = atomic_load(&h->limit);
	bool set = gm_knob_origin(GM_KNOB_ID_heap_limit).source != GM_KNOB_DEFAULT;
	return asked > limit && !set ? asked : limit;
}

static bool site_find(const struct gm_heap_site *site, struct gm_image_place *out)
{
	return gm_places_find(site->address, site->code, GM_HEAP_SITE_WORDS / 2, out);
}

static bool heap_make(struct gm_inkernel *h)
{
	const struct gm_knobs *knobs = gm_knob_get();
	const struct gm_heap_config config = {
		.driver = &gm_shim_driver,
		.pool = gm_shim_pool(h->context->ordinal),
		.context = h->context,
		.policy = gm_heap_wanted(knobs),
		.limit = heap_limit(h),
		.sites = knobs->heap_sites.flag,
		.site_find = site_find,
		.image = gm_heap_image(gm_heap_wanted(knobs)),
		.guard = guard_set,
		.trim_after = knobs->trim_after.trim.after,
		.idle = gm_trim_heap_idle,
	};
	if (config.pool)
		h->report.result = gm_heap_create(&config, &h->heap);
	return config.pool && h->report.result == CUDA_SUCCESS;
}

/* `first`: the report of the first takeover, for the second one. */
static struct gm_takeover_config takeover_config(const struct gm_inkernel *h,
						 const struct gm_takeover_report *first)
{
	int processors = 0;
	gm_shim_driver.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					    h->context->device);
	const unsigned blocks = processors > 0 ? 2 * (unsigned)processors : 1;
	return (struct gm_takeover_config){
		.driver = &gm_shim_driver,
		.images = gm_takeover_images(gm_heap_policy_of(h->heap)),
		.heap = gm_heap_device(h->heap),
		.sites = gm_heap_has_sites(h->heap),
		.blocks = blocks < GM_HELPER_BLOCKS ? blocks : GM_HELPER_BLOCKS,
		.launch = test_launch,
		.launched = test_launched,
		.arg = h->heap,
		.first = first,
	};
}

/* No code of gpumem runs on this device: its first module, the heap's, was refused. */
static bool result_is_of_image(CUresult result)
{
	return result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE;
}

/* The calls of the takeover's test do not count. */
static void sites_begin(struct gm_inkernel *h)
{
	if (h->report.end != GM_TAKEOVER_TAKEN)
		return;
	gm_heap_sites_begin(h->heap, h->report.sited);
	if (gm_knob_get()->heap_sites.flag && !h->report.sited)
		gm_msg(GM_MSG_NOTICE,
		       "device %u: no counts of malloc in kernels by place (GPUMEM_HEAP_SITES)",
		       h->context->ordinal);
}

/* The context is current. */
static enum gm_takeover_end inkernel_take_over(struct gm_inkernel *h)
{
	if (gm_watched())
		return GM_TAKEOVER_WATCHED;
	if (!gm_takeover_images(0).empty)
		return GM_TAKEOVER_NO_HELPER;
	gm_inkernel_limit_keep(h);
	uint64_t start = gm_clock_ns();
	if (!heap_make(h))
		return result_is_of_image(h->report.result) ? GM_TAKEOVER_NO_LOAD
							    : GM_TAKEOVER_NO_HEAP;
	h->made = gm_clock_ns() - start;
	const struct gm_takeover_config config = takeover_config(h, NULL);
	if (!gm_takeover(&config, &h->report) && h->report.end != GM_TAKEOVER_BROKEN) {
		gm_heap_destroy(h->heap);
		h->heap = NULL;
	}
	sites_begin(h);
	return h->report.end;
}

static enum gm_takeover_end inkernel_take_second(struct gm_inkernel *h)
{
	const struct gm_takeover_config config = takeover_config(h, &h->report);
	gm_takeover(&config, &h->second_report);
	return h->second_report.end;
}

/* Call `take` for a report of `h` with the context current. */
static void inkernel_in_context(struct gm_inkernel *h, struct gm_takeover_report *report,
				enum gm_takeover_end (*take)(struct gm_inkernel *h))
{
	CUcontext popped;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	report->end = GM_TAKEOVER_DRIVER;
	report->result = gm_shim_driver.cuCtxPushCurrent_v2(h->context->handle);
	if (report->result == CUDA_SUCCESS) {
		report->end = take(h);
		gm_shim_driver.cuCtxPopCurrent_v2(&popped);
	}
	gm_driver_quiet_end(&gm_shim_driver, mode);
}

/* True: no fault, but the configuration, or no code of gpumem for this device. */
static bool report_is_expected(const struct gm_takeover_report *r)
{
	return r->end <= GM_TAKEOVER_NO_HELPER || result_is_of_image(r->result) ||
	       r->result == CUDA_ERROR_NOT_SUPPORTED;
}

static void report_print(const struct gm_inkernel *h, const struct gm_takeover_report *r)
{
	static bool said[2][GM_TAKEOVER_ENDS];
	bool second = r == &h->second_report, ours = r->end == GM_TAKEOVER_TAKEN;
	enum gm_msg_level level = ours			  ? GM_MSG_INFO
				  : report_is_expected(r) ? GM_MSG_NOTICE
							  : GM_MSG_WARN;
	const char *of = second ? ", in code that launches graphs or kernels," : "";
	if (!gm_msg_first(&said[second][r->end]))
		return;
	if (ours)
		gm_msg(level, "device %u: %s%s", h->context->ordinal, gm_takeover_text(r->end),
		       second ? ", too, in code that launches graphs or kernels" : "");
	else
		gm_msg(level, "device %u: malloc in kernels%s stays the driver's: %s%s%s (%s)",
		       h->context->ordinal, of, gm_takeover_text(r->end), r->step ? ", while " : "",
		       r->step ? r->step : "", gm_driver_error(&gm_shim_driver, r->result));
}

static enum gm_inkernel_state report_state(const struct gm_takeover_report *report)
{
	return report->end == GM_TAKEOVER_TAKEN ? GM_INKERNEL_TAKEN : GM_INKERNEL_NATIVE;
}

static void inkernel_decide(struct gm_inkernel *h)
{
	uint64_t start = gm_clock_ns();
	inkernel_in_context(h, &h->report, inkernel_take_over);
	h->took = gm_clock_ns() - start;
	if (report_state(&h->report) == GM_INKERNEL_NATIVE)
		gm_inkernel_limit_restore(h);
	atomic_store_explicit(&h->state, report_state(&h->report), memory_order_release);
	report_print(h, &h->report);
	gm_inkernel_log(h);
}

static void inkernel_decide_second(struct gm_inkernel *h)
{
	uint64_t start = gm_clock_ns();
	inkernel_in_context(h, &h->second_report, inkernel_take_second);
	report_print(h, &h->second_report);
	gm_inkernel_log_second(h, gm_clock_ns() - start);
	atomic_store_explicit(&h->second, report_state(&h->second_report), memory_order_release);
}

/* Decide, or wait for the thread that decides. */
static void inkernel_decide_once(struct gm_inkernel *h, _Atomic(enum gm_inkernel_state) *state,
				 void (*decide)(struct gm_inkernel *h))
{
	enum gm_inkernel_state undecided = GM_INKERNEL_UNDECIDED;
	if (atomic_compare_exchange_strong(state, &undecided, GM_INKERNEL_DECIDING)) {
		decide(h);
		return;
	}
	for (uint64_t end = gm_clock_ns() + PATIENCE;
	     atomic_load_explicit(state, memory_order_acquire) == GM_INKERNEL_DECIDING &&
	     gm_clock_ns() < end;)
		gm_sys_nap(NAP);
}

static bool second_is_due(const struct gm_inkernel *h)
{
	return atomic_load_explicit(&second_wanted, memory_order_relaxed) &&
	       gm_inkernel_state(h) == GM_INKERNEL_TAKEN &&
	       atomic_load_explicit(&h->second, memory_order_acquire) <= GM_INKERNEL_DECIDING;
}

static void inkernel_use(struct gm_inkernel *h)
{
	inkernel_decide_once(h, &h->state, inkernel_decide);
	if (second_is_due(h))
		inkernel_decide_once(h, &h->second, inkernel_decide_second);
}

void gm_inkernel_want_second(void)
{
	atomic_store(&second_wanted, true);
}

/* Not while captures are open: registering the mailbox or setting the limit would end them (driver
 * 580). A graph captured now is launched later, and its launch calls this again. Kernels of ours
 * run in memory of the pool, so not while it moves (residency/door.h). */
void gm_inkernel_use(struct gm_context *context)
{
	struct gm_inkernel *h = gm_inkernel_known(context);
	if (!h || (gm_inkernel_state(h) > GM_INKERNEL_DECIDING && !second_is_due(h)) ||
	    gm_capture_any() || gm_door_enter() != CUDA_SUCCESS)
		return;
	inkernel_use(h);
	gm_door_leave();
}

/* --- launches --- */

struct gm_heap_host *gm_inkernel_before_launch(CUstream stream, const char *kernel)
{
	uint64_t ignored;
	struct gm_context *context = gm_shim_context_of_stream(stream);
	if (!context)
		return NULL;
	gm_inkernel_use(context);
	struct gm_inkernel *h = inkernel_find(context->key);
	struct gm_heap_host *heap = inkernel_heap(h);
	if (!heap || gm_graph_captured(stream, &ignored))
		return NULL;
	atomic_store_explicit(&h->launched, true, memory_order_relaxed);
	gm_heap_launch(heap, stream, kernel);
	return heap;
}

void gm_inkernel_after_launch(struct gm_heap_host *heap, CUstream stream, CUresult result,
			      const char *kernel)
{
	gm_heap_launched(heap, stream, result == CUDA_SUCCESS, kernel);
}

/* --- memory that heaps no longer use --- */

#define ANY UINT_MAX

/*
 * A walk over the heaps of one device, or of ANY. *at is NULL at its begin and at its end. The
 * context of a heap cannot end before the next step; a caller that stops before the end of the walk
 * calls gm_context_leave for (*at)->context.
 */
static struct gm_heap_host *heap_next(struct gm_inkernel **at, unsigned ordinal)
{
	struct gm_heap_host *heap = NULL;
	struct gm_inkernel *h = *at;
	if (h)
		gm_context_leave(h->context);
	for (h = h ? h->next : atomic_load_explicit(&all, memory_order_acquire); h; h = h->next) {
		if ((ordinal != ANY && h->context->ordinal != ordinal) ||
		    gm_inkernel_state(h) != GM_INKERNEL_TAKEN || !gm_context_enter(h->context))
			continue;
		heap = inkernel_heap(h);
		if (heap)
			break;
		gm_context_leave(h->context);
	}
	*at = h;
	return heap;
}

uint64_t gm_inkernel_reclaim(unsigned ordinal, uint64_t bytes)
{
	(void)bytes;
	uint64_t given = 0;
	struct gm_heap_host *heap;
	for (struct gm_inkernel *at = NULL; (heap = heap_next(&at, ordinal));)
		given += gm_heap_trim(heap);
	return given;
}

uint64_t gm_inkernel_trim(uint64_t now)
{
	uint64_t given = 0;
	struct gm_heap_host *heap;
	struct gm_inkernel *at = NULL;
	while (!given && !gm_capture_any() && (heap = heap_next(&at, ANY)))
		given = gm_heap_trim_idle(heap, now);
	if (at)
		gm_context_leave(at->context);
	return given;
}

uint64_t gm_inkernel_trim_next(void)
{
	uint64_t next = UINT64_MAX;
	struct gm_heap_host *heap;
	for (struct gm_inkernel *at = NULL; (heap = heap_next(&at, ANY));) {
		uint64_t due = gm_heap_trim_next(heap);
		next = due < next ? due : next;
	}
	return next;
}

/* --- end of contexts --- */

void gm_inkernel_context_ending(const struct gm_context *context, bool surely)
{
	struct gm_heap_host *heap = context ? inkernel_heap(inkernel_find(context->key)) : NULL;
	gm_inkernel_sample_last(context, surely);
	if (heap)
		gm_heap_context_ending(heap);
}

/* Wait for the kernels of a context, for UNLOAD_PATIENCE at most. The driver's unload of a module
 * waits for them, too, and that of a library where the context has it (580). Bounded, since a
 * kernel may wait for this thread. */
static bool work_ends(const struct gm_context *context)
{
	const uint64_t end = gm_clock_ns() + UNLOAD_PATIENCE;
	while (!gm_capture_any()) {
		if (gm_fence_is_idle(&gm_shim_driver, context->key))
			return true;
		if (gm_clock_ns() >= end)
			break;
		gm_sys_nap(NAP);
	}
	return false;
}

void gm_inkernel_code_ends(const struct gm_context *context)
{
	if (context && gm_heap_any_unread(context) && work_ends(context))
		gm_inkernel_sample_last(context, false);
	gm_heap_code_ends();
}

void gm_inkernel_context_stays(const struct gm_context *context)
{
	struct gm_heap_host *heap = context ? inkernel_heap(inkernel_find(context->key)) : NULL;
	if (heap)
		gm_heap_context_stays(heap);
}

void gm_inkernel_context_gone(struct gm_context *context)
{
	struct gm_inkernel *h = inkernel_find(context->key);
	struct gm_heap_host *heap = inkernel_heap(h);
	if (!heap)
		return;
	atomic_store_explicit(&h->state, GM_INKERNEL_NATIVE, memory_order_release);
	h->heap = NULL;
	gm_heap_destroy(heap);
}

void gm_inkernel_forget(void)
{
	recent = NULL;
	atomic_store_explicit(&all, NULL, memory_order_relaxed);
	atomic_store(&second_wanted, false);
	gm_lock_init(&lock, GM_LOCK_RANK_SHIM);
	gm_places_forget();
	gm_heap_forget_all();
}
