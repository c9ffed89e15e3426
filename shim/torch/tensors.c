/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/tensors.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/lock.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/call.h"
#include "shim/entry/object.h"
#include "stack/stack.h"
#include "stack/table.h"

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

/* c10::Device */
struct torch_device {
	int8_t type, index;
};
enum { TORCH_CUDA = 1 };

/* (address, bytes: negative for a tensor taken back, bytes of all tensors, bytes of all segments,
 * device) */
typedef void report_fn(void *address, int64_t bytes, size_t allocated, size_t reserved,
		       struct torch_device device);

/* For new rows of `callers`, and for the tensors alive. */
static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);

/* --- the function behind ours --- */

/* The definition for each place that calls; c10 has a few. Rows are only added. */
enum { CALLERS = 16 };
static struct {
	const void *caller;
	report_fn *next;
} callers[CALLERS];
static atomic_uint n_callers;

__attribute__((visibility("default"))) report_fn gm_tensors_report __asm__(REPORT);

/* The definition of the object that exports it first, behind the one with `address`; NULL: none. */
static report_fn *report_behind(const void *address)
{
	struct gm_object object;
	void *found = gm_object_behind(address, REPORT, &object) ? gm_object_symbol(&object, REPORT)
								 : NULL;
	return found != (void *)gm_tensors_report ? (report_fn *)found : NULL;
}

/* The loader places a library before those that it needs, unless these were there already. Python
 * loads extension modules into no global scope, where RTLD_NEXT finds nothing; and dlsym would take
 * the loader's lock, under the mutex of c10. */
static report_fn *next_search(const void *caller)
{
	report_fn *next = report_behind(caller);
	return next ? next : report_behind((const void *)gm_tensors_report);
}

static report_fn *next_known(const void *caller, unsigned n, bool *known)
{
	for (unsigned i = 0; i < n; i++)
		if ((*known = callers[i].caller == caller))
			return callers[i].next;
	return NULL;
}

static report_fn *next_of(const void *caller)
{
	bool known = false;
	report_fn *next =
		next_known(caller, atomic_load_explicit(&n_callers, memory_order_acquire), &known);
	if (known)
		return next;
	next = next_search(caller);
	gm_lock_take(&lock);
	unsigned n = atomic_load_explicit(&n_callers, memory_order_relaxed);
	next_known(caller, n, &known);
	if (next && !known && n < CALLERS) {
		callers[n].caller = caller;
		callers[n].next = next;
		atomic_store_explicit(&n_callers, n + 1, memory_order_release);
	}
	gm_lock_release(&lock);
	return next;
}

/* --- the tensors alive --- */

struct tensor {
	void *address;
	uint64_t bytes, id;
	uint32_t stack, thread;
	uint8_t device;
	UT_hash_handle hh;
};

static struct tensor *tensors, *spare;
static uint64_t ids;

static struct tensor *tensor_make(void)
{
	struct tensor *tensor = spare;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!tensor)
		return calloc(1, sizeof *tensor);
	spare = NULL;
	return tensor;
}

static void tensor_drop(struct tensor *tensor)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_DEL(tensors, tensor);
	free(spare);
	spare = tensor;
}

static struct tensor *tensor_at(void *address)
{
	struct tensor *tensor;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_FIND_PTR(tensors, &address, tensor);
	return tensor;
}

static struct gm_record tensor_record(enum gm_record_kind kind, const struct tensor *tensor)
{
	return (struct gm_record){
		.address = (uintptr_t)tensor->address,
		.size = tensor->bytes,
		.held = tensor->bytes,
		.id = tensor->id,
		.thread = tensor->thread,
		.stack = kind == GM_RECORD_TENSOR_FREE ? 0 : tensor->stack,
		.device = tensor->device,
		.kind = (uint8_t)kind,
	};
}

/* Without host memory for it the tensor keeps the number 0: nobody will know when it goes. */
static void tensor_add(struct tensor *is)
{
	gm_lock_take(&lock);
	struct tensor *old = tensor_at(is->address), *tensor;
	if (old)
		tensor_drop(old);
	tensor = tensor_make();
	if (tensor) {
		is->id = ids + 1;
		*tensor = *is;
		HASH_ADD_PTR(tensors, address, tensor);
		if (gm_hash_failed(tensor)) {
			free(tensor);
			is->id = 0;
		}
		ids += is->id != 0;
	}
	gm_lock_release(&lock);
}

/* A tensor from before the log keeps the number 0. */
static void tensor_remove(struct tensor *is)
{
	gm_lock_take(&lock);
	struct tensor *tensor = tensor_at(is->address);
	if (tensor) {
		is->id = tensor->id;
		tensor_drop(tensor);
	}
	gm_lock_release(&lock);
}

/* --- a tensor --- */

static void tensor_log(enum gm_record_kind kind, const struct tensor *tensor)
{
	struct gm_record record = tensor_record(kind, tensor);
	const uint64_t now = gm_tick();
	record.time = gm_shim_time(now);
	gm_shim_happened_at(now);
	gm_log_put(&record);
}

static void tensor_born(struct tensor *tensor, struct gm_stack_from from)
{
	gm_counter_add(tensor->device, GM_C_tensor_calls, 1);
	if (!gm_log_wants(GM_RECORD_TENSOR))
		return;
	if (gm_stack_wanted(tensor->bytes))
		tensor->stack = gm_stack_capture(NULL, from); /* c10 holds its mutex */
	tensor_add(tensor);
	tensor_log(GM_RECORD_TENSOR, tensor);
}

static void tensor_gone(struct tensor *tensor)
{
	gm_counter_add(tensor->device, GM_C_tensor_frees, 1);
	if (!gm_log_wants(GM_RECORD_TENSOR_FREE))
		return;
	tensor_remove(tensor);
	tensor_log(GM_RECORD_TENSOR_FREE, tensor);
}

static void tensor_report(struct tensor *tensor, bool born, size_t allocated, size_t reserved,
			  struct gm_stack_from from)
{
	const unsigned device = tensor->device;
	tensor->thread = gm_thread_id();
	gm_counter_set(device, GM_C_tensor_bytes, allocated);
	gm_counter_raise(device, GM_C_tensor_peak, allocated);
	gm_counter_set(device, GM_C_cache_bytes, reserved);
	if (born)
		tensor_born(tensor, from);
	else
		tensor_gone(tensor);
}

void gm_tensors_report(void *address, int64_t bytes, size_t allocated, size_t reserved,
		       struct torch_device device)
{
	report_fn *next = next_of(__builtin_return_address(0));
	struct tensor tensor = {.address = address,
				.bytes = (uint64_t)(bytes < 0 ? -bytes : bytes),
				.device = (uint8_t)device.index};
	bool cuda =
		device.type == TORCH_CUDA && device.index >= 0 && device.index < GM_COUNTER_DEVICES;
	if (cuda && bytes && gm_shim_enter()) {
		tensor_report(&tensor, bytes > 0, allocated, reserved, GM_STACK_FROM);
		gm_shim_leave();
	}
	if (next)
		next(address, bytes, allocated, reserved, device);
}

void gm_tensors_walk(void (*each)(void *arg, const struct gm_record *live), void *arg)
{
	gm_lock_take(&lock);
	for (struct tensor *tensor = tensors; tensor; tensor = tensor->hh.next) {
		const struct gm_record live = tensor_record(GM_RECORD_TENSOR_LIVE, tensor);
		if (tensor->stack)
			gm_table_write(tensor->stack);
		each(arg, &live);
	}
	gm_lock_release(&lock);
}

void gm_tensors_forget(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	tensors = spare = NULL;
	ids = 0;
}
