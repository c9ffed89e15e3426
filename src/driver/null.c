/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/null.h"

#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/size.h"

#define PAGE (2 * GM_MIB)

/* A physical handle, keyed by its value, or a mapping or block, keyed by its address. */
struct entry {
	uint64_t key, size;
	struct entry *handle; /* of a mapping */
	unsigned uses;	      /* of a handle: 1 for its owner, 1 for each mapping */
	bool released;
	UT_hash_handle hh;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_SIM);
static struct {
	uint64_t memory, used, next_address, next_handle;
	struct gm_null_totals totals;
	struct entry *handles, *mappings, *blocks;
} state;

/* Constant parts of the driver. */

static CUdevice the_device;
static GM_TLS CUcontext current;
#define THE_CONTEXT ((CUcontext)&the_device)

static struct entry *table_find(struct entry *table, uint64_t key)
{
	struct entry *found;
	HASH_FIND(hh, table, &key, sizeof key, found);
	return found;
}

static struct entry *table_add(struct entry **table, uint64_t key, uint64_t size)
{
	struct entry *made = calloc(1, sizeof *made);
	if (!made)
		return NULL;
	made->key = key;
	made->size = size;
	HASH_ADD(hh, *table, key, sizeof key, made);
	if (!gm_hash_failed(made))
		return made;
	free(made);
	return NULL;
}

static void table_drop(struct entry **table, struct entry *entry)
{
	HASH_DELETE(hh, *table, entry);
	free(entry);
}

static void table_clear(struct entry **table)
{
	struct entry *entry, *next;
	HASH_ITER(hh, *table, entry, next)
	table_drop(table, entry);
}

static bool memory_charge(uint64_t bytes)
{
	if (bytes > state.memory - state.used)
		return false;
	state.used += bytes;
	return true;
}

static CUresult lock_release_with(CUresult result)
{
	gm_lock_release(&lock);
	return result;
}

/* --- memory --- */

