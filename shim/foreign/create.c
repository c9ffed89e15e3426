/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's calls for physical memory (physical.h): cuMemCreate. Exports to other processes are
 * not counted. None of these calls needs a context.
 *
 *     allocate, map, set access, export, bind    pass the door, so the memory is on the device
 *     unmap, release, retain                     do not: the books change, and the driver is called
 *                                                for what it has
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sys.h"
#include "log/count.h"
#include "shim/block/network.h"
#include "shim/foreign/physical.h"
#include "shim/memory/device.h"
#include "shim/memory/retry.h"
#include "shim/sleep/rest.h"

#define NAP 100000u /* ns between two looks at a mapping that is being moved */

/* --- handles --- */

/* With GPUMEM_SLEEP the program gets a handle of ours for device memory. */
static void memory_created(CUmemGenericAllocationHandle *handle, size_t size,
			   const CUmemAllocationProp *prop)
{
	struct gm_physical like = {.kind = GM_FOREIGN_CREATED_HOST, .size = size};
	const CUmemLocation *where = &prop->location;
	uint64_t name = *handle;
	if (where->type == CU_MEM_LOCATION_TYPE_DEVICE) {
		if (where->id < 0 || (unsigned)where->id >= gm_shim_n_devices)
			return;
		like.kind = GM_FOREIGN_CREATED;
		like.ordinal = (unsigned)where->id;
		if (atomic_load_explicit(&gm_door_used, memory_order_relaxed)) {
			name = like.handle = gm_physical_handle();
			like.real = *handle;
			like.prop = *prop;
		}
	}
	gm_lock_take(&gm_physical_lock);
	if (gm_physical_make(name, &like))
		*handle = name;
	gm_lock_release(&gm_physical_lock);
}

/* Add an owner to `handle`, a name of the memory mapped at `address` (0: unknown). */
static void handle_owned(CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
	static const struct gm_physical unknown = {.kind = GM_FOREIGN_VIEW};
	gm_lock_take(&gm_physical_lock);
	struct gm_physical *m = gm_physical_find(handle);
	if (!m && address) {
		const struct gm_mapping *mapping = gm_mapping_over(address);
		m = mapping ? mapping->memory : NULL;
	}
	if (!m)
		gm_physical_make(handle, &unknown);
	else if (gm_physical_own(m, handle))
		m->refs++;
	gm_lock_release(&gm_physical_lock);
}

/* The driver's handle for a handle of the program; 0, which the driver refuses, for an unknown one
 * of ours. `keep`: others will know the memory, so it stays on the device. */
static CUmemGenericAllocationHandle handle_real(CUmemGenericAllocationHandle handle, bool keep)
{
	if (!gm_physical_is_ours(handle))
		return handle;
	gm_lock_take(&gm_physical_lock);
	struct gm_physical *m = gm_physical_find(handle);
	if (m)
		m->stays |= keep;
	handle = m ? m->real : 0;
	gm_lock_release(&gm_physical_lock);
	return handle;
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
		(handle, size, prop, flags), memory_created(handle, size, prop))
GM_TAKES(cuMemImportFromShareableHandle, GM_LACK_HERE, 0,
	 (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type),
	 (handle, shared, type), (gm_rest_share(), handle_owned(*handle, 0)))

/* False: no memory behind a handle of ours is mapped there. */
static bool mapping_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address)
{
	gm_lock_take(&gm_physical_lock);
	const struct gm_mapping *mapping = gm_physical_list ? gm_mapping_over(address) : NULL;
	struct gm_physical *m = mapping && mapping->memory->handle ? mapping->memory : NULL;
	const bool done = m && gm_physical_own(m, m->handle);
	if (done) {
		m->refs++;
		*handle = m->handle;
	}
	gm_lock_release(&gm_physical_lock);
	return done;
}

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
	if (handle && mapping_retain(handle, (CUdeviceptr)address))
		return CUDA_SUCCESS;
	CUresult result = GM_PASS(real.cuMemRetainAllocationHandle(handle, address));
	if (result == CUDA_SUCCESS)
		handle_owned(*handle, (CUdeviceptr)address);
	return result;
}
GM_HANDLER(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address),
	   (handle, address), handle_retain(handle, address))

