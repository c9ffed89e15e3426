/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer access. The program enables it between two contexts; memory of a pool is opened per device,
 * so a pool stays open to a device while any of its contexts has access, and, once a copy needed
 * it, for good: closing it under a copy in flight would break that copy.
 */
#include <string.h>

#include "base/array.h"
#include "handlers.h"

struct pair {
	uint64_t reader, owner; /* keys of contexts */
	unsigned reader_ordinal, owner_ordinal;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static GM_ARRAY(struct pair) pairs;
static atomic_uint_fast64_t kept[GM_COUNTER_DEVICES]; /* of an owner: bit i = device i, for good */

static bool has_pair(unsigned owner, unsigned reader)
{
	bool found = false;
	gm_lock_take(&lock);
	for (size_t i = 0; i < pairs.n && !found; i++)
		found = pairs.at[i].owner_ordinal == owner && pairs.at[i].reader_ordinal == reader;
	gm_lock_release(&lock);
	return found;
}

static CUresult grant(struct gm_pool *pool, unsigned reader)
{
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = gm_pool_grant(pool, gm_shim_devices[reader].handle);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	return result;
}

static bool can_access(unsigned owner, unsigned reader)
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
	if (!can_access(owner, reader) || grant(pool, reader) != CUDA_SUCCESS)
		return false;
	atomic_fetch_or_explicit(&kept[owner], bit, memory_order_release);
	return true;
}

void gm_peer_apply(unsigned owner, struct gm_pool *pool)
{
	for (unsigned reader = 0; reader < gm_shim_n_devices; reader++)
		if (reader != owner && has_pair(owner, reader))
			grant(pool, reader);
}

/* False: it was not there, or there is no host memory for it. */
static bool change(const struct pair *p, bool add)
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

static bool make_pair(CUcontext peer, struct pair *p)
{
	CUresult result;
	struct gm_context *reader = gm_context_current(&gm_shim_driver, &result);
	struct gm_context *owner = gm_context_of(&gm_shim_driver, peer, &result);
	if (!reader || !owner)
		return false;
	*p = (struct pair){reader->key, owner->key, reader->ordinal, owner->ordinal};
	return reader->ordinal != owner->ordinal;
}

static void enabled(const struct pair *p)
{
	struct gm_pool *pool = gm_shim_pool_if_any(p->owner_ordinal);
	/* A pool made meanwhile sees the pair. */
	if (change(p, true) && pool)
		grant(pool, p->reader_ordinal);
}

static void disabled(const struct pair *p)
{
	struct gm_pool *pool = gm_shim_pool_if_any(p->owner_ordinal);
	uint64_t bit = (uint64_t)1 << p->reader_ordinal;
	if (!change(p, false) || !pool || has_pair(p->owner_ordinal, p->reader_ordinal) ||
	    atomic_load_explicit(&kept[p->owner_ordinal], memory_order_acquire) & bit)
		return;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	gm_pool_revoke(pool, gm_shim_devices[p->reader_ordinal].handle);
	gm_driver_quiet_end(&gm_shim_driver, mode);
}

CUresult on_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct pair p;
	if (!gm_shim_enter())
		return real.cuCtxEnablePeerAccess(peerContext, Flags);
	CUresult result = GM_PASS(real.cuCtxEnablePeerAccess(peerContext, Flags));
	if (result == CUDA_SUCCESS && make_pair(peerContext, &p))
		enabled(&p);
	gm_shim_leave();
	return result;
}

CUresult on_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct pair p;
	if (!gm_shim_enter())
		return real.cuCtxDisablePeerAccess(peerContext);
	CUresult result = GM_PASS(real.cuCtxDisablePeerAccess(peerContext));
	if (result == CUDA_SUCCESS && make_pair(peerContext, &p))
		disabled(&p);
	gm_shim_leave();
	return result;
}

/* The pools stay open: whoever reads them has a context on that device no longer. */
void gm_peer_context_gone(uint64_t key)
{
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
	gm_lock_init(&lock, GM_RANK_TABLE);
	pairs.at = NULL;
	pairs.n = pairs.room = 0;
	memset(kept, 0, sizeof kept);
}
