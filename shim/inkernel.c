/* SPDX-License-Identifier: BSD-3-Clause */
#include "inkernel.h"

#include <stdlib.h>
#include <time.h>

#include "base/msg.h"
#include "handle.h"
#include "knob/knob.h"
#include "takeover/helper.h"
#include "takeover/load.h"
#include "watched.h"

/* How long a thread that is about to use a context waits for the one that takes it over. Not for
 * good: that one waits for the GPU, where a kernel may be waiting for this thread. */
#define PATIENCE UINT64_C(2000000000) /* ns */
#define NAP 100000

/* Only grows at its head; read without a lock. */
static _Atomic(struct gm_inkernel *) all;
static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_SHIM);
static GM_TLS struct gm_inkernel *recent;

bool gm_inkernel_wanted(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	return knobs->mode.choice == GM_MODE_POOL && gm_heap_wanted(knobs);
}

/* --- the list --- */

static struct gm_inkernel *known(uint64_t key)
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

/* NULL: no host memory. */
struct gm_inkernel *gm_inkernel_known(struct gm_context *context)
{
	struct gm_inkernel *h = known(context->key);
	if (h)
		return h;
	gm_lock_take(&lock);
	h = known(context->key);
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

static struct gm_heap_host *taken(const struct gm_inkernel *h)
{
	return h && gm_inkernel_state(h) == GM_INKERNEL_TAKEN ? h->heap : NULL;
}

/* --- taking over --- */

static void silence(void)
{
	gm_shim_inside = 1;
}

static void before_test(void *heap, CUstream stream)
{
	gm_heap_launch(heap, stream);
}

static void after_test(void *heap, CUstream stream, bool launched)
{
	gm_heap_launched(heap, stream, launched);
}

/* The program's own limit is a floor, unless the user set one. */
static uint64_t limit_of(struct gm_inkernel *h)
{
	const struct gm_knobs *knobs = gm_knob_get();
	uint64_t limit = gm_heap_limit(knobs, gm_shim_devices[h->context->ordinal].total);
	uint64_t asked = atomic_load(&h->limit);
	const char *text;
	bool set = gm_knob_source(GM_KNOB_ID_heap_limit, &text) == GM_KNOB_ENVIRONMENT;
	return asked > limit && !set ? asked : limit;
}

static bool make_heap(struct gm_inkernel *h)
{
	const struct gm_knobs *knobs = gm_knob_get();
	const struct gm_heap_config config = {
		.driver = &gm_shim_driver,
		.pool = gm_shim_pool(h->context->ordinal),
		.context = h->context,
		.policy = gm_heap_wanted(knobs),
		.limit = limit_of(h),
		.image = gm_heap_image(),
		.thread = silence,
		.trim_after = knobs->trim_after.ns,
		.idle = gm_trim_heap_idle,
	};
	if (config.pool)
		h->report.result = gm_heap_create(&config, &h->heap);
	return config.pool && h->report.result == CUDA_SUCCESS;
}

/* The context is current. */
static enum gm_takeover_end take_over(struct gm_inkernel *h)
{
	int processors = 0;
	const struct gm_takeover_images images = gm_takeover_images(0);
	if (gm_watched())
		return GM_TAKEOVER_WATCHED;
	if (!images.empty)
		return GM_TAKEOVER_NO_HELPER;
	/* Before memory is taken for a heap: is there code for this device? */
	CUmodule ignored;
	h->report.result =
		gm_takeover_load(&gm_shim_driver, images.empty, images.empty_ptx, &ignored);
	if (h->report.result != CUDA_SUCCESS)
		return GM_TAKEOVER_NO_LOAD;
	gm_shim_driver.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					    h->context->device);
	const unsigned blocks = processors > 0 ? 2 * (unsigned)processors : 1;
	gm_inkernel_limit_keep(h);
	if (!make_heap(h))
		return GM_TAKEOVER_NO_HEAP;
	const struct gm_takeover_config config = {
		.driver = &gm_shim_driver,
		.images = gm_takeover_images(gm_heap_policy_of(h->heap)),
		.heap = gm_heap_device(h->heap),
		.blocks = blocks < GM_HELPER_BLOCKS ? blocks : GM_HELPER_BLOCKS,
		.launch = before_test,
		.launched = after_test,
		.arg = h->heap,
	};
	if (!gm_takeover(&config, &h->report) && h->report.end != GM_TAKEOVER_BROKEN) {
		gm_heap_destroy(h->heap);
		h->heap = NULL;
	}
	return h->report.end;
}

/* With the context current. */
static void take_over_in(struct gm_inkernel *h)
{
	CUcontext popped;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	h->report.end = GM_TAKEOVER_DRIVER;
	h->report.result = gm_shim_driver.cuCtxPushCurrent_v2(h->context->handle);
	if (h->report.result == CUDA_SUCCESS) {
		h->report.end = take_over(h);
		gm_shim_driver.cuCtxPopCurrent_v2(&popped);
	}
	gm_driver_quiet_end(&gm_shim_driver, mode);
}

/* Nothing is wrong: it is meant to be so, or gpumem has no code for this device. */
static bool is_expected(const struct gm_takeover_report *r)
{
	return r->end <= GM_TAKEOVER_NO_HELPER || r->result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
	       r->result == CUDA_ERROR_INVALID_IMAGE || r->result == CUDA_ERROR_NOT_SUPPORTED;
}