/* Of memory that is away, too. */
static CUresult properties_find(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	if (!gm_physical_is_ours(handle))
		return GM_PASS(real.cuMemGetAllocationPropertiesFromHandle(prop, handle));
	gm_lock_take(&gm_physical_lock);
	const struct gm_physical *m = gm_physical_find(handle);
	if (m && prop)
		*prop = m->prop;
	gm_lock_release(&gm_physical_lock);
	return m && prop ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The driver's handle lives as long as the memory. */
static CUresult ours_release(CUmemGenericAllocationHandle handle)
{
	CUmemGenericAllocationHandle end = 0;
	gm_lock_take(&gm_physical_lock);
	struct gm_physical *m = gm_physical_find(handle);
	if (m) {
		gm_physical_disown(m, handle);
		end = gm_physical_drop(m);
	}
	gm_lock_release(&gm_physical_lock);
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	return end ? gm_physical_end(end) : CUDA_SUCCESS;
}

/* The last owner's name is removed before the driver can reuse it for other memory. */
static CUresult handle_release(CUmemGenericAllocationHandle handle)
{
	if (gm_physical_is_ours(handle))
		return ours_release(handle);
	gm_lock_take(&gm_physical_lock);
	struct gm_physical *m = gm_physical_find(handle);
	if (m)
		gm_physical_disown(m, handle);
	gm_lock_release(&gm_physical_lock);
	CUresult result = GM_PASS(real.cuMemRelease(handle));
	if (!m && result == CUDA_SUCCESS)
		gm_counter_add(0, GM_C_foreign_unknown, 1);
	if (!m)
		return result;
	gm_lock_take(&gm_physical_lock);
	if (result == CUDA_SUCCESS)
		gm_physical_drop(m);
	else
		gm_physical_own(m, handle);
	gm_lock_release(&gm_physical_lock);
	return result;
}
GM_HANDLER(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle), handle_release(handle))

GM_HANDLER(cuMemExportToShareableHandle,
	   (void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
	    unsigned long long flags),
	   (out, handle, type, flags), ({
		   gm_rest_share();
		   GM_PASS(real.cuMemExportToShareableHandle(out, handle_real(handle, true), type,
							     flags));
	   }))
GM_HANDLER(cuMemGetAllocationPropertiesFromHandle,
	   (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle), (prop, handle),
	   properties_find(prop, handle))
GM_HANDLER(cuMulticastBindMem,
	   (CUmemGenericAllocationHandle group, size_t offset, CUmemGenericAllocationHandle handle,
	    size_t from, size_t size, unsigned long long flags),
	   (group, offset, handle, from, size, flags),
	   GM_PASS(real.cuMulticastBindMem(group, offset, handle_real(handle, true), from, size,
					   flags)))
GM_HANDLER(cuMulticastBindMem_v2,
	   (CUmemGenericAllocationHandle group, CUdevice device, size_t offset,
	    CUmemGenericAllocationHandle handle, size_t from, size_t size,
	    unsigned long long flags),
	   (group, device, offset, handle, from, size, flags),
	   GM_PASS(real.cuMulticastBindMem_v2(group, device, offset, handle_real(handle, true),
					      from, size, flags)))

