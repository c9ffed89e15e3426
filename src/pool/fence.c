/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/fence.h"

#include <sched.h>

#include "base/debug.h"

/* Captures open in any context, or about to begin: one relaxed load while there are none. */
static atomic_uint captures_open;

/* All captures are counted there. */
static atomic_bool all_counted;

/* An error that stays was seen in some context. */
static atomic_bool suspect;

/* Errors after which the driver answers the same to every call in the context. */
static bool is_sticky(CUresult error)
{
	static const CUresult sticky[] = {
		CUDA_ERROR_ECC_UNCORRECTABLE,
		CUDA_ERROR_NVLINK_UNCORRECTABLE,
		CUDA_ERROR_ILLEGAL_ADDRESS,
		CUDA_ERROR_LAUNCH_TIMEOUT,
		CUDA_ERROR_ASSERT,
		CUDA_ERROR_HARDWARE_STACK_ERROR,
		CUDA_ERROR_ILLEGAL_INSTRUCTION,
		CUDA_ERROR_MISALIGNED_ADDRESS,
		CUDA_ERROR_INVALID_ADDRESS_SPACE,
		CUDA_ERROR_INVALID_PC,
		CUDA_ERROR_LAUNCH_FAILED,
		CUDA_ERROR_EXTERNAL_DEVICE,
		CUDA_ERROR_MPS_CLIENT_TERMINATED,
	};
	for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++)
		if (error == sticky[i])
			return true;
	return false;
}

void gm_fence_suspect_error(CUresult error)
{
	if (is_sticky(error))
		atomic_store_explicit(&suspect, true, memory_order_relaxed);
}

static bool is_quiet(void)
{
	return atomic_load_explicit(&captures_open, memory_order_relaxed) == 0 &&
	       !atomic_load_explicit(&suspect, memory_order_relaxed);
}

/*
 * What the driver answers to a call that open captures may forbid. Asking has the very effect of
 * the native call: where cudaMalloc and cudaFree would invalidate a capture, so does this.
 */
