/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/debug.h"
#include "log/log.h"

/*
 * The list grows at its head and loses no element, so it is read without a lock. Processes have a
 * handful of contexts; a reset adds one.
 */
static _Atomic(struct gm_context *) contexts;
static struct gm_lock growing = GM_LOCK_INIT(GM_LOCK_RANK_CONTEXT);
static uint64_t last_number; /* the last key of ours; under `growing` */
atomic_bool gm_context_ended_once;

#define PRIMARIES 64
static _Atomic(CUcontext) primaries[PRIMARIES];

/* The context that this thread used last; nearly every call finds it here. */
static GM_TLS struct gm_context *recent;

/* Sequentially consistent, as is the store: a beginning capture waits for polls in all contexts
 * (poll.c). */
struct gm_context *gm_context_newest(void)
{
	return atomic_load(&contexts);
}

static bool context_is_gone(const struct gm_context *c)
{
	return atomic_load_explicit(&c->gone, memory_order_acquire);
}

struct gm_context *gm_context_find(uint64_t key)
{
	for (struct gm_context *c = gm_context_newest(); c; c = c->next)
		if (c->key == key)
			return c;
	return NULL;
}

/* The id differs between two contexts that had the same handle one after the other; 0: the driver
 * has no ids. */
static CUresult context_identify(const struct gm_driver *driver, CUcontext handle, uint64_t *id)
{
	unsigned long long given = 0;
	*id = 0;
	if (!driver->cuCtxGetId)
		return CUDA_SUCCESS;
	CUresult result = driver->cuCtxGetId(handle, &given);
	if (result == CUDA_SUCCESS)
		*id = given ? given : UINT64_MAX;
	return result;
}

static bool context_matches(const struct gm_context *c, CUcontext handle, uint64_t id)
{
	return c->handle == handle && (!id || c->key == id) && !context_is_gone(c);
}

static struct gm_context *context_find_known(CUcontext handle, uint64_t id)
{
	for (struct gm_context *c = gm_context_newest(); c; c = c->next)
		if (context_matches(c, handle, id))
			return c;
	return NULL;
}

static unsigned context_ordinal(const struct gm_driver *driver, CUdevice device)
{
	int count = 0;
	CUdevice candidate;
	driver->cuDeviceGetCount(&count);
	for (int i = 0; i < count; i++)
		if (driver->cuDeviceGet(&candidate, i) == CUDA_SUCCESS && candidate == device)
			return (unsigned)i;
	return (unsigned)device;
}

