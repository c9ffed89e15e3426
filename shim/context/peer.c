/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer access. The program enables it between two contexts, but memory of a pool is opened to a
 * device. So a pool stays open to a device while any context of that device has access. A pool that
 * a copy needed stays open permanently: closing it would break a copy in progress.
 */
#include "shim/context/peer.h"

#include <string.h>

#include "base/array.h"
#include "shim/call.h"
#include "shim/memory/device.h"

struct pair {
	uint64_t reader, owner; /* keys of contexts */
	unsigned reader_ordinal, owner_ordinal;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static GM_ARRAY(struct pair) pairs; /* under the lock */
static atomic_uint_fast64_t
	kept[GM_COUNTER_DEVICES]; /* by owner; bit i: open to device i permanently */

static bool pair_exists(unsigned owner, unsigned reader)
{
	bool found = false;
	gm_lock_take(&lock);
	for (size_t i = 0; i < pairs.n && !found; i++)
		found = pairs.at[i].owner_ordinal == owner && pairs.at[i].reader_ordinal == reader;
	gm_lock_release(&lock);
	return found;
}

bool gm_peer_is_enabled(uint64_t owner, unsigned ordinal)
{
	CUresult ignored;
	bool found = false;
	struct gm_context *reader = gm_context_current(&gm_shim_driver, &ignored);
	if (!reader || reader->ordinal == ordinal)
		return true;
	gm_lock_take(&lock);
	for (size_t i = 0; i < pairs.n && !found; i++)
		found = pairs.at[i].owner == owner && pairs.at[i].reader == reader->key;
	gm_lock_release(&lock);
	return found;
}

static CUresult pool_grant(struct gm_pool *pool, unsigned reader)
{
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = gm_pool_grant(pool, gm_shim_devices[reader].handle);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	return result;
}

static bool device_can_access(unsigned owner, unsigned reader)
{
	int can = 0;
	return gm_shim_driver.cuDeviceCanAccessPeer(&can, gm_shim_devices[reader].handle,
						    gm_shim_devices[owner].handle) ==
		       CUDA_SUCCESS &&
	       can;
}

bool gm_peer_reach(unsigned owner, unsigned reader)
{
	struct gm_pool *pool = gm_shim_pool_if_any(owner);
	uint64_t bit = (uint64_t)1 << reader;
	if (owner == reader)
		return true;
	if (!pool || reader >= gm_shim_n_devices)
		return false;
	if (atomic_load_explicit(&kept[owner], memory_order_acquire) & bit)
		return true;
	if (!device_can_access(owner, reader) || pool_grant(pool, reader) != CUDA_SUCCESS)
		return false;
	atomic_fetch_or_explicit(&kept[owner], bit, memory_order_release);
	return true;
}

void gm_peer_pool_made(unsigned owner)
{
	struct gm_pool *pool = gm_shim_pool_if_any(owner);
	for (unsigned reader = 0; reader < gm_shim_n_devices; reader++)
		if (reader != owner && pair_exists(owner, reader))
			pool_grant(pool, reader);
}

/* Add or remove a pair. False: no change, or no host memory. */
static bool pair_change(const struct pair *p, bool add)
{
	size_t i = 0;
	bool done;
	gm_lock_take(&lock);
	while (i < pairs.n && (pairs.at[i].reader != p->reader || pairs.at[i].owner != p->owner))
		i++;
	if (add)
		done = i == pairs.n && gm_array_push(&pairs, *p);
	else if ((done = i < pairs.n))
		pairs.at[i] = pairs.at[--pairs.n];
	gm_lock_release(&lock);
	return done;
}

static bool pair_make(CUcontext peer, struct pair *p)
{
	CUresult result;
	struct gm_context *reader = gm_context_current(&gm_shim_driver, &result);
	struct gm_context *owner = gm_context_of(&gm_shim_driver, peer, &result);
	if (!reader || !owner)
		return false;
	*p = (struct pair){reader->key, owner->key, reader->ordinal, owner->ordinal};
	return reader->ordinal != owner->ordinal;
}

/* On failure the pair does not exist. */
static CUresult pair_enabled(const struct pair *p)
{
	struct gm_pool *pool = gm_shim_pool_if_any(p->owner_ordinal);
	/* gm_peer_pool_made opens a pool that is made from now on. */
	if (!pair_change(p, true) || !pool)
		return CUDA_SUCCESS;
	CUresult result = pool_grant(pool, p->reader_ordinal);
	if (result != CUDA_SUCCESS)
		pair_change(p, false);
	return result;
}

static void pair_disabled(const struct pair *p)
{
	struct gm_pool *pool = gm_shim_pool_if_any(p->owner_ordinal);
	uint64_t bit = (uint64_t)1 << p->reader_ordinal;
	if (!pair_change(p, false) || !pool || pair_exists(p->owner_ordinal, p->reader_ordinal) ||
	    atomic_load_explicit(&kept[p->owner_ordinal], memory_order_acquire) & bit)
		return;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	gm_pool_revoke(pool, gm_shim_devices[p->reader_ordinal].handle);
	gm_driver_quiet_end(&gm_shim_driver, mode);
}

static CUresult peer_enable(CUcontext peer, unsigned flags)
{
	struct pair p;
	CUresult result = GM_PASS(real.cuCtxEnablePeerAccess(peer, flags));
	if (result != CUDA_SUCCESS || !pair_make(peer, &p))
		return result;
	result = pair_enabled(&p);
	if (result != CUDA_SUCCESS)
		real.cuCtxDisablePeerAccess(peer);
	return result;
}

static CUresult peer_disable(CUcontext peer)
{
	struct pair p;
	CUresult result = GM_PASS(real.cuCtxDisablePeerAccess(peer));
	if (result == CUDA_SUCCESS && pair_make(peer, &p))
		pair_disabled(&p);
	return result;
}

GM_HANDLER(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags), (peer, flags),
	   peer_enable(peer, flags))
GM_HANDLER(cuCtxDisablePeerAccess, (CUcontext peer), (peer), peer_disable(peer))

/* The pools stay open: no context remains on the reading device, or another context has access. */
void gm_peer_context_gone(struct gm_context *context)
{
	uint64_t key = context->key;
	gm_lock_take(&lock);
	for (size_t i = 0; i < pairs.n;) {
		if (pairs.at[i].reader == key || pairs.at[i].owner == key)
			pairs.at[i] = pairs.at[--pairs.n];
		else
			i++;
	}
	gm_lock_release(&lock);
}

void gm_peer_forget_all(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	pairs.at = NULL;
	pairs.n = pairs.room = 0;
	memset(kept, 0, sizeof kept);
}
