/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Physical memory of others: cuMemCreate. It lives as long as anybody owns its handle or it is
 * mapped anywhere, so both are followed; what is exported to other processes is not. No context is
 * needed for any of these calls.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "foreign.h"

struct memory {
	enum gm_foreign_kind kind; /* GM_FOREIGN_VIEW: it came another way, its size is unknown */
	unsigned ordinal;
	size_t size;
	unsigned owners;
	unsigned refs; /* owners, mappings, and calls in flight that give either up */
};

/* A handle, while it is owned, and a mapped address. */
struct name {
	uint64_t key;
	size_t size; /* of a mapping */
	struct memory *memory;
	UT_hash_handle hh;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static struct name *handles, *mappings;

/* All below, but the handlers, under the lock. */

static struct name *lookup(struct name *names, uint64_t key)
{
	struct name *name;
	HASH_FIND(hh, names, &key, sizeof key, name);
	return name;
}

static bool enter(struct name **names, uint64_t key, size_t size, struct memory *memory)
{
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

static void leave(struct name **names, struct name *name)
{
	HASH_DEL(*names, name);
	free(name);
}

/* One who had it has it no more. */
static void drop(struct memory *m)
{
	if (--m->refs)
		return;
	gm_account_out(m->kind, m->ordinal, m->size);
	gm_account_freed(m->kind, m->ordinal, m->size);
	free(m);
}

static struct memory *make(uint64_t handle, const struct memory *like)
{
	struct memory *m = malloc(sizeof *m);
	if (!m)
		return NULL;
	*m = *like;
	m->owners = m->refs = 1;
	if (enter(&handles, handle, 0, m)) {
		gm_account_given(m->kind, m->ordinal, m->size);
		return m;
	}
	free(m);
	return NULL;
}

/* --- handles --- */

static void created(CUmemGenericAllocationHandle handle, size_t size,
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
	make(handle, &like);
	gm_lock_release(&lock);
}

static struct memory *mapped_at(CUdeviceptr address)
{
	for (const struct name *m = mappings; m; m = m->hh.next)
		if (address - m->key < m->size)
			return m->memory;
	return NULL;
}

/* One more owner of `handle`, which names the memory at `address` (0: not known where). */
static void owned(CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
	static const struct memory unknown = {.kind = GM_FOREIGN_VIEW};
	gm_lock_take(&lock);
	const struct name *name = lookup(handles, handle);
	struct memory *m = name ? name->memory : address ? mapped_at(address) : NULL;
	if (!m)
		make(handle, &unknown);
	else if (name || enter(&handles, handle, 0, m))
		m->owners++, m->refs++;
	gm_lock_release(&lock);
}

GM_TAKES(cuMemCreate,
	 (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop,
	  unsigned long long flags),
	 (handle, size, prop, flags), created(*handle, size, prop))
GM_TAKES(cuMemImportFromShareableHandle,
	 (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type),
	 (handle, shared, type), owned(*handle, 0))

/* Natively a handle can be had of mapped memory only, and cuMemAlloc's is not. */
static CUresult retain(CUmemGenericAllocationHandle *handle, void *address)
{
	struct gm_block b;
	if (gm_shim_find((CUdeviceptr)address, &b)) {
		if (b.live)
			gm_shim_note_network();
		return CUDA_ERROR_INVALID_VALUE;
	}
	CUresult result = GM_PASS(real.cuMemRetainAllocationHandle(handle, address));
	if (result == CUDA_SUCCESS)
		owned(*handle, (CUdeviceptr)address);
	return result;
}
GM_ANSWERS(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address),
	   (handle, address), retain(handle, address))

/* The last owner's name goes before the driver can hand it out again. */
static CUresult give_up(CUmemGenericAllocationHandle handle)
{
	gm_lock_take(&lock);
	struct name *name = lookup(handles, handle);
	struct memory *m = name ? name->memory : NULL;
	if (m && !--m->owners)
		leave(&handles, name);
	gm_lock_release(&lock);
	CUresult result = GM_PASS(real.cuMemRelease(handle));
	if (!m && result == CUDA_SUCCESS)
		gm_counter_add(0, GM_C_foreign_unknown, 1);
	if (!m)
		return result;
	gm_lock_take(&lock);
	if (result == CUDA_SUCCESS)
		drop(m);
	else if (lookup(handles, handle) || enter(&handles, handle, 0, m))
		m->owners++;
	gm_lock_release(&lock);
	return result;
}
GM_ANSWERS(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle), give_up(handle))

/* --- mappings --- */

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		    unsigned long long flags)
{
	CUresult result = GM_PASS(real.cuMemMap(at, size, offset, handle, flags));
	if (result != CUDA_SUCCESS)
		return result;
	gm_lock_take(&lock);
	const struct name *name = lookup(handles, handle);
	if (name && !lookup(mappings, at) && enter(&mappings, at, size, name->memory))
		name->memory->refs++;
	gm_lock_release(&lock);
	return result;
}
GM_ANSWERS(cuMemMap,
	   (CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	    unsigned long long flags),
	   (at, size, offset, handle, flags), map(at, size, offset, handle, flags))

/* The driver unmaps the mappings in [at, at + size) whole or not at all. */
static CUresult unmap(CUdeviceptr at, size_t size)
{
	GM_ARRAY(struct name) out = {0};
	gm_lock_take(&lock);
	for (CUdeviceptr next = at; next - at < size; next += out.at[out.n - 1].size) {
		struct name *name = lookup(mappings, next);
		if (!name || !gm_array_push(&out, *name))
			break;
		leave(&mappings, name);
	}
	gm_lock_release(&lock);
	CUresult result = GM_PASS(real.cuMemUnmap(at, size));
	gm_lock_take(&lock);
	for (size_t i = 0; i < out.n; i++) {
		const struct name *name = &out.at[i];
		if (result == CUDA_SUCCESS)
			drop(name->memory);
		else
			enter(&mappings, name->key, name->size, name->memory);
	}
	gm_lock_release(&lock);
	gm_array_free(&out);
	return result;
}
GM_ANSWERS(cuMemUnmap, (CUdeviceptr at, size_t size), (at, size), unmap(at, size))

void gm_create_forget_all(void)
{
	gm_lock_init(&lock, GM_RANK_TABLE);
	handles = mappings = NULL;
}