/* An event recorded once, on a private stream; NULL: the driver failed. */
static CUevent probe_make(const struct gm_driver *driver)
{
	CUstream stream;
	CUevent event;
	if (driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return NULL;
	CUresult result = driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (result == CUDA_SUCCESS) {
		result = driver->cuEventRecord(event, stream);
		driver->cuStreamDestroy_v2(stream);
	}
	if (result == CUDA_SUCCESS)
		return event;
	driver->cuEventDestroy_v2(event);
	return NULL;
}

/* Fill in the device and the probe; the context is made current for that. */
static CUresult context_inspect(const struct gm_driver *driver, struct gm_context *c)
{
	CUcontext popped;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuCtxPushCurrent_v2(c->handle);
	if (result == CUDA_SUCCESS) {
		result = driver->cuCtxGetDevice(&c->device);
		if (result == CUDA_SUCCESS) {
			c->ordinal = context_ordinal(driver, c->device);
			c->probe = probe_make(driver);
		}
		driver->cuCtxPopCurrent_v2(&popped);
	}
	gm_driver_quiet_end(driver, mode);
	return result;
}

static void context_remember(const struct gm_context *c, uint64_t gone)
{
	struct gm_record record = {
		.id = c->key,
		.size = gone,
		.context = (uint32_t)c->key,
		.device = (uint8_t)c->ordinal,
		.kind = GM_RECORD_CONTEXT,
	};
	if (gm_log_wants(GM_RECORD_CONTEXT))
		gm_log_put(&record);
}

/* Put the context at the head of the list. If another thread was faster, returns its context. */
static struct gm_context *context_publish(struct gm_context *c, uint64_t id)
{
	gm_lock_take(&growing);
	struct gm_context *other = context_find_known(c->handle, id);
	if (!other) {
		c->key = id ? id : ++last_number;
		c->next = gm_context_newest();
		atomic_store(&contexts, c);
	}
	gm_lock_release(&growing);
	return other ? other : c;
}

static struct gm_context *context_make(const struct gm_driver *driver, CUcontext handle,
				       uint64_t id, CUresult *result)
{
	struct gm_context *c = aligned_alloc(_Alignof(struct gm_context), sizeof *c);
	if (!c) {
		*result = CUDA_ERROR_OUT_OF_MEMORY;
		return NULL;
	}
	memset(c, 0, sizeof *c);
	c->handle = handle;
	*result = context_inspect(driver, c);
	if (*result != CUDA_SUCCESS) {
		free(c);
		return NULL;
	}
	gm_rwlock_init(&c->capture, GM_LOCK_RANK_CAPTURE);
	struct gm_context *there = context_publish(c, id);
	if (there == c) {
		context_remember(c, 0);
		return c;
	}
	if (c->probe)
		driver->cuEventDestroy_v2(c->probe);
	gm_rwlock_destroy(&c->capture);
	free(c);
	return there;
}

/* --- green contexts --- */

struct green {
	CUcontext derived, primary;
	CUdevice device;
};
static GM_ARRAY(struct green) greens; /* under `growing` */
static atomic_size_t n_greens;	      /* 0: the lock need not be taken */

bool gm_context_remember_green(CUcontext derived, CUcontext primary, CUdevice device)
{
	gm_lock_take(&growing);
	bool kept = gm_array_push(&greens, (struct green){derived, primary, device});
	atomic_store_explicit(&n_greens, greens.n, memory_order_relaxed);
	gm_lock_release(&growing);
	return kept;
}

static size_t green_find(CUcontext derived)
{
	size_t i = 0;
	gm_lock_assert_held(GM_LOCK_RANK_CONTEXT);
	while (i < greens.n && greens.at[i].derived != derived)
		i++;
	return i;
}

bool gm_context_green_gone(CUcontext derived, CUdevice *device)
{
	gm_lock_take(&growing);
	size_t i = green_find(derived);
	bool found = i < greens.n;
	if (found) {
		*device = greens.at[i].device;
		greens.at[i] = greens.at[--greens.n];
	}
	atomic_store_explicit(&n_greens, greens.n, memory_order_relaxed);
	gm_lock_release(&growing);
	return found;
}

/* The primary context of a green one; another handle is returned as it is. */
static CUcontext green_resolve(CUcontext handle)
{
	if (GM_LIKELY(!atomic_load_explicit(&n_greens, memory_order_relaxed)))
		return handle;
	gm_lock_take(&growing);
	size_t i = green_find(handle);
	if (i < greens.n)
		handle = greens.at[i].primary;
	gm_lock_release(&growing);
	return handle;
}

/* --- finding a context --- */

struct gm_context *gm_context_of(const struct gm_driver *driver, CUcontext handle, CUresult *result)
{
	uint64_t id;
	handle = green_resolve(handle);
	*result = handle ? context_identify(driver, handle, &id) : CUDA_ERROR_INVALID_CONTEXT;
	if (*result != CUDA_SUCCESS)
		return NULL;
	if (recent && context_matches(recent, handle, id))
		return recent;
	struct gm_context *c = context_find_known(handle, id);
	if (!c)
		c = context_make(driver, handle, id, result);
	if (c)
		recent = c;
	return c;
}

/* One driver call: cuCtxGetId of NULL is the id of the current context. */
static bool context_is_current(const struct gm_driver *driver, const struct gm_context *c)
{
	unsigned long long id = 0;
	return driver->cuCtxGetId && driver->cuCtxGetId(NULL, &id) == CUDA_SUCCESS &&
	       id == c->key && !context_is_gone(c);
}

struct gm_context *gm_context_current(const struct gm_driver *driver, CUresult *result)
{
	CUcontext handle = NULL;
	if (GM_LIKELY(recent && context_is_current(driver, recent))) {
		*result = CUDA_SUCCESS;
		return recent;
	}
	*result = driver->cuCtxGetCurrent(&handle);
	return *result == CUDA_SUCCESS ? gm_context_of(driver, handle, result) : NULL;
}

GM_TLS bool gm_context_permitted;

CUresult gm_context_ask(const struct gm_driver *driver)
{
	CUcontext handle;
	if (driver->cuCtxGetCurrent(&handle) == CUDA_ERROR_NOT_PERMITTED)
		return CUDA_ERROR_NOT_PERMITTED;
	gm_context_permitted = true;
	return CUDA_SUCCESS;
}

/* --- the end of a context ---
 *
 *     thread of the pool       users++, reads ending
 *     thread of the program    ending++, reads users
 *
 * All four are sequentially consistent, so at least one thread sees the other's count. */

static pthread_cond_t unused = PTHREAD_COND_INITIALIZER; /* a context's last user has left */

void gm_context_leave(struct gm_context *c)
{
	if (atomic_fetch_sub(&c->users, 1) > 1 || !atomic_load(&c->ending))
		return;
	gm_lock_take(&growing);
	pthread_cond_broadcast(&unused);
	gm_lock_release(&growing);
}

bool gm_context_enter(struct gm_context *c)
{
	atomic_fetch_add(&c->users, 1);
	if (!atomic_load(&c->ending) && !context_is_gone(c))
		return true;
	gm_context_leave(c);
	return false;
}

struct gm_context *gm_context_ending(CUcontext handle)
{
	struct gm_context *c = handle ? context_find_known(green_resolve(handle), 0) : NULL;
	if (!c)
		return NULL;
	atomic_fetch_add(&c->ending, 1);
	gm_lock_take(&growing);
	while (atomic_load(&c->users))
		gm_lock_wait(&growing, &unused);
	gm_lock_release(&growing);
	return c;
}

void gm_context_ended(struct gm_context *c)
{
	if (c)
		atomic_fetch_sub(&c->ending, 1);
}

uint64_t gm_context_gone(CUcontext handle)
{
	struct gm_context *c = context_find_known(handle, 0);
	if (!c || atomic_exchange_explicit(&c->gone, true, memory_order_acq_rel))
		return 0;
	atomic_store_explicit(&gm_context_ended_once, true, memory_order_relaxed);
	context_remember(c, 1);
	return c->key;
}

static bool context_is_replaced(const struct gm_context *c)
{
	for (const struct gm_context *newer = gm_context_newest(); newer != c; newer = newer->next)
		if (newer->handle == c->handle)
			return true;
	return false;
}

struct gm_context *gm_context_replaced(void)
{
	for (struct gm_context *c = gm_context_newest(); c; c = c->next)
		if (!context_is_gone(c) && context_is_replaced(c) &&
		    !atomic_exchange_explicit(&c->gone, true, memory_order_acq_rel))
			return c;
	return NULL;
}

void gm_context_remember_primary(CUdevice device, CUcontext handle)
{
	if (device >= 0 && device < PRIMARIES)
		atomic_store_explicit(&primaries[device], handle, memory_order_relaxed);
}

static CUcontext primary_find(CUdevice device)
{
	if (device < 0 || device >= PRIMARIES)
		return NULL;
	return atomic_load_explicit(&primaries[device], memory_order_relaxed);
}

struct gm_context *gm_context_primary_ending(CUdevice device)
{
	return gm_context_ending(primary_find(device));
}

uint64_t gm_context_primary_gone(CUdevice device)
{
	CUcontext handle = primary_find(device);
	return handle ? gm_context_gone(handle) : 0;
}

void gm_context_forget_all(void)
{
	recent = NULL;
	greens.at = NULL;
	greens.n = greens.room = 0;
	atomic_store_explicit(&n_greens, 0, memory_order_relaxed);
	atomic_store_explicit(&gm_context_ended_once, false, memory_order_relaxed);
	atomic_store_explicit(&contexts, NULL, memory_order_relaxed);
	for (unsigned i = 0; i < PRIMARIES; i++)
		atomic_store_explicit(&primaries[i], NULL, memory_order_relaxed);
	/* Another thread of the parent may have held the lock at the fork. */
	gm_lock_init(&growing, GM_LOCK_RANK_CONTEXT);
	pthread_cond_init(&unused, NULL);
}
