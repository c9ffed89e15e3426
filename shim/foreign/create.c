/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Physical memory that the program creates: cuMemCreate. It lives while its handle has an owner or
 * it has a mapping, so both are counted; exports to other processes are not. None of these calls
 * needs a context.
 */
#include "shim/foreign/create.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/lock.h"
#include "log/count.h"
#include "shim/block/network.h"
#include "shim/device.h"
#include "shim/foreign/account.h"
#include "shim/rest.h"
#include "shim/retry.h"

struct memory {
	enum gm_foreign_kind kind; /* GM_FOREIGN_VIEW: not from cuMemCreate, size unknown */
	unsigned ordinal;
	size_t size;
	unsigned owners;
	unsigned refs; /* owners, mappings, and calls in progress that end one */
};

/* A handle with an owner, or a mapped address. */
struct name {
	uint64_t key;
	size_t size; /* of a mapping */
	struct memory *memory;
	UT_hash_handle hh;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static struct name *handles, *mappings; /* under the lock */

static struct name *name_find(struct name *names, uint64_t key)
{
	struct name *name;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_FIND(hh, names, &key, sizeof key, name);
	return name;
}

static bool name_add(struct name **names, uint64_t key, size_t size, struct memory *memory)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	struct name *name = malloc(sizeof *name);
	if (!name)
		return false;
	*name = (struct name){.key = key, .size = size, .memory = memory};
	HASH_ADD(hh, *names, key, sizeof name->key, name);
	if (!gm_hash_failed(name))
		return true;
	free(name);
	return false;
}

static void name_remove(struct name **names, struct name *name)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_DEL(*names, name);
	free(name);
}

/* Drop a reference. */
static void memory_release(struct memory *m)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (--m->refs)
		return;
	gm_account_out(m->kind, m->ordinal, m->size);
	gm_account_freed(m->kind, m->ordinal, m->size);
	free(m);
}

static struct memory *memory_make(uint64_t handle, const struct memory *like)
{
	struct memory *m = malloc(sizeof *m);
	if (!m)
		return NULL;
	*m = *like;
	m->owners = m->refs = 1;
	if (name_add(&handles, handle, 0, m)) {
		gm_account_given(m->kind, m->ordinal, m->size);
		return m;
	}
	free(m);
	return NULL;
}

/* --- handles --- */

static void memory_created(CUmemGenericAllocationHandle handle, size_t size,
			   const CUmemAllocationProp *prop)
{
	struct memory like = {.kind = GM_FOREIGN_CREATED_HOST, .size = size};
	const CUmemLocation *where = &prop->location;
	if (where->type == CU_MEM_LOCATION_TYPE_DEVICE) {
		if (where->id < 0 || (unsigned)where->id >= gm_shim_n_devices)
			return;
		like.kind = GM_FOREIGN_CREATED;
		like.ordinal = (unsigned)where->id;
	}
	gm_lock_take(&lock);
	memory_make(handle, &like);
	gm_lock_release(&lock);
}

static struct memory *memory_mapped_at(CUdeviceptr address)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (const struct name *m = mappings; m; m = m->hh.next)
		if (address - m->key < m->size)
			return m->memory;
	return NULL;
}

/* Add an owner to `handle`, a name of the memory mapped at `address` (0: unknown). */
static void handle_owned(CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
	static const struct memory unknown = {.kind = GM_FOREIGN_VIEW};
	gm_lock_take(&lock);
	const struct name *name = name_find(handles, handle);
	struct memory *m = name ? name->memory : address ? memory_mapped_at(address) : NULL;
	if (!m)
		memory_make(handle, &unknown);
	else if (name || name_add(&handles, handle, 0, m))
		m->owners++, m->refs++;
	gm_lock_release(&lock);
}

/* A call that the driver will refuse is not limited. */
static bool create_begin(const CUmemGenericAllocationHandle *handle, size_t size,
			 const CUmemAllocationProp *prop, unsigned long long flags)
{
	return !handle || !size || size % GM_POOL_GRANULE || flags || !prop ||
	       prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	       gm_limit_begin(gm_lack_where(&prop->location), size);
}

GM_TAKES_WITHIN(cuMemCreate, gm_lack_where(&prop->location), size,
		create_begin(handle, size, prop, flags),
		(CUmemGenericAllocationHandle * handle, size_t size,
		 const CUmemAllocationProp *prop, unsigned long long flags),
		(handle, size, prop, flags), memory_created(*handle, size, prop))
GM_TAKES(cuMemImportFromShareableHandle, GM_LACK_HERE, 0,
	 (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type),
	 (handle, shared, type), (gm_rest_share(), handle_owned(*handle, 0)))

/* Natively only mapped memory has handles, and memory of cuMemAlloc is not mapped. */
static CUresult handle_retain(CUmemGenericAllocationHandle *handle, void *address)
{
	struct gm_block b;
	const struct gm_pool *pool = gm_shim_find((CUdeviceptr)address, &b);
	if (pool) {
		if (b.live && !gm_pool_exports(pool)) /* nor does cuIpcGetMemHandle share it */
			gm_shim_report_network();
		return CUDA_ERROR_INVALID_VALUE;
	}
	CUresult result = GM_PASS(real.cuMemRetainAllocationHandle(handle, address));
	if (result == CUDA_SUCCESS)
		handle_owned(*handle, (CUdeviceptr)address);
	return result;
}
GM_HANDLER(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address),
	   (handle, address), handle_retain(handle, address))