/* Parts of a sparse array: the driver gets a copy of the list. */
static CUresult array_map(CUresult (*call)(CUarrayMapInfo *, unsigned, CUstream),
			  CUarrayMapInfo *list, unsigned n, CUstream stream)
{
	GM_ARRAY(CUarrayMapInfo) copy = {0};
	for (unsigned i = 0; list && i < n; i++) {
		CUarrayMapInfo info = list[i];
		if (info.memHandleType == CU_MEM_HANDLE_TYPE_GENERIC &&
		    info.memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			info.memHandle.memHandle = handle_real(info.memHandle.memHandle, true);
		if (!gm_array_push(&copy, info)) {
			gm_array_free(&copy);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	CUresult result = GM_PASS(call(copy.n ? copy.at : list, n, stream));
	gm_array_free(&copy);
	return result;
}
GM_HANDLER(cuMemMapArrayAsync, (CUarrayMapInfo * list, unsigned n, CUstream stream),
	   (list, n, stream), array_map(real.cuMemMapArrayAsync, list, n, stream))
GM_HANDLER(cuMemMapArrayAsync_ptsz, (CUarrayMapInfo * list, unsigned n, CUstream stream),
	   (list, n, stream), array_map(real.cuMemMapArrayAsync_ptsz, list, n, stream))

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
OTHERS_ONLY(cuMemGetLocationInfo,
	    (CUdeviceptr at, size_t size, size_t step, size_t sample, CUmemLocation *where),
	    (at, size, step, sample, where), at, size)
#define PASS_KEEP(call) (gm_physical_keep(at, size), GM_PASS(call))
OTHERS_BY(PASS_KEEP, cuMulticastBindAddr,
	  (CUmemGenericAllocationHandle group, size_t offset, CUdeviceptr at, size_t size,
	   unsigned long long flags),
	  (group, offset, at, size, flags), at, size)
OTHERS_BY(PASS_KEEP, cuMulticastBindAddr_v2,
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
	const CUmemGenericAllocationHandle known = handle_real(handle, false);
	CUresult result = GM_PASS_RETRY(cuMemMap, GM_LACK_HERE, size,
					real.cuMemMap(at, size, offset, known, flags));
	if (result != CUDA_SUCCESS)
		return result;
	gm_lock_take(&gm_physical_lock);
	struct gm_physical *m = gm_physical_find(handle);
	if (m && (gm_mapping_at(at) || !gm_mapping_make(at, size, m) || offset || size != m->size))
		m->stays = true;
	gm_lock_release(&gm_physical_lock);
	return result;
}
GM_HANDLER(cuMemMap,
	   (CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	    unsigned long long flags),
	   (at, size, offset, handle, flags), mapping_make(at, size, offset, handle, flags))

/* Access for the host, or for a part of a mapping, is not known here. */
static void access_keep(struct gm_mapping *m, CUdeviceptr at, size_t size,
			const CUmemAccessDesc *desc, size_t n)
{
	if (m->at < at || m->at + m->size > at + size)
		m->memory->stays = true;
	for (size_t i = 0; i < n; i++)
		if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    (unsigned)desc[i].location.id < GM_COUNTER_DEVICES)
			m->access[desc[i].location.id] = (unsigned char)desc[i].flags;
		else
			m->memory->stays = true;
}

static CUresult access_set(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	if (range_is_pools(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = GM_PASS_RETRY(cuMemSetAccess, GM_LACK_HERE, 0,
					real.cuMemSetAccess(at, size, desc, n));
	if (result != CUDA_SUCCESS)
		return result;
	gm_lock_take(&gm_physical_lock);
	struct gm_mapping *m = gm_physical_list ? gm_mapping_over(at) : NULL;
	for (; m && m->at < at + size; m = gm_mapping_at(m->at + m->size))
		access_keep(m, at, size, desc, n);
	gm_lock_release(&gm_physical_lock);
	return result;
}
GM_HANDLER(cuMemSetAccess, (CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n),
	   (at, size, desc, n), access_set(at, size, desc, n))

/* Natively the driver refuses to free addresses that are mapped. */
static bool range_is_gone(CUdeviceptr at, size_t size)
{
	bool gone = false;
	gm_lock_take(&gm_physical_lock);
	for (const struct gm_physical *m = gm_physical_list; m && !gone; m = m->next)
		for (const struct gm_mapping *p = m->mappings; p && !gone; p = p->next)
			gone = p->gone && p->at < at + size && at < p->at + p->size;
	gm_lock_release(&gm_physical_lock);
	return gone;
}
GM_HANDLER(cuMemAddressFree, (CUdeviceptr at, size_t size), (at, size),
	   range_is_pools(at, size) || range_is_gone(at, size)
		   ? CUDA_ERROR_INVALID_VALUE
		   : GM_PASS(real.cuMemAddressFree(at, size)))

struct mappings_out {
	struct gm_mapping **at;
	size_t n, room;
};

/* Take the mappings in [at, +size) out, up to the first address that has none. */
static void mappings_take(struct mappings_out *out, CUdeviceptr at, size_t size)
{
	gm_lock_take(&gm_physical_lock);
	for (CUdeviceptr next = at; next - at < size;) {
		struct gm_mapping *m = gm_mapping_at(next);
		if (m && m->memory->moving) {
			gm_lock_release(&gm_physical_lock);
			gm_sys_nap(NAP);
			gm_lock_take(&gm_physical_lock);
			continue;
		}
		if (!m || !gm_array_push(out, m))
			break;
		gm_mapping_out(m);
		m->memory->ending++;
		next += m->size;
	}
	gm_lock_release(&gm_physical_lock);
}

/* A mapping ended, or it is put back. */
static void mapping_close(struct gm_mapping *m, bool ended)
{
	CUmemGenericAllocationHandle end = 0;
	gm_lock_take(&gm_physical_lock);
	m->memory->ending--;
	const bool back = !ended && gm_mapping_back(m);
	if (!back)
		end = gm_physical_drop(m->memory);
	gm_lock_release(&gm_physical_lock);
	if (!back)
		free(m);
	if (end)
		gm_physical_end(end);
}

/* Some of the mappings are not the driver's. */
static CUresult mappings_end(const struct mappings_out *out, size_t size)
{
	size_t has = 0;
	for (size_t i = 0; i < out->n; i++)
		has += out->at[i]->size;
	if (has != size)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < out->n; i++) {
		struct gm_mapping *m = out->at[i];
		CUresult result = m->gone ? CUDA_SUCCESS : GM_PASS(real.cuMemUnmap(m->at, m->size));
		if (result != CUDA_SUCCESS)
			return result;
		m->gone = true;
	}
	return CUDA_SUCCESS;
}

/* The driver unmaps all mappings in [at, at + size) or none. */
static CUresult mapping_end(CUdeviceptr at, size_t size)
{
	struct mappings_out out = {0};
	bool gone = false;
	if (range_is_pools(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	mappings_take(&out, at, size);
	for (size_t i = 0; i < out.n; i++)
		gone |= out.at[i]->gone;
	CUresult result = gone ? mappings_end(&out, size) : GM_PASS(real.cuMemUnmap(at, size));
	for (size_t i = 0; i < out.n; i++)
		mapping_close(out.at[i], result == CUDA_SUCCESS ||
						 (out.at[i]->gone && !out.at[i]->memory->away));
	gm_array_free(&out);
	return result;
}
GM_HANDLER(cuMemUnmap, (CUdeviceptr at, size_t size), (at, size), mapping_end(at, size))