static CUresult ask_native(const struct gm_driver *driver, struct gm_context *context)
{
	if (GM_LIKELY(is_quiet()))
		return CUDA_SUCCESS;
	if (!context->probe)
		return CUDA_SUCCESS;
	CUresult result = driver->cuEventQuery(context->probe);
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult gm_fence_may_allocate(const struct gm_driver *driver, struct gm_context *context)
{
	return ask_native(driver, context);
}

/* A spare event of the context, or a new one. */
static CUresult take_event(const struct gm_driver *driver, struct gm_context *context,
			   CUevent *event)
{
	CUcontext popped;
	for (unsigned i = 0; i < GM_CONTEXT_EVENTS; i++) {
		if (!atomic_load_explicit(&context->events[i], memory_order_relaxed))
			continue;
		*event = atomic_exchange_explicit(&context->events[i], NULL, memory_order_acquire);
		if (*event)
			return CUDA_SUCCESS;
	}
	CUresult result = driver->cuCtxPushCurrent_v2(context->handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver->cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
	driver->cuCtxPopCurrent_v2(&popped);
	return result;
}

static void put_event(const struct gm_driver *driver, struct gm_context *context, CUevent event)
{
	for (unsigned i = 0; i < GM_CONTEXT_EVENTS; i++) {
		CUevent empty = NULL;
		if (atomic_compare_exchange_strong_explicit(&context->events[i], &empty, event,
							    memory_order_release,
							    memory_order_relaxed))
			return;
	}
	driver->cuEventDestroy_v2(event);
}

static bool is_gone(const struct gm_context *context)
{
	return !context || atomic_load_explicit(&context->gone, memory_order_acquire);
}

/* Record an event in the context, unless a capture is open there, which that would invalidate:
 * CUDA_ERROR_NOT_READY. */
static CUresult record(const struct gm_driver *driver, struct gm_context *context, CUevent *event)
{
	CUresult result = take_event(driver, context, event);
	if (result != CUDA_SUCCESS)
		return result;
	gm_rwlock_read(&context->capture);
	if (atomic_load_explicit(&context->captures, memory_order_relaxed))
		result = CUDA_ERROR_NOT_READY;
	else
		result = driver->cuCtxRecordEvent(context->handle, *event);
	gm_rwlock_release(&context->capture);
	if (result == CUDA_SUCCESS)
		return result;
	put_event(driver, context, *event);
	*event = NULL;
	return result;
}

/* Before driver 12.5. It waits for the GPU under the shared capture lock: a capture that begins in
 * this context meanwhile waits too, as the driver's own lock would have it. */
static CUresult synchronize(const struct gm_driver *driver, struct gm_context *context)
{
	CUcontext popped;
	CUresult result = CUDA_ERROR_NOT_READY;
	gm_rwlock_read(&context->capture);
	if (!atomic_load_explicit(&context->captures, memory_order_relaxed))
		result = driver->cuCtxPushCurrent_v2(context->handle);
	if (result == CUDA_SUCCESS) {
		result = driver->cuCtxSynchronize();
		driver->cuCtxPopCurrent_v2(&popped);
	}
	gm_rwlock_release(&context->capture);
	return result;
}

/*
 * The short way, for the usual case: nobody captures, and nothing is running. Natively asking an
 * event breaks a capture that is open in any context, and recording one that of its own. Either the
 * thread that looks sees the count, or the one that begins sees the look (both are sequentially
 * consistent) and waits the while that the two calls take. For the GPU nobody waits there.
 *
 * What a look finds is true for all who asked before it began, and the driver is several times
 * slower when threads call it by turns. So one thread looks, and those that come meanwhile wait for
 * the next look: a few of these it takes as well before it goes its way.
 */
#define FOR_OTHERS 3 /* looks in a row that are not one's own */
#define EAGER 400    /* turns of waiting without a pause: about as long as a look takes */

unsigned gm_fence_patience = 700; /* and in all; then the one that looks is not running */

/* A look that was begun. What it finds running may be waited for by *pending, which is the
 * caller's to put back then; without `pending` there is none. */
static CUresult look_once(const struct gm_driver *driver, struct gm_context *context,
			  CUevent *pending)
{
	CUevent *event = &context->looks.event;
	CUresult result = CUDA_SUCCESS;
	if (GM_UNLIKELY(atomic_load(&captures_open) || !atomic_load(&all_counted)))
		return CUDA_ERROR_NOT_READY;
	if (GM_UNLIKELY(!*event))
		result = take_event(driver, context, event);
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

/* `word` is of before; false: another look is under way, or was. */
static bool begin_look(struct gm_looks *looks, uint64_t word)
{
	return word % 2 == 0 && atomic_compare_exchange_strong(&looks->word, &word, word + 1);
}

/* Who has begun a look is the only one who changes the word. */
static uint64_t present(const struct gm_looks *looks)
{
	return atomic_load_explicit(&looks->word, memory_order_relaxed);
}

static bool is_another_wanted(const struct gm_looks *looks)
{
	return atomic_load_explicit(&looks->wanted, memory_order_relaxed) > present(looks) + 1;
}

/* One that was begun has ended, and another begins. */
static void next_look(struct gm_looks *looks, CUresult result)
{
	atomic_store_explicit(&looks->result, result, memory_order_relaxed);
	atomic_fetch_add(&looks->word, 2);
}

static void end_look(struct gm_looks *looks, CUresult result)
{
	atomic_store_explicit(&looks->result, result, memory_order_relaxed);
	atomic_store_explicit(&looks->word, present(looks) + 1, memory_order_release);
}

/* After begin_look: the caller's, and those of some others. */
static CUresult look(const struct gm_driver *driver, struct gm_context *context, CUevent *pending)
{
	struct gm_looks *looks = &context->looks;
	CUresult own = look_once(driver, context, pending), result = own;
	for (unsigned i = 0; i < FOR_OTHERS && result == CUDA_SUCCESS && is_another_wanted(looks);
	     i++) {
		next_look(looks, result);
		result = look_once(driver, context, NULL);
	}
	end_look(looks, result);
	return own;
}

static inline void spin(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#elif defined __aarch64__
	__asm__ volatile("yield");
#endif
}

/* How a look of another thread ended that begins after now: only good news is worth having. Else
 * the caller's own, as look(). CUDA_ERROR_NOT_READY without *pending: not this way. */
static CUresult look_together(const struct gm_driver *driver, struct gm_context *context,
			      CUevent *pending)
{
	struct gm_looks *looks = &context->looks;
	if (!driver->cuCtxRecordEvent || !atomic_load_explicit(&all_counted, memory_order_relaxed))
		return CUDA_ERROR_NOT_READY;
	if (GM_LIKELY(begin_look(looks, present(looks))))
		return look(driver, context, pending);
	/* A write, which who begins the next look has read: it sees what this thread submitted. */
	uint64_t word = atomic_fetch_add(&looks->word, 0), enough = (word + 1) / 2 * 2 + 2;
	atomic_store_explicit(&looks->wanted, enough, memory_order_relaxed);
	for (unsigned i = 0; i < gm_fence_patience; i++) {
		word = atomic_load(&looks->word);
		if (word >= enough &&
		    atomic_load_explicit(&looks->result, memory_order_relaxed) == CUDA_SUCCESS)
			return CUDA_SUCCESS;
		if (begin_look(looks, word))
			return look(driver, context, pending);
		if (i > EAGER)
			spin();
	}
	return CUDA_ERROR_NOT_READY;
}

static CUresult await_event(const struct gm_driver *driver, CUevent event)
{
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuEventSynchronize(event);
	gm_driver_quiet_end(driver, mode);
	return result;
}

/* CUDA_ERROR_NOT_READY: not this way. */
static CUresult wait_shortly(const struct gm_driver *driver, struct gm_context *context)
{
	CUevent event = NULL;
	CUresult result = look_together(driver, context, &event);
	if (GM_UNLIKELY(event)) {
		result = await_event(driver, event);
		put_event(driver, context, event);
	}
	return result;
}

/* Those that look now have done so; who begins to from now on sees `captures_open`. */
static void await_looks(void)
{
	for (struct gm_context *c = gm_context_newest(); c; c = c->next) {
		uint64_t word = atomic_load(&c->looks.word);
		while (word % 2 && atomic_load(&c->looks.word) == word)
			sched_yield();
	}
}

static CUresult wait_for(const struct gm_driver *driver, struct gm_context *context)
{
	CUevent event;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result;
	if (driver->cuCtxRecordEvent) {
		result = record(driver, context, &event);
		if (result == CUDA_SUCCESS) {
			result = driver->cuEventSynchronize(event);
			put_event(driver, context, event);
		}
	} else {
		result = synchronize(driver, context);
	}
	gm_driver_quiet_end(driver, mode);
	return result;
}

CUresult gm_fence(void *arg, uint64_t key, bool native, enum gm_fenced *fenced)
{
	const struct gm_driver *driver = arg;
	struct gm_context *context = gm_context_find(key);
	*fenced = GM_FENCED_PASSED;
	/* What is left of a context that is gone has nothing running. */
	if (is_gone(context))
		return CUDA_SUCCESS;
	CUresult result = native ? ask_native(driver, context) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		return result;
	if (native) {
		result = wait_shortly(driver, context);
		if (result == CUDA_ERROR_NOT_READY)
			result = wait_for(driver, context);
	} else if (gm_context_enter(context)) {
		result = wait_for(driver, context);
		gm_context_leave(context);
	} else {
		result = CUDA_ERROR_NOT_READY;
	}
	if (result != CUDA_ERROR_NOT_READY)
		return result;
	*fenced = GM_FENCED_LATER;
	return CUDA_SUCCESS;
}

/* --- one by one, for deferred reuse --- */

static CUresult ask(void *arg, uint64_t key)
{
	struct gm_context *context = gm_context_find(key);
	return is_gone(context) ? CUDA_SUCCESS : ask_native(arg, context);
}

/* Enter the context of a fence; else *result is what to answer. */
static struct gm_context *enter(uint64_t key, CUresult *result)
{
	struct gm_context *context = gm_context_find(key);
	*result = CUDA_ERROR_NOT_READY;
	if (!is_gone(context) && gm_context_enter(context))
		return context;
	if (is_gone(context))
		*result = CUDA_SUCCESS;
	return NULL;
}

static CUresult record_fence(void *arg, uint64_t key, CUevent *fence)
{
	CUresult result;
	struct gm_context *context = enter(key, &result);
	*fence = NULL;
	if (!context)
		return result;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(arg);
	result = record(arg, context, fence);
	gm_driver_quiet_end(arg, mode);
	gm_context_leave(context);
	gm_fence_suspect(result);
	return result;
}

static CUresult ask_fence(const struct gm_driver *driver, uint64_t key, CUevent fence,
			  CUresult (*call)(CUevent event))
{
	CUresult result;
	struct gm_context *context = enter(key, &result);
	if (!context)
		return result;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	result = call(fence);
	gm_driver_quiet_end(driver, mode);
	gm_context_leave(context);
	gm_fence_suspect(result);
	return result;
}

static CUresult fence_passed(void *arg, uint64_t key, CUevent fence)
{
	const struct gm_driver *driver = arg;
	return ask_fence(driver, key, fence, driver->cuEventQuery);
}

static CUresult fence_wait(void *arg, uint64_t key, CUevent fence)
{
	const struct gm_driver *driver = arg;
	return ask_fence(driver, key, fence, driver->cuEventSynchronize);
}

/* The events of a context go with it; one that is too many just then is lost. */
static void drop_fence(void *arg, uint64_t key, CUevent fence)
{
	CUresult ignored;
	struct gm_context *context = enter(key, &ignored);
	if (!context)
		return;
	put_event(arg, context, fence);
	gm_context_leave(context);
}

bool gm_fence_is_idle(void *arg, uint64_t key)
{
	struct gm_context *context = gm_context_find(key);
	if (is_gone(context))
		return false;
	CUresult result = look_together(arg, context, NULL);
	gm_fence_suspect(result);
	return result == CUDA_SUCCESS;
}

const struct gm_deferral *gm_fence_deferral(const struct gm_driver *driver)
{
	static const struct gm_deferral with = {ask,	    record_fence, fence_passed,
						fence_wait, drop_fence,	  is_quiet};
	static const struct gm_deferral without = {.ask = ask, .is_quiet = is_quiet};
	return driver->cuCtxRecordEvent ? &with : &without;
}

void gm_fence_captures_counted(void)
{
	atomic_store(&all_counted, true);
}

void gm_fence_capture_missed(void)
{
	atomic_store(&all_counted, false);
	await_looks();
}

void gm_fence_capture_begin(struct gm_context *context)
{
	atomic_fetch_add(&captures_open, 1);
	await_looks();
	gm_rwlock_write(&context->capture);
}

void gm_fence_capture_begun(struct gm_context *context, bool success)
{
	if (success)
		atomic_fetch_add_explicit(&context->captures, 1, memory_order_relaxed);
	else
		atomic_fetch_sub(&captures_open, 1);
	gm_rwlock_release(&context->capture);
}

void gm_fence_capture_ended(struct gm_context *context)
{
	atomic_fetch_sub_explicit(&context->captures, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&captures_open, 1, memory_order_relaxed);
}

void gm_fence_forget_all(void)
{
	atomic_store_explicit(&captures_open, 0, memory_order_relaxed);
	atomic_store_explicit(&all_counted, false, memory_order_relaxed);
	atomic_store_explicit(&suspect, false, memory_order_relaxed);
}
