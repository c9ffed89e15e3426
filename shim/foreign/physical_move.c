/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMemCreate leaves its device and returns. The contents are copied through a window, a
 * mapping of ours: the program's own mappings may lack access, or may not exist.
 *
 *     out   window opened, copy begun | copy awaited, mappings and window unmapped, handle released
 *     in    handle created, window opened, copy begun | copy awaited, window closed, mappings made
 *
 * The copy of one memory runs while the driver works on the one before, as for the chunks of a pool
 * (pool/away.c). A failure leaves the contents whole in one place.
 */
#include <stdlib.h>

#include "base/list.h"
#include "shim/call.h"
#include "shim/foreign/physical.h"

struct move {
	unsigned ordinal;
	bool away; /* direction: off the device */
	const struct gm_mover *mover;
	struct gm_physical *pending; /* its copy has begun; NULL: none */
	struct gm_moved moved;
};

/* --- driver calls, without the lock: a memory that is `moving` keeps its mappings --- */

static CUresult access_give(CUdeviceptr at, size_t size, const unsigned char *access)
{
	CUmemAccessDesc descs[GM_COUNTER_DEVICES];
	size_t n = 0;
	for (int i = 0; i < GM_COUNTER_DEVICES; i++)
		if (access[i])
			descs[n++] = (CUmemAccessDesc){
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
				.flags = (CUmemAccess_flags)access[i]};
	return n ? gm_shim_driver.cuMemSetAccess(at, size, descs, n) : CUDA_SUCCESS;
}

