/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of the process and their pools. Any thread, no lock held. */
#ifndef GM_SHIM_MEMORY_DEVICE_H
#define GM_SHIM_MEMORY_DEVICE_H

#include <stdatomic.h>

#include "base/debug.h"
#include "log/counters.h"
#include "log/log.h"
#include "pool/pool.h"

/* An address in no allocation: the driver answers for it as for a freed one. */
#define GM_NOWHERE ((CUdeviceptr)1)

struct gm_shim_device {
	CUdevice handle;
	unsigned char uuid[16];
	atomic_bool on; /* its virtual memory management works */
	uint64_t total; /* bytes */
	uint64_t limit; /* GPUMEM_LIMIT here, bytes; UINT64_MAX: none */
	size_t pitch;	/* rows of cuMemAllocPitch start at multiples of this */
	_Atomic(struct gm_pool *) pool;
};

extern GM_HIDDEN unsigned gm_shim_n_devices;
extern GM_HIDDEN struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];

/* Query the driver's devices, once, at the start. `pools` is false with GPUMEM_MODE=trace. */
void gm_shim_devices_find(bool pools, struct gm_log_device *log);

/* The pool of a device could not allocate, for a reason other than a lack of memory. If it has
 * never allocated, the device is left to the driver from now on, with a warning. */
void gm_shim_pool_failed(unsigned ordinal, CUresult why);

/* The existing pool of a device, or NULL. */
static inline struct gm_pool *gm_shim_pool_if_any(unsigned ordinal)
{
	return ordinal < gm_shim_n_devices
		       ? atomic_load_explicit(&gm_shim_devices[ordinal].pool, memory_order_acquire)
		       : NULL;
}

/* The pool of a device, made on first use; NULL: no pool is possible. Calls the driver. */
struct gm_pool *gm_shim_pool_made(unsigned ordinal);
static inline struct gm_pool *gm_shim_pool(unsigned ordinal)
{
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	if (GM_LIKELY(pool &&
		      atomic_load_explicit(&gm_shim_devices[ordinal].on, memory_order_relaxed)))
		return pool;
	return gm_shim_pool_made(ordinal);
}

/* The pool with `address` in its range, or NULL. Lock-free. */
struct gm_pool *gm_shim_pool_at(CUdeviceptr address);
/* Likewise; *block is the block at `address` (gm_pool_find). */
struct gm_pool *gm_shim_find(CUdeviceptr address, struct gm_block *block);

/* modules.h */
void gm_shim_devices_forget(void);

#endif
