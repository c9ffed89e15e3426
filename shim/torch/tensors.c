/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/call.h"
#include "shim/torch/behind.h"
#include "shim/torch/lend.h"
#include "shim/torch/sequence.h"
#include "stack/stack.h"
#include "stack/table.h"

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define REFUSE "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"

/* c10::Device */
struct torch_device {
	int8_t type, index;
};
enum { TORCH_CUDA = 1 };

/* (address, bytes: negative for a tensor taken back, bytes of all tensors, bytes of all segments,
 * device) */
typedef void report_fn(void *address, int64_t bytes, size_t allocated, size_t reserved,
		       struct torch_device device);
/* (bytes asked, bytes of all tensors, bytes of all segments, device) */
typedef void refuse_fn(int64_t asked, size_t allocated, size_t reserved,
		       struct torch_device device);

/* For the tensors alive. */
static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);

__attribute__((visibility("default"))) report_fn gm_tensors_report __asm__(REPORT);
__attribute__((visibility("default"))) refuse_fn gm_tensors_refuse __asm__(REFUSE);

static struct gm_behind report_behind = {.symbol = REPORT, .own = (const void *)gm_tensors_report};
static struct gm_behind refuse_behind = {.symbol = REFUSE, .own = (const void *)gm_tensors_refuse};

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

/* Those from before the recording, by device: not known one by one. */
static struct {
	uint64_t bytes, n;
} before[GM_COUNTER_DEVICES];

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
	} else if (before[is->device].n) {
		const uint64_t bytes = before[is->device].bytes;
		before[is->device].n--;
		before[is->device].bytes -= is->bytes < bytes ? is->bytes : bytes;
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
		tensor->stack = gm_stack_capture_locked(
			from, gm_sequence_stack((const void *)from.address));
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

static bool device_is_kept(struct torch_device device)
{
	return device.type == TORCH_CUDA && device.index >= 0 && device.index < GM_COUNTER_DEVICES;
}

void gm_tensors_report(void *address, int64_t bytes, size_t allocated, size_t reserved,
		       struct torch_device device)
{
	report_fn *next = (report_fn *)gm_behind_find(&report_behind, __builtin_return_address(0));
	struct tensor tensor = {.address = address,
				.bytes = (uint64_t)(bytes < 0 ? -bytes : bytes),
				.device = (uint8_t)device.index};
	bool has_memory = true;
	if (gm_lend_is_on() && device_is_kept(device) && bytes)
		has_memory = gm_lend_report(tensor.device, (CUdeviceptr)address, bytes, allocated);
	if (device_is_kept(device) && bytes && gm_shim_enter()) {
		tensor_report(&tensor, bytes > 0, allocated, reserved, GM_STACK_FROM);
		gm_shim_leave();
	}
	if (next)
		next(address, bytes, allocated, reserved, device);
	if (GM_UNLIKELY(!has_memory))
		gm_lend_refuse(tensor.device);
}

/* PyTorch's cache gives up, and torch.OutOfMemoryError follows. */
static void refusal_log(uint64_t asked, size_t allocated, size_t reserved, unsigned device,
			struct gm_stack_from from)
{
	struct gm_record record = {
		.size = asked,
		.held = reserved,
		.id = allocated,
		.device = (uint8_t)device,
		.thread = gm_thread_id(),
		.kind = GM_RECORD_TENSOR_REFUSED,
	};
	if (!gm_log_wants(GM_RECORD_TENSOR_REFUSED))
		return;
	if (gm_stacks_are_on())
		record.stack = gm_stack_capture_locked(
			from, gm_sequence_stack((const void *)from.address));
	const uint64_t now = gm_tick();
	record.time = gm_shim_time(now);
	gm_shim_happened_at(now);
	gm_log_put(&record);
}

void gm_tensors_refuse(int64_t asked, size_t allocated, size_t reserved, struct torch_device device)
{
	refuse_fn *next = (refuse_fn *)gm_behind_find(&refuse_behind, __builtin_return_address(0));
	if (device_is_kept(device) && gm_shim_enter()) {
		refusal_log((uint64_t)asked, allocated, reserved, (unsigned)device.index,
			    GM_STACK_FROM);
		gm_shim_leave();
	}
	if (next)
		next(asked, allocated, reserved, device);
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
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		const struct gm_record live = {.size = before[d].bytes,
					       .held = before[d].n,
					       .id = GM_TENSORS_BEFORE,
					       .stack = GM_STACK_BEFORE,
					       .device = (uint8_t)d,
					       .kind = GM_RECORD_TENSOR_LIVE};
		if (before[d].n)
			each(arg, &live);
	}
	gm_lock_release(&lock);
}

void gm_tensors_clear(void)
{
	struct tensor *tensor, *next;
	gm_lock_take(&lock);
	HASH_ITER(hh, tensors, tensor, next)
	{
		HASH_DEL(tensors, tensor);
		free(tensor);
	}
	memset(before, 0, sizeof before);
	gm_lock_release(&lock);
}

void gm_tensors_add_before(void)
{
	gm_lock_take(&lock);
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		before[d].n =
			gm_counter_get(d, GM_C_tensor_calls) - gm_counter_get(d, GM_C_tensor_frees);
		before[d].bytes = gm_counter_get(d, GM_C_tensor_bytes);
	}
	/* Those that were made since the recording began are known. */
	for (const struct tensor *tensor = tensors; tensor; tensor = tensor->hh.next) {
		const uint64_t bytes = before[tensor->device].bytes;
		before[tensor->device].n -= before[tensor->device].n > 0;
		before[tensor->device].bytes -= tensor->bytes < bytes ? tensor->bytes : bytes;
	}
	gm_lock_release(&lock);
}

void gm_tensors_forget(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	tensors = spare = NULL;
	ids = 0;
	memset(before, 0, sizeof before);
}