static CUresult view_make(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle handle,
			  const unsigned char *access)
{
	CUresult result = gm_shim_driver.cuMemMap(at, size, 0, handle, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = access_give(at, size, access);
	if (result != CUDA_SUCCESS)
		gm_shim_driver.cuMemUnmap(at, size);
	return result;
}

/* A window that the driver does not unmap stays open for the next move. */
static CUresult window_close(struct gm_physical *memory)
{
	CUresult result = gm_shim_driver.cuMemUnmap(memory->window, memory->size);
	if (result != CUDA_SUCCESS)
		return result;
	gm_shim_driver.cuMemAddressFree(memory->window, memory->size);
	memory->window = 0;
	return CUDA_SUCCESS;
}

static CUresult window_open(struct gm_physical *memory)
{
	unsigned char access[GM_COUNTER_DEVICES] = {0};
	CUdeviceptr at = 0;
	if (memory->window)
		return CUDA_SUCCESS;
	access[memory->ordinal] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CUresult result = gm_shim_driver.cuMemAddressReserve(&at, memory->size, 0, 0, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = view_make(at, memory->size, memory->real, access);
	if (result == CUDA_SUCCESS)
		memory->window = at;
	else
		gm_shim_driver.cuMemAddressFree(at, memory->size);
	return result;
}

/* --- the program's mappings --- */

static void mapping_set(struct gm_mapping *mapping, bool gone)
{
	gm_lock_take(&gm_physical_lock);
	mapping->gone = gone;
	gm_lock_release(&gm_physical_lock);
}

/* Stop at the first error. */
static CUresult mappings_unmap(const struct gm_physical *memory)
{
	CUresult result = CUDA_SUCCESS;
	for (struct gm_mapping *m = memory->mappings; m && result == CUDA_SUCCESS; m = m->next) {
		if (!m->gone)
			result = gm_shim_driver.cuMemUnmap(m->at, m->size);
		if (result == CUDA_SUCCESS)
			mapping_set(m, true);
	}
	return result;
}

static CUresult mappings_map(const struct gm_physical *memory)
{
	CUresult result = CUDA_SUCCESS;
	for (struct gm_mapping *m = memory->mappings; m && result == CUDA_SUCCESS; m = m->next) {
		if (m->gone)
			result = view_make(m->at, m->size, memory->real, m->access);
		if (result == CUDA_SUCCESS)
			mapping_set(m, false);
	}
	return result;
}

/* --- one memory --- */

static void place_set(struct gm_physical *memory, bool away, CUmemGenericAllocationHandle handle,
		      void *store)
{
	gm_lock_take(&gm_physical_lock);
	memory->away = away;
	memory->real = handle;
	memory->store = store;
	gm_lock_release(&gm_physical_lock);
}

/* The driver may keep the handle, as after a failed call: then the next fetch uses it. */
static void handle_end(struct gm_physical *memory, void *store)
{
	CUresult result = gm_shim_driver.cuMemRelease(memory->real);
	place_set(memory, true, result == CUDA_SUCCESS ? 0 : memory->real, store);
}

static CUresult out_begin(struct move *m, struct gm_physical *memory)
{
	CUresult result = window_open(memory);
	if (result != CUDA_SUCCESS)
		return result;
	void *store = m->mover->out(m->mover->arg, memory->window, memory->size);
	if (store) {
		place_set(memory, false, memory->real, store);
		return CUDA_SUCCESS;
	}
	window_close(memory);
	return CUDA_ERROR_UNKNOWN;
}

static CUresult out_end(struct move *m, struct gm_physical *memory)
{
	void *store = memory->store;
	CUresult result =
		m->mover->finish(m->mover->arg, store) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
	const CUresult closed = window_close(memory);
	if (result == CUDA_SUCCESS)
		result = closed;
	if (result == CUDA_SUCCESS)
		result = mappings_unmap(memory);
	if (result == CUDA_SUCCESS) {
		handle_end(memory, store);
	} else if (mappings_map(memory) == CUDA_SUCCESS) {
		place_set(memory, false, memory->real, NULL);
		m->mover->drop(m->mover->arg, store, memory->size);
	} else { /* some mappings are gone: the next fetch makes them */
		place_set(memory, true, memory->real, store);
	}
	return result;
}

/* What a failed fetch has made ends again; else the next one goes on with this handle. */
static void in_undo(struct gm_physical *memory)
{
	if (!memory->window && mappings_unmap(memory) == CUDA_SUCCESS)
		handle_end(memory, memory->store);
}

static CUresult in_begin(struct move *m, struct gm_physical *memory)
{
	CUmemGenericAllocationHandle handle = memory->real;
	CUresult result = CUDA_SUCCESS;
	if (!handle)
		result = gm_shim_driver.cuMemCreate(&handle, memory->size, &memory->prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	place_set(memory, true, handle, memory->store);
	result = window_open(memory);
	if (result == CUDA_SUCCESS) {
		if (m->mover->in(m->mover->arg, memory->window, memory->size, memory->store))
			return CUDA_SUCCESS;
		window_close(memory);
		result = CUDA_ERROR_UNKNOWN;
	}
	in_undo(memory);
	return result;
}

static CUresult in_end(struct move *m, struct gm_physical *memory)
{
	void *store = memory->store;
	CUresult result =
		m->mover->finish(m->mover->arg, store) ? mappings_map(memory) : CUDA_ERROR_UNKNOWN;
	window_close(memory);
	if (result != CUDA_SUCCESS) {
		in_undo(memory);
		return result;
	}
	place_set(memory, false, memory->real, NULL);
	m->mover->drop(m->mover->arg, store, memory->size);
	return CUDA_SUCCESS;
}

/* --- all memory of a device --- */

static bool memory_moves(const struct move *m, const struct gm_physical *memory)
{
	return memory->ordinal == m->ordinal && memory->refs && !memory->moving &&
	       !memory->ending && memory->away != m->away && !(m->away && memory->stays);
}

/* The next memory from `from` on that moves; the caller has a reference of it. NULL: none. */
static struct gm_physical *memory_begin(const struct move *m, struct gm_physical *from)
{
	gm_lock_take(&gm_physical_lock);
	struct gm_physical *memory = from ? from->next : gm_physical_list;
	while (memory && !memory_moves(m, memory))
		memory = memory->next;
	if (memory) {
		memory->moving = true;
		memory->refs++;
	}
	gm_lock_release(&gm_physical_lock);
	return memory;
}

static void memory_end(struct move *m, struct gm_physical *memory, CUresult result)
{
	if (m->moved.result == CUDA_SUCCESS)
		m->moved.result = result;
	if (result == CUDA_SUCCESS) {
		m->moved.bytes += memory->size;
		m->moved.copied += memory->size;
		m->moved.chunks++;
	}
	gm_lock_take(&gm_physical_lock);
	memory->moving = false;
	CUmemGenericAllocationHandle end = gm_physical_drop(memory);
	gm_lock_release(&gm_physical_lock);
	if (end)
		gm_shim_driver.cuMemRelease(end);
}

static void pending_finish(struct move *m)
{
	struct gm_physical *memory = m->pending;
	m->pending = NULL;
	if (memory)
		memory_end(m, memory, m->away ? out_end(m, memory) : in_end(m, memory));
}

/* The memory being moved keeps its place in the list. */
static struct gm_moved device_move(unsigned ordinal, bool away, const struct gm_mover *mover)
{
	struct move m = {ordinal, away, mover, NULL, {.result = CUDA_SUCCESS}};
	struct gm_physical *memory = memory_begin(&m, NULL);
	while (memory) {
		CUresult result = away ? out_begin(&m, memory) : in_begin(&m, memory);
		pending_finish(&m);
		struct gm_physical *next = result == CUDA_SUCCESS && m.moved.result == CUDA_SUCCESS
						   ? memory_begin(&m, memory)
						   : NULL;
		if (result == CUDA_SUCCESS)
			m.pending = memory;
		else
			memory_end(&m, memory, result);
		memory = next;
	}
	pending_finish(&m);
	return m.moved;
}

/* Contents and windows whose memory the program has freed meanwhile. */
static void freed_drop(const struct gm_mover *mover)
{
	struct gm_physical *memory, *next, *freed = NULL;
	gm_lock_take(&gm_physical_lock);
	DL_FOREACH_SAFE(gm_physical_list, memory, next)
	if (!memory->refs) {
		DL_DELETE(gm_physical_list, memory);
		DL_APPEND(freed, memory);
	}
	gm_lock_release(&gm_physical_lock);
	DL_FOREACH_SAFE(freed, memory, next)
	{
		if (memory->window)
			window_close(memory);
		if (memory->store)
			mover->drop(mover->arg, memory->store, memory->size);
		free(memory);
	}
}

struct gm_moved gm_physical_send(unsigned ordinal, const struct gm_mover *mover)
{
	return device_move(ordinal, true, mover);
}

struct gm_moved gm_physical_fetch(unsigned ordinal, const struct gm_mover *mover)
{
	freed_drop(mover);
	return device_move(ordinal, false, mover);
}