static CUresult null_cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment,
					 CUdeviceptr wish, unsigned long long flags)
{
	(void)wish;
	if (!address || !size || size % PAGE || alignment & (alignment - 1) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	gm_lock_take(&lock);
	*address = gm_round_up(state.next_address, alignment > PAGE ? alignment : PAGE);
	state.next_address = *address + size;
	state.totals.reserved += size;
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemAddressFree(CUdeviceptr address, size_t size)
{
	gm_lock_take(&lock);
	if (!address || !size || size > state.totals.reserved)
		return lock_release_with(CUDA_ERROR_INVALID_VALUE);
	state.totals.reserved -= size;
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
				 const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (!handle || !size || size % PAGE || !prop || flags)
		return CUDA_ERROR_INVALID_VALUE;
	gm_lock_take(&lock);
	if (!memory_charge(size))
		return lock_release_with(CUDA_ERROR_OUT_OF_MEMORY);
	struct entry *made = table_add(&state.handles, ++state.next_handle, size);
	if (!made) {
		state.used -= size;
		return lock_release_with(CUDA_ERROR_OUT_OF_MEMORY);
	}
	made->uses = 1;
	*handle = made->key;
	state.totals.create_calls++;
	state.totals.created += size;
	if (state.totals.created > state.totals.created_peak)
		state.totals.created_peak = state.totals.created;
	return lock_release_with(CUDA_SUCCESS);
}

static void handle_release(struct entry *handle)
{
	if (--handle->uses)
		return;
	state.used -= handle->size;
	state.totals.created -= handle->size;
	table_drop(&state.handles, handle);
}

static CUresult null_cuMemRelease(CUmemGenericAllocationHandle value)
{
	gm_lock_take(&lock);
	struct entry *handle = table_find(state.handles, value);
	if (!handle || handle->released)
		return lock_release_with(CUDA_ERROR_INVALID_VALUE);
	handle->released = true;
	state.totals.release_calls++;
	handle_release(handle);
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemMap(CUdeviceptr address, size_t size, size_t offset,
			      CUmemGenericAllocationHandle value, unsigned long long flags)
{
	if (offset)
		return CUDA_ERROR_NOT_SUPPORTED;
	gm_lock_take(&lock);
	struct entry *handle = table_find(state.handles, value);
	if (!handle || handle->released || handle->size != size || address % PAGE || flags ||
	    table_find(state.mappings, address))
		return lock_release_with(CUDA_ERROR_INVALID_VALUE);
	struct entry *made = table_add(&state.mappings, address, size);
	if (!made)
		return lock_release_with(CUDA_ERROR_OUT_OF_MEMORY);
	made->handle = handle;
	handle->uses++;
	state.totals.map_calls++;
	state.totals.mapped += size;
	if (state.totals.mapped > state.totals.mapped_peak)
		state.totals.mapped_peak = state.totals.mapped;
	return lock_release_with(CUDA_SUCCESS);
}

/* Do whole mappings, one after the other, make up exactly this range? */
static bool range_is_mapped(CUdeviceptr address, size_t size)
{
	CUdeviceptr end = address + size;
	const struct entry *m;
	while (address < end && (m = table_find(state.mappings, address)))
		address += m->size;
	return size && address == end;
}

static CUresult null_cuMemUnmap(CUdeviceptr address, size_t size)
{
	gm_lock_take(&lock);
	if (!range_is_mapped(address, size))
		return lock_release_with(CUDA_ERROR_INVALID_VALUE);
	for (CUdeviceptr at = address, end = address + size; at < end;) {
		struct entry *m = table_find(state.mappings, at);
		at += m->size;
		state.totals.mapped -= m->size;
		handle_release(m->handle);
		table_drop(&state.mappings, m);
	}
	state.totals.unmap_calls++;
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc,
				    size_t count)
{
	if (!desc || !count)
		return CUDA_ERROR_INVALID_VALUE;
	gm_lock_take(&lock);
	if (!range_is_mapped(address, size))
		return lock_release_with(CUDA_ERROR_INVALID_VALUE);
	state.totals.access_calls++;
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	if (!address || !size)
		return CUDA_ERROR_INVALID_VALUE;
	gm_lock_take(&lock);
	uint64_t held = size < PAGE ? gm_round_up(size, 512) : gm_round_up(size, PAGE);
	uint64_t at = gm_round_up(state.next_address, size < PAGE ? 512 : PAGE);
	if (held < size || !memory_charge(held))
		return lock_release_with(CUDA_ERROR_OUT_OF_MEMORY);
	if (!table_add(&state.blocks, at, held)) {
		state.used -= held;
		return lock_release_with(CUDA_ERROR_OUT_OF_MEMORY);
	}
	state.next_address = at + held;
	*address = at;
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemFree_v2(CUdeviceptr address)
{
	if (!address)
		return CUDA_SUCCESS;
	gm_lock_take(&lock);
	struct entry *block = table_find(state.blocks, address);
	if (!block)
		return lock_release_with(CUDA_ERROR_INVALID_VALUE);
	state.used -= block->size;
	table_drop(&state.blocks, block);
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	gm_lock_take(&lock);
	if (free_bytes)
		*free_bytes = state.memory - state.used;
	if (total)
		*total = state.memory;
	return lock_release_with(CUDA_SUCCESS);
}

static CUresult null_cuMemGetAllocationGranularity(size_t *granularity,
						   const CUmemAllocationProp *prop,
						   CUmemAllocationGranularity_flags option)
{
	(void)option;
	if (!granularity || !prop)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = PAGE;
	return CUDA_SUCCESS;
}

static CUresult null_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = state.memory;
	return CUDA_SUCCESS;
}

/* --- one device and one context --- */

static CUresult null_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	*value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
		 attribute == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
	return CUDA_SUCCESS;
}

static CUresult null_cuCtxPushCurrent_v2(CUcontext ctx)
{
	current = ctx;
	return CUDA_SUCCESS;
}

static CUresult null_cuCtxPopCurrent_v2(CUcontext *ctx)
{
	if (ctx)
		*ctx = current;
	current = NULL;
	return CUDA_SUCCESS;
}

static CUresult null_cuCtxGetCurrent(CUcontext *ctx)
{
	*ctx = current ? current : THE_CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult null_cuDeviceGetName(char *name, int size, CUdevice device)
{
	(void)device;
	if (size > 0)
		strncpy(name, "accountant", (size_t)size - 1)[size - 1] = '\0';
	return CUDA_SUCCESS;
}

/* The other calls answer with a constant: NULL_CALL(symbol, parameters, statement). Any stream or
 * event handle is valid, since nothing runs. */
#define NULL_CALL(symbol, params, ...)       \
	static CUresult null_##symbol params \
	{                                    \
		__VA_ARGS__;                 \
		return CUDA_SUCCESS;         \
	}
#define U __attribute__((unused))
static char a_handle;
NULL_CALL(cuCtxGetId, (CUcontext c U, unsigned long long *id), *id = 1)
NULL_CALL(cuCtxFromGreenCtx, (CUcontext * c, CUgreenCtx g U), *c = THE_CONTEXT)
NULL_CALL(cuCtxGetDevice, (CUdevice * d), *d = 0)
NULL_CALL(cuCtxRecordEvent, (CUcontext c U, CUevent e U), )
NULL_CALL(cuCtxSynchronize, (void), )
NULL_CALL(cuDeviceCanAccessPeer, (int *can, CUdevice d U, CUdevice p U), *can = 0)
NULL_CALL(cuDeviceGet, (CUdevice * d, int ordinal), *d = ordinal)
NULL_CALL(cuDeviceGetCount, (int *count), *count = 1)
NULL_CALL(cuDeviceGetUuid, (CUuuid * uuid, CUdevice d U), memset(uuid, 0, sizeof *uuid))
NULL_CALL(cuDevicePrimaryCtxGetState, (CUdevice d U, unsigned *f, int *a), *f = 0, *a = 1)
NULL_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice d U), )
NULL_CALL(cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice d U), *c = THE_CONTEXT)
NULL_CALL(cuDriverGetVersion, (int *version), *version = 13000)
NULL_CALL(cuEventCreate, (CUevent * e, unsigned f U), *e = (CUevent)&a_handle)
NULL_CALL(cuEventDestroy_v2, (CUevent e U), )
NULL_CALL(cuEventQuery, (CUevent e U), )
NULL_CALL(cuEventRecord, (CUevent e U, CUstream s U), )
NULL_CALL(cuEventSynchronize, (CUevent e U), )
NULL_CALL(cuGetErrorName, (CUresult r U, const char **name), *name = "error of the accountant")
NULL_CALL(cuStreamCreate, (CUstream * s, unsigned f U), *s = (CUstream)&a_handle)
NULL_CALL(cuStreamDestroy_v2, (CUstream s U), )
NULL_CALL(cuStreamGetCaptureInfo_v2,
	  (CUstream s U, CUstreamCaptureStatus *status, cuuint64_t *id U, CUgraph *g U,
	   const CUgraphNode **d U, size_t *n U),
	  *status = CU_STREAM_CAPTURE_STATUS_NONE)