static void tell(const struct gm_inkernel *h)
{
	static bool said[GM_TAKEOVER_ENDS];
	const struct gm_takeover_report *r = &h->report;
	enum gm_msg_level level = is_expected(r) ? GM_MSG_INFO : GM_MSG_WARN;
	if (!gm_msg_first(&said[r->end]))
		return;
	if (r->end == GM_TAKEOVER_TAKEN)
		gm_msg(level, "device %u: %s", h->context->ordinal, gm_takeover_text(r->end));
	else
		gm_msg(level, "device %u: malloc in kernels stays the driver's: %s%s%s (%s)",
		       h->context->ordinal, gm_takeover_text(r->end), r->step ? ", while " : "",
		       r->step ? r->step : "", gm_driver_error(&gm_shim_driver, r->result));
}

static void decide(struct gm_inkernel *h)
{
	uint64_t start = gm_clock_ns();
	take_over_in(h);
	h->took = gm_clock_ns() - start;
	bool ours = h->report.end == GM_TAKEOVER_TAKEN;
	if (!ours)
		gm_inkernel_limit_restore(h);
	atomic_store_explicit(&h->state, ours ? GM_INKERNEL_TAKEN : GM_INKERNEL_NATIVE,
			      memory_order_release);
	tell(h);
	gm_inkernel_log(h);
}

/* Not while captures are open: registering the mailbox or setting the limit would end one (driver
 * 580). What is captured now is launched later, and looked at then. */
void gm_inkernel_use(struct gm_context *context)
{
	struct gm_inkernel *h = gm_inkernel_known(context);
	enum gm_inkernel_state undecided = GM_INKERNEL_UNDECIDED;
	if (!h || gm_inkernel_state(h) > GM_INKERNEL_DECIDING || gm_capture_any())
		return;
	if (atomic_compare_exchange_strong(&h->state, &undecided, GM_INKERNEL_DECIDING)) {
		decide(h);
		return;
	}
	const struct timespec nap = {.tv_nsec = NAP};
	for (uint64_t end = gm_clock_ns() + PATIENCE;
	     gm_inkernel_state(h) == GM_INKERNEL_DECIDING && gm_clock_ns() < end;)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
}

/* --- launches --- */

struct gm_heap_host *gm_inkernel_before_launch(CUstream stream)
{
	uint64_t ignored;
	struct gm_context *context = gm_shim_context_of_stream(stream);
	if (!context)
		return NULL;
	gm_inkernel_use(context);
	struct gm_inkernel *h = known(context->key);
	struct gm_heap_host *heap = taken(h);
	if (!heap || gm_graph_captured(stream, &ignored))
		return NULL;
	atomic_store_explicit(&h->launched, true, memory_order_relaxed);
	gm_heap_launch(heap, stream);
	return heap;
}

void gm_inkernel_after_launch(struct gm_heap_host *heap, CUstream stream, CUresult result)
{
	gm_heap_launched(heap, stream, result == CUDA_SUCCESS);
}

/* --- memory that heaps no longer use --- */

/* The heap of a context that does not end until gm_context_leave; or NULL. */
static struct gm_heap_host *enter(struct gm_inkernel *h)
{
	if (gm_inkernel_state(h) != GM_INKERNEL_TAKEN || !gm_context_enter(h->context))
		return NULL;
	struct gm_heap_host *heap = taken(h);
	if (!heap)
		gm_context_leave(h->context);
	return heap;
}

uint64_t gm_inkernel_settle(unsigned ordinal)
{
	uint64_t given = 0;
	struct gm_heap_host *heap;
	struct gm_inkernel *h = atomic_load_explicit(&all, memory_order_acquire);
	for (; h; h = h->next) {
		if (h->context->ordinal != ordinal || !(heap = enter(h)))
			continue;
		given += gm_heap_trim(heap);
		gm_context_leave(h->context);
	}
	return given;
}

uint64_t gm_inkernel_trim(uint64_t now)
{
	uint64_t given = 0;
	struct gm_heap_host *heap;
	struct gm_inkernel *h = atomic_load_explicit(&all, memory_order_acquire);
	for (; h && !given && !gm_capture_any(); h = h->next) {
		if (!(heap = enter(h)))
			continue;
		given = gm_heap_trim_idle(heap, now);
		gm_context_leave(h->context);
	}
	return given;
}

uint64_t gm_inkernel_trim_next(void)
{
	uint64_t next = UINT64_MAX, due;
	struct gm_heap_host *heap;
	struct gm_inkernel *h = atomic_load_explicit(&all, memory_order_acquire);
	for (; h; h = h->next) {
		if (!(heap = enter(h)))
			continue;
		due = gm_heap_trim_next(heap);
		next = due < next ? due : next;
		gm_context_leave(h->context);
	}
	return next;
}

/* --- contexts end --- */

void gm_inkernel_context_ending(const struct gm_context *context, bool surely)
{
	struct gm_heap_host *heap = context ? taken(known(context->key)) : NULL;
	gm_inkernel_look_last(context, surely);
	if (heap)
		gm_heap_context_ending(heap);
}

void gm_inkernel_context_stays(const struct gm_context *context)
{
	struct gm_heap_host *heap = context ? taken(known(context->key)) : NULL;
	if (heap)
		gm_heap_context_stays(heap);
}

void gm_inkernel_context_gone(const struct gm_context *context)
{
	struct gm_inkernel *h = known(context->key);
	struct gm_heap_host *heap = taken(h);
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
	gm_lock_init(&lock, GM_RANK_SHIM);
	gm_heap_forget_all();
}
