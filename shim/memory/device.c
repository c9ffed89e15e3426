/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/memory/device.h"

#include <string.h>

#include "base/msg.h"
#include "base/size.h"
#include "base/tick.h"
#include "knob/knob.h"
#include "pool/knobs.h"
#include "shim/block/network.h"
#include "shim/call.h"
#include "shim/context/peer.h"
#include "shim/foreign/foreign.h"
#include "shim/foreign/managed.h"
#include "shim/idle/give.h"
#include "shim/idle/trim.h"
#include "shim/ipc/ipc.h"
#include "shim/kernel/launch.h"
#include "shim/memory/limit.h"
#include "shim/sleep/sleep.h"
#include "shim/torch/cache.h"
#include "shim/torch/lend.h"
#include "shim/torch/tensors.h"
#include "stack/held.h"
#include "stack/table.h"

unsigned gm_shim_n_devices;
const struct gm_order_ops *gm_shim_order;
struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];

static int device_attribute(CUdevice device, CUdevice_attribute attribute)
{
	int value = 0;
	if (gm_shim_driver.cuDeviceGetAttribute(&value, attribute, device) != CUDA_SUCCESS)
		return 0;
	return value;
}

static void device_find(unsigned ordinal, bool pools, struct gm_log_device *log)
{
	struct gm_shim_device *d = &gm_shim_devices[ordinal];
	struct gm_pool_config config;
	CUuuid uuid;
	size_t total = 0;
	if (gm_shim_driver.cuDeviceGet(&d->handle, (int)ordinal) != CUDA_SUCCESS)
		return;
	gm_shim_driver.cuDeviceGetName(log->name, (int)sizeof log->name, d->handle);
	if (gm_shim_driver.cuDeviceGetUuid(&uuid, d->handle) == CUDA_SUCCESS)
		memcpy(log->uuid, memcpy(d->uuid, uuid.bytes, sizeof d->uuid), sizeof log->uuid);
	gm_shim_driver.cuDeviceTotalMem_v2(&total, d->handle);
	log->total = d->total = total;
	gm_pool_config_knobs(&config, gm_knob_get(), total);
	d->limit = pools ? config.limit : UINT64_MAX;
	if (!pools)
		return;
	d->pitch = (size_t)device_attribute(d->handle, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
	d->on = device_attribute(d->handle,
				 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	if (!d->on)
		gm_msg(GM_MSG_WARN,
		       "device %u (%s) has no virtual memory management: its memory is left to the "
		       "driver",
		       ordinal, log->name);
}

void gm_shim_devices_find(bool pools, struct gm_log_device *log)
{
	int count = 0;
	gm_shim_driver.cuDeviceGetCount(&count);
	gm_shim_n_devices = count < GM_COUNTER_DEVICES ? (unsigned)count : GM_COUNTER_DEVICES;
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		device_find(i, pools, &log[i]);
}

static void device_leave_to_driver(unsigned ordinal, CUresult why)
{
	if (atomic_exchange(&gm_shim_devices[ordinal].on, false))
		gm_msg(GM_MSG_WARN, "no pool on device %u (%s): its memory is left to the driver",
		       ordinal, gm_driver_error(&gm_shim_driver, why));
}

/* Is the error due to the device, rather than to this moment or to a broken context? */
static bool error_is_lasting(CUresult why)
{
	switch (why) {
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_OPERATING_SYSTEM:
	case CUDA_ERROR_NOT_PERMITTED:
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_UNKNOWN:
		return true;
	default:
		return false;
	}
}

void gm_shim_pool_failed(unsigned ordinal, CUresult why)
{
	struct gm_pool_stats stats;
	gm_pool_stats(gm_shim_pool_if_any(ordinal), &stats);
	if (stats.mapped_peak == 0 && error_is_lasting(why))
		device_leave_to_driver(ordinal, why);
}

/* No pool needs a sample before this time: asking each pool would more than double the cost of a
 * call. The first sample of a pool that is made while another thread polls may be one pause late.
 */
static _Atomic uint64_t next_sample;

/* False: the device is left to the driver. */
static bool pool_prewarm(unsigned ordinal, struct gm_pool *pool)
{
	char text[32];
	struct gm_shim_device *d = &gm_shim_devices[ordinal];
	uint64_t bytes = gm_pool_knob_bytes(gm_knob_get()->prewarm.share, d->total);
	CUresult result = bytes ? gm_pool_prewarm(pool, bytes) : CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		return true;
	gm_shim_pool_failed(ordinal, result);
	if (!atomic_load(&d->on))
		return false;
	if (gm_knob_origin(GM_KNOB_ID_prewarm).source != GM_KNOB_DEFAULT)
		gm_msg(GM_MSG_WARN, "GPUMEM_PREWARM: device %u has no %s, none is mapped (%s)",
		       ordinal, gm_size_format(bytes, text, sizeof text),
		       gm_driver_error(&gm_shim_driver, result));
	return true;
}

/* Shows a user that the preload works. */
static void pool_announce(unsigned ordinal)
{
	char name[96] = "?";
	const char *log = gm_log_path();
	if (gm_knob_get()->verbose.choice < GM_MSG_NOTICE)
		return;
	gm_shim_driver.cuDeviceGetName(name, (int)sizeof name, gm_shim_devices[ordinal].handle);
	if (log)
		gm_msg(GM_MSG_NOTICE,
		       "version " PACKAGE_VERSION ": pool on device %u (%s), log " GM_MSG_TEXT,
		       ordinal, name, GM_MSG_CUT(log));
	else
		gm_msg(GM_MSG_NOTICE, "version " PACKAGE_VERSION ": pool on device %u (%s), no log",
		       ordinal, name);
}

static void outside_measure(unsigned ordinal)
{
	gm_limit_measure(ordinal);
}

static struct gm_pool *pool_make(unsigned ordinal)
{
	struct gm_shim_device *d = &gm_shim_devices[ordinal];
	const struct gm_knobs *knobs = gm_knob_get();
	struct gm_pool_config config = {
		.driver = &gm_shim_driver,
		.device = d->handle,
		.ordinal = ordinal,
		.fences = gm_fence_ops(&gm_shim_driver),
		.fence_arg = &gm_shim_driver,
		.defer = knobs->free.choice != GM_FREE_SYNC,
		.order = gm_shim_order,
		.unordered = knobs->free.choice == GM_FREE_ORDERED && !gm_shim_order,
		.idle = knobs->trim_after.trim.after == UINT64_MAX ? NULL
			: knobs->trim_after.trim.after == 0	   ? gm_trim_idle_now
								   : gm_trim_idle,
		.crowded = knobs->trim_after.trim.after == UINT64_MAX ? NULL : gm_trim_idle_now,
		.may_remap = gm_shim_may_remap,
		.clock = gm_clock_coarse_ns,
		.outside = gm_limit_outside(ordinal),
		.measure = d->limit == UINT64_MAX ? NULL : outside_measure,
	};
	gm_pool_config_knobs(&config, knobs, d->total);
	config.short_handles = gm_lend_is_on();
	struct gm_pool *pool, *there = NULL;
	CUresult result = gm_pool_create(&config, &pool);
	if (result != CUDA_SUCCESS) {
		device_leave_to_driver(ordinal, result);
		return NULL;
	}
	if (!atomic_compare_exchange_strong(&d->pool, &there, pool)) {
		gm_pool_destroy(pool);
		return there;
	}
	gm_counter_set(0, GM_C_torch_cache, gm_shim_torch_caches());
	gm_tick_calibrate();
	gm_peer_apply(ordinal, pool);
	atomic_store_explicit(&next_sample, 0, memory_order_relaxed);
	if (!pool_prewarm(ordinal, pool))
		return NULL;
	atomic_fetch_or_explicit(&gm_launch_watched, GM_LAUNCH_POOLED, memory_order_relaxed);
	gm_managed_changed();
	pool_announce(ordinal);
	gm_give_made(ordinal);
	gm_sleep_join(ordinal);
	return pool;
}

struct gm_pool *gm_shim_pool_made(unsigned ordinal)
{
	if (ordinal >= gm_shim_n_devices ||
	    !atomic_load_explicit(&gm_shim_devices[ordinal].on, memory_order_relaxed))
		return NULL;
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	return GM_LIKELY(pool != NULL) ? pool : pool_make(ordinal);
}

struct gm_pool *gm_shim_pool_at(CUdeviceptr address)
{
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (pool && gm_pool_reserves(pool, address))
			return pool;
	}
	return NULL;
}

struct gm_pool *gm_shim_find(CUdeviceptr address, struct gm_block *block)
{
	struct gm_pool *pool = gm_shim_pool_at(address);
	if (pool)
		gm_pool_find(pool, address, block);
	return pool;
}

bool gm_shim_find_live(CUdeviceptr address, struct gm_block *block, bool *ours)
{
	*ours = gm_shim_find(address, block) || gm_ipc_find(address, block);
	return *ours && block->live && address - block->base < block->size;
}

struct walk {
	void (*each)(void *arg, const struct gm_record *live);
	void *arg;
};

static void live_walk(const struct walk *w, const struct gm_block *b, unsigned flags)
{
	struct gm_record live = {
		.address = b->base,
		.size = b->size,
		.held = b->held,
		.id = b->id,
		.context = (uint32_t)b->context,
		.flags = (uint16_t)flags,
		.device = (uint8_t)b->ordinal,
		.kind = GM_RECORD_LIVE,
	};
	if (gm_held_may(b->size)) {
		live.stack = gm_held_stack(b->id);
		gm_table_write(live.stack);
	}
	w->each(w->arg, &live);
}

static void walk_block(void *arg, const struct gm_block *b)
{
	live_walk(arg, b, 0);
}

static void walk_foreign(void *arg, const struct gm_foreign *f)
{
	const struct gm_block block = gm_foreign_block(f);
	live_walk(arg, &block, GM_RECORD_DRIVER);
}

void gm_shim_walk(void (*each)(void *arg, const struct gm_record *live), void *arg)
{
	struct walk w = {each, arg};
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (pool)
			gm_pool_walk(pool, walk_block, &w);
	}
	gm_foreign_each(GM_FOREIGN_DRIVER, walk_foreign, &w);
	gm_tensors_walk(each, arg);
}