NULL_CALL(cuStreamGetCtx, (CUstream s U, CUcontext *ctx), *ctx = THE_CONTEXT)
NULL_CALL(cuStreamGetFlags, (CUstream s U, unsigned *flags), *flags = CU_STREAM_DEFAULT)
NULL_CALL(cuStreamGetId, (CUstream s, unsigned long long *id), *id = (uintptr_t)s + 1)
NULL_CALL(cuStreamIsCapturing, (CUstream s U, CUstreamCaptureStatus *status),
	  *status = CU_STREAM_CAPTURE_STATUS_NONE)
NULL_CALL(cuStreamQuery, (CUstream s U), )
NULL_CALL(cuStreamSynchronize, (CUstream s U), )
NULL_CALL(cuStreamWaitEvent, (CUstream s U, CUevent e U, unsigned f U), )
NULL_CALL(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode U), )
NULL_CALL(cuMemcpyPeer,
	  (CUdeviceptr d U, CUcontext c U, CUdeviceptr s U, CUcontext e U, size_t n U), )
NULL_CALL(cuMemcpyPeerAsync,
	  (CUdeviceptr d U, CUcontext c U, CUdeviceptr s U, CUcontext e U, size_t n U,
	   CUstream q U), )
NULL_CALL(cuMemsetD8Async, (CUdeviceptr a U, unsigned char v U, size_t n U, CUstream s U), )

/* An address has no memory that could be shared or described. */
static CUresult null_cuMemExportToShareableHandle(void *out U, CUmemGenericAllocationHandle h U,
						  CUmemAllocationHandleType t U,
						  unsigned long long f U)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult null_cuPointerGetAttribute(void *out U, CUpointer_attribute attribute U,
					   CUdeviceptr address U)
{
	return CUDA_ERROR_INVALID_VALUE;
}

#define null_cuMemImportFromShareableHandle NULL

/* No kernels, and so no device heaps; no copies of host memory. */
#define null_cuDeviceGetDefaultMemPool NULL
#define null_cuDeviceGetGraphMemAttribute NULL
#define null_cuDeviceGetMemPool NULL
#define null_cuDeviceGraphMemTrim NULL
#define null_cuLaunchKernel NULL
#define null_cuLinkAddData_v2 NULL
#define null_cuLinkComplete NULL
#define null_cuLinkCreate_v2 NULL
#define null_cuLinkDestroy NULL
#define null_cuMemHostGetDevicePointer_v2 NULL
#define null_cuMemHostRegister_v2 NULL
#define null_cuMemHostUnregister NULL
#define null_cuMemGetAddressRange_v2 NULL
#define null_cuMemPoolGetAttribute NULL
#define null_cuMemPoolTrimTo NULL
#define null_cuMemPrefetchAsync NULL
#define null_cuMemcpy2DAsync_v2 NULL
#define null_cuMemcpyAsync NULL
#define null_cuMemcpyDtoHAsync_v2 NULL
#define null_cuMemcpyHtoDAsync_v2 NULL
#define null_cuModuleGetFunction NULL
#define null_cuModuleGetGlobal_v2 NULL
#define null_cuModuleLoadData NULL
#define null_cuModuleUnload NULL
#define null_cuStreamWriteValue32_v2 NULL

void gm_null_load(struct gm_driver *driver, uint64_t memory)
{
	gm_lock_take(&lock);
	table_clear(&state.mappings);
	table_clear(&state.handles);
	table_clear(&state.blocks);
	memset(&state, 0, sizeof state);
	state.memory = memory;
	state.next_address = (uint64_t)1 << 40;
#define GM_CALL(presence, since, symbol, proto) driver->symbol = null_##symbol;
#include "driver/calls.def"
#undef GM_CALL
	driver->version = 13000;
	gm_lock_release(&lock);
}

void gm_null_totals(struct gm_null_totals *out)
{
	gm_lock_take(&lock);
	*out = state.totals;
	gm_lock_release(&lock);
}
