/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/foreign/physical.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/list.h"
#include "shim/call.h"
#include "shim/foreign/account.h"

/* The driver's handles are pointers, or small numbers. */
#define OURS (UINT64_C(0x676d) << 48)
#define OURS_MASK (UINT64_C(0xffff) << 48)

/* A handle with an owner. */
struct name {
	uint64_t handle;
	struct gm_physical *memory;
	UT_hash_handle hh;
};

struct gm_lock gm_physical_lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
struct gm_physical *gm_physical_list;
static struct name *names;	    /* under the lock */
static struct gm_mapping *mappings; /* likewise */
static atomic_size_t handles;	    /* of ours, so far */

uint64_t gm_physical_handle(void)
{
	return OURS | (atomic_fetch_add(&handles, 1) + 1);
}

bool gm_physical_is_ours(uint64_t handle)
{
	return (handle & OURS_MASK) == OURS;
}

/* --- handles --- */

static struct name *name_find(uint64_t handle)
{
	struct name *name;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_FIND(hh, names, &handle, sizeof handle, name);
	return name;
}

static bool name_add(uint64_t handle, struct gm_physical *memory)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	struct name *name = malloc(sizeof *name);
	if (!name)
		return false;
	*name = (struct name){.handle = handle, .memory = memory};
	HASH_ADD(hh, names, handle, sizeof name->handle, name);
	if (!gm_hash_failed(name))
		return true;
	free(name);
	return false;
}

struct gm_physical *gm_physical_find(uint64_t handle)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	const struct name *name = name_find(handle);
	return name ? name->memory : NULL;
}

struct gm_physical *gm_physical_make(uint64_t handle, const struct gm_physical *like)
{
	struct gm_physical *m = malloc(sizeof *m);
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!m)
		return NULL;
	*m = *like;
	m->owners = m->refs = 1;
	if (!name_add(handle, m)) {
		free(m);
		return NULL;
	}
	if (m->handle)
		DL_APPEND(gm_physical_list, m);
	gm_account_given(m->kind, m->ordinal, m->size);
	return m;
}

bool gm_physical_own(struct gm_physical *memory, uint64_t handle)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!name_find(handle) && !name_add(handle, memory))
		return false;
	memory->owners++;
	return true;
}

void gm_physical_disown(struct gm_physical *memory, uint64_t handle)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	struct name *name = name_find(handle);
	if (--memory->owners || !name)
		return;
	HASH_DEL(names, name);
	free(name);
}

CUmemGenericAllocationHandle gm_physical_drop(struct gm_physical *memory)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (--memory->refs)
		return 0;
	gm_account_out(memory->kind, memory->ordinal, memory->size);
	gm_account_freed(memory->kind, memory->ordinal, memory->size);
	const CUmemGenericAllocationHandle end = memory->real;
	memory->real = 0;
	if (memory->away || memory->window) /* the next fetch drops what is stored */
		return end;
	if (memory->handle)
		DL_DELETE(gm_physical_list, memory);
	free(memory);
	return end;
}

CUresult gm_physical_end(CUmemGenericAllocationHandle real_handle)
{
	return GM_PASS(real.cuMemRelease(real_handle));
}

/* --- mappings --- */

struct gm_mapping *gm_mapping_at(CUdeviceptr at)
{
	struct gm_mapping *mapping;
	uint64_t key = at;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_FIND(hh, mappings, &key, sizeof key, mapping);
	return mapping;
}

struct gm_mapping *gm_mapping_over(CUdeviceptr address)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	struct gm_mapping *found = gm_mapping_at(address);
	for (struct gm_mapping *m = found ? NULL : mappings; m && !found; m = m->hh.next)
		if (address - m->at < m->size)
			found = m;
	return found;
}

bool gm_mapping_back(struct gm_mapping *mapping)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_ADD(hh, mappings, at, sizeof mapping->at, mapping);
	if (gm_hash_failed(mapping))
		return false;
	DL_APPEND(mapping->memory->mappings, mapping);
	return true;
}

bool gm_mapping_make(CUdeviceptr at, size_t size, struct gm_physical *memory)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	struct gm_mapping *mapping = calloc(1, sizeof *mapping);
	if (!mapping)
		return false;
	mapping->at = at;
	mapping->size = size;
	mapping->memory = memory;
	if (!gm_mapping_back(mapping)) {
		free(mapping);
		return false;
	}
	memory->refs++;
	return true;
}

void gm_mapping_out(struct gm_mapping *mapping)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	HASH_DEL(mappings, mapping);
	DL_DELETE(mapping->memory->mappings, mapping);
}

/* --- questions --- */

bool gm_physical_may_leave(CUdeviceptr address)
{
	gm_lock_take(&gm_physical_lock);
	const struct gm_mapping *mapping = gm_physical_list ? gm_mapping_over(address) : NULL;
	bool may = mapping && mapping->memory->handle;
	gm_lock_release(&gm_physical_lock);
	return may;
}

bool gm_physical_access(CUdeviceptr address, int device, unsigned long long *flags)
{
	gm_lock_take(&gm_physical_lock);
	const struct gm_mapping *mapping = gm_physical_list ? gm_mapping_over(address) : NULL;
	bool gone = mapping && mapping->gone && device >= 0 && device < GM_COUNTER_DEVICES;
	if (gone)
		*flags = mapping->access[device];
	gm_lock_release(&gm_physical_lock);
	return gone;
}

void gm_physical_keep(CUdeviceptr at, size_t size)
{
	gm_lock_take(&gm_physical_lock);
	for (struct gm_physical *m = gm_physical_list; m; m = m->next)
		for (const struct gm_mapping *p = m->mappings; p && !m->stays; p = p->next)
			m->stays = p->at < at + size && at < p->at + p->size;
	gm_lock_release(&gm_physical_lock);
}

bool gm_physical_any(void)
{
	gm_lock_take(&gm_physical_lock);
	bool any = gm_physical_list;
	gm_lock_release(&gm_physical_lock);
	return any;
}

struct gm_physical_bytes gm_physical_bytes(unsigned ordinal)
{
	struct gm_physical_bytes bytes = {0};
	gm_lock_take(&gm_physical_lock);
	for (const struct gm_physical *m = gm_physical_list; m; m = m->next) {
		if (m->ordinal != ordinal || !m->refs)
			continue;
		bytes.away += m->away && !m->real ? m->size : 0;
		bytes.moves += !m->away && !m->stays ? m->size : 0;
	}
	gm_lock_release(&gm_physical_lock);
	return bytes;
}

void gm_physical_forget_all(void)
{
	gm_lock_init(&gm_physical_lock, GM_LOCK_RANK_TABLE);
	gm_physical_list = NULL;
	names = NULL;
	mappings = NULL;
}