static void pool_sample(unsigned ordinal, const struct gm_pool *pool, uint64_t now)
{
	struct gm_sample sample;
	struct gm_record record = {
		.time = now,
		.device = (uint8_t)ordinal,
		.kind = GM_RECORD_SAMPLE,
	};
	gm_pool_sample(pool, &sample);
	gm_log_put_sample(&record, &sample);
}

static __attribute__((noinline)) void pools_sample(uint64_t now, bool last)
{
	uint64_t seen = atomic_load_explicit(&next_sample, memory_order_relaxed), next = UINT64_MAX;
	gm_tick_calibrate();
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (!pool)
			continue;
		if (last || gm_log_sample_due(i, now))
			pool_sample(i, pool, now);
		uint64_t due = gm_log_sample_next(i);
		next = due < next ? due : next;
	}
	atomic_compare_exchange_strong_explicit(&next_sample, &seen, next, memory_order_relaxed,
						memory_order_relaxed);
}

void gm_shim_sample(uint64_t now, bool last)
{
	if (GM_UNLIKELY(last || now >= atomic_load_explicit(&next_sample, memory_order_relaxed)))
		pools_sample(now, last);
}

void gm_shim_devices_leave(uint64_t now)
{
	if (now)
		gm_shim_sample(now, false);
}

void gm_shim_devices_forget(void)
{
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		atomic_store_explicit(&gm_shim_devices[i].pool, NULL, memory_order_relaxed);
	gm_shim_n_devices = 0;
	gm_shim_order = NULL;
	atomic_store_explicit(&next_sample, 0, memory_order_relaxed);
}
