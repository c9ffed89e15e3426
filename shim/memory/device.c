/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/memory/device.h"

#include <string.h>

#include "base/msg.h"
#include "base/size.h"
#include "base/tick.h"
#include "knob/knob.h"
#include "pool/knobs.h"
#include "shim/call.h"
#include "shim/modules.h"

unsigned gm_shim_n_devices;
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
		.clock = gm_clock_coarse_ns,
	};
	gm_pool_config_knobs(&config, knobs, d->total);
	gm_modules_pool_config(ordinal, &config);
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
	gm_tick_calibrate();
	gm_modules_pool_made(ordinal);
	if (!pool_prewarm(ordinal, pool))
		return NULL;
	gm_modules_pool_ready(ordinal);
	pool_announce(ordinal);
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

void gm_shim_devices_forget(void)
{
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		atomic_store_explicit(&gm_shim_devices[i].pool, NULL, memory_order_relaxed);
	gm_shim_n_devices = 0;
}