/* The last owner's name is removed before the driver can reuse it for other memory. */
static CUresult handle_release(CUmemGenericAllocationHandle handle)
{
	gm_lock_take(&lock);
	struct name *name = name_find(handles, handle);
	struct memory *m = name ? name->memory : NULL;
	if (m && !--m->owners)
		name_remove(&handles, name);
	gm_lock_release(&lock);
	CUresult result = GM_PASS(real.cuMemRelease(handle));
	if (!m && result == CUDA_SUCCESS)
		gm_counter_add(0, GM_C_foreign_unknown, 1);
	if (!m)
		return result;
	gm_lock_take(&lock);
	if (result == CUDA_SUCCESS)
		memory_release(m);
	else if (name_find(handles, handle) || name_add(&handles, handle, 0, m))
		m->owners++;
	gm_lock_release(&lock);
	return result;
}
GM_HANDLER(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle), handle_release(handle))

/* --- mappings --- */

/* Natively memory of cuMemAlloc is no mapping, and the program has not reserved its addresses:
 * CUDA_ERROR_INVALID_VALUE. The pool's memory is mapped and reserved, so the driver would change it
 * without the pool's knowledge. */
static bool range_is_pools(CUdeviceptr at, size_t size)
{
	return gm_shim_pool_at(at) || (size && gm_shim_pool_at(at + size - 1));
}

#define OTHERS_ONLY(symbol, parameters, arguments, at, size) \
	OTHERS_BY(GM_PASS, symbol, parameters, arguments, at, size)
#define OTHERS_BY(pass, symbol, parameters, arguments, at, size)       \
	GM_HANDLER(symbol, parameters, arguments,                      \
		   range_is_pools(at, size) ? CUDA_ERROR_INVALID_VALUE \
					    : pass(real.symbol arguments))
OTHERS_ONLY(cuMemAddressFree, (CUdeviceptr at, size_t size), (at, size), at, size)
#define PASS_SET_ACCESS(call) GM_PASS_RETRY(cuMemSetAccess, GM_LACK_HERE, 0, call)
OTHERS_BY(PASS_SET_ACCESS, cuMemSetAccess,
	  (CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n), (at, size, desc, n),
	  at, size)
OTHERS_ONLY(cuMemGetLocationInfo,
	    (CUdeviceptr at, size_t size, size_t step, size_t sample, CUmemLocation *where),
	    (at, size, step, sample, where), at, size)
OTHERS_ONLY(cuMulticastBindAddr,
	    (CUmemGenericAllocationHandle group, size_t offset, CUdeviceptr at, size_t size,
	     unsigned long long flags),
	    (group, offset, at, size, flags), at, size)
OTHERS_ONLY(cuMulticastBindAddr_v2,
	    (CUmemGenericAllocationHandle group, CUdevice device, size_t offset, CUdeviceptr at,
	     size_t size, unsigned long long flags),
	    (group, device, offset, at, size, flags), at, size)
OTHERS_ONLY(cuLogicalEndpointBindAddr,
	    (CUlogicalEndpointId endpoint, CUdevice device, cuuint64_t offset, void *at,
	     cuuint64_t size, unsigned long long flags),
	    (endpoint, device, offset, at, size, flags), (CUdeviceptr)at, size)

static CUresult mapping_make(CUdeviceptr at, size_t size, size_t offset,
			     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	if (range_is_pools(at, size)) /* the driver first looks at the offset */
		return offset ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	CUresult result = GM_PASS_RETRY(cuMemMap, GM_LACK_HERE, size,
					real.cuMemMap(at, size, offset, handle, flags));
	if (result != CUDA_SUCCESS)
		return result;
	gm_lock_take(&lock);
	const struct name *name = name_find(handles, handle);
	if (name && !name_find(mappings, at) && name_add(&mappings, at, size, name->memory))
		name->memory->refs++;
	gm_lock_release(&lock);
	return result;
}
GM_HANDLER(cuMemMap,
	   (CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	    unsigned long long flags),
	   (at, size, offset, handle, flags), mapping_make(at, size, offset, handle, flags))

/* The driver unmaps all mappings in [at, at + size) or none. */
static CUresult mapping_end(CUdeviceptr at, size_t size)
{
	GM_ARRAY(struct name) out = {0};
	if (range_is_pools(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	gm_lock_take(&lock);
	for (CUdeviceptr next = at; next - at < size; next += out.at[out.n - 1].size) {
		struct name *name = name_find(mappings, next);
		if (!name || !gm_array_push(&out, *name))
			break;
		name_remove(&mappings, name);
	}
	gm_lock_release(&lock);
	CUresult result = GM_PASS(real.cuMemUnmap(at, size));
	gm_lock_take(&lock);
	for (size_t i = 0; i < out.n; i++) {
		const struct name *name = &out.at[i];
		if (result == CUDA_SUCCESS)
			memory_release(name->memory);
		else
			name_add(&mappings, name->key, name->size, name->memory);
	}
	gm_lock_release(&lock);
	gm_array_free(&out);
	return result;
}
GM_HANDLER(cuMemUnmap, (CUdeviceptr at, size_t size), (at, size), mapping_end(at, size))

void gm_create_forget_all(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	handles = mappings = NULL;
}
