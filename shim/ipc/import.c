/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The importer: cuIpcOpenMemHandle and cuIpcCloseMemHandle. A context has one mapping of a block,
 * with a count of its opens. The last close waits for the work of the context, as a native close
 * does. While a stream capture is open in the context no wait is possible, and the mapping stays
 * until a later open or close.
 */
#include <string.h>

#include "base/array.h"
#include "base/lock.h"
#include "log/count.h"
#include "shim/call.h"
#include "shim/foreign/foreign.h"
#include "shim/ipc/ipc.h"
#include "shim/ipc/map.h"
#include "shim/memory/device.h"
#include "shim/sleep/rest.h"

struct import {
	struct gm_ipc_handle handle;
	struct gm_ipc_map map;
	uint64_t context; /* key */
	uint64_t id;	  /* for BUFFER_ID */
	unsigned refs;	  /* 0: closed, and still mapped */
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static GM_ARRAY(struct import) imports; /* under the lock */
atomic_size_t gm_ipc_open;		/* length of imports */

/* --- the table --- */

static void import_remove(size_t i)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	imports.at[i] = imports.at[--imports.n];
	atomic_store_explicit(&gm_ipc_open, imports.n, memory_order_relaxed);
}

/* Open a mapping that the context has open already once more. */
static bool import_reopen(const struct gm_ipc_handle *handle, uint64_t context, CUdeviceptr *out)
{
	bool found = false;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (size_t i = 0; i < imports.n && !found; i++) {
		struct import *m = &imports.at[i];
		found = m->refs && m->context == context &&
			memcmp(&m->handle, handle, sizeof *handle) == 0;
		if (found) {
			m->refs++;
			*out = m->map.block;
		}
	}
	return found;
}

static bool import_again(const struct gm_ipc_handle *handle, uint64_t context, CUdeviceptr *out)
{
	gm_lock_take(&lock);
	bool found = import_reopen(handle, context, out);
	gm_lock_release(&lock);
	return found;
}

static bool import_add(const struct import *import)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	bool added = gm_array_push(&imports, *import);
	atomic_store_explicit(&gm_ipc_open, imports.n, memory_order_relaxed);
	return added;
}

bool gm_ipc_find_open(CUdeviceptr address, struct gm_block *block)
{
	bool found = false;
	gm_lock_take(&lock);
	for (size_t i = 0; i < imports.n && !found; i++) {
		const struct import *m = &imports.at[i];
		found = m->refs && address - m->map.block < m->map.size;
		if (found)
			*block = (struct gm_block){
				.base = m->map.block,
				.size = m->map.size,
				.held = m->map.size,
				.id = m->id,
				.context = m->context,
				.ordinal = m->map.ordinal,
				.live = true,
			};
	}
	gm_lock_release(&lock);
	return found;
}

/* --- closed mappings --- */

/* Take the next closed mapping out of the table; `gone` not 0: the next of that context. */
static bool import_take(uint64_t gone, struct import *out)
{
	bool found = false;
	gm_lock_take(&lock);
	for (size_t i = 0; i < imports.n && !found; i++) {
		found = gone ? imports.at[i].context == gone : !imports.at[i].refs;
		if (!found)
			continue;
		*out = imports.at[i];
		import_remove(i);
	}
	gm_lock_release(&lock);
	return found;
}

/* False: captures forbid a wait. After any other error the context has no work in progress. */
static bool import_wait(const struct import *m)
{
	enum gm_fenced fenced = GM_FENCED_PASSED;
	gm_fence(&gm_shim_driver, m->context, false, &fenced);
	return fenced == GM_FENCED_PASSED;
}

/* Unmap closed mappings. */
static void imports_sweep(void)
{
	GM_ARRAY(struct import) later = {0};
	struct import m;
	while (import_take(0, &m)) {
		if (import_wait(&m))
			gm_ipc_unmap(&m.map);
		else if (!gm_array_push(&later, m))
			break; /* the mapping leaks */
	}
	gm_lock_take(&lock);
	for (size_t i = 0; i < later.n; i++)
		import_add(&later.at[i]);
	gm_lock_release(&lock);
	gm_array_free(&later);
}

void gm_ipc_context_gone(struct gm_context *context)
{
	struct import m;
	while (import_take(context->key, &m)) {
		if (m.refs)
			gm_counter_add(m.map.ordinal, GM_C_ipc_imported, -m.map.size);
		gm_ipc_unmap(&m.map);
	}
}

/* --- open and close --- */

static CUresult import_open(const struct gm_ipc_handle *handle, const struct gm_context *context,
			    CUdeviceptr *out)
{
	struct import m = {
		.handle = *handle, .context = context->key, .id = gm_foreign_next_id(), .refs = 1};
	CUresult result = gm_ipc_map(handle, context, &m.map);
	if (result != CUDA_SUCCESS)
		return result;
	gm_lock_take(&lock);
	bool again = import_reopen(handle, context->key, out); /* another thread was faster */
	bool added = !again && import_add(&m);
	gm_lock_release(&lock);
	if (!added) {
		gm_ipc_unmap(&m.map);
		return again ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	gm_counter_add(m.map.ordinal, GM_C_ipc_imports, 1);
	gm_counter_add(m.map.ordinal, GM_C_ipc_imported, m.map.size);
	*out = m.map.block;
	return CUDA_SUCCESS;
}

static CUresult open_ours(CUdeviceptr *out, const struct gm_ipc_handle *handle, unsigned flags)
{
	CUresult result;
	const struct gm_context *context = gm_context_current(&gm_shim_driver, &result);
	if (!context)
		return result;
	if (!out || !(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
		return CUDA_ERROR_INVALID_VALUE;
	if (gm_rpc_is_mine(&handle->node)) /* as natively */
		return CUDA_ERROR_INVALID_CONTEXT;
	imports_sweep();
	if (import_again(handle, context->key, out))
		return CUDA_SUCCESS;
	return import_open(handle, context, out);
}

static CUresult open_any(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags,
			 CUresult (*native)(CUdeviceptr *, CUipcMemHandle, unsigned))
{
	struct gm_ipc_handle ours;
	gm_rest_share();
	memcpy(&ours, &handle, sizeof ours);
	return ours.node.magic == GM_RPC_MAGIC ? open_ours(out, &ours, flags)
					       : GM_PASS(native(out, handle, flags));
}
GM_HANDLER(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
	   (out, handle, flags), open_any(out, handle, flags, real.cuIpcOpenMemHandle))
GM_HANDLER(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
	   (out, handle, flags), open_any(out, handle, flags, real.cuIpcOpenMemHandle_v2))

/* Close once. False: the context has no such block of ours open. */
static bool import_close(CUdeviceptr address, uint64_t context)
{
	bool found = false;
	gm_lock_take(&lock);
	for (size_t i = 0; i < imports.n && !found; i++) {
		struct import *m = &imports.at[i];
		found = m->refs && m->map.block == address && m->context == context;
		if (found && --m->refs == 0)
			gm_counter_add(m->map.ordinal, GM_C_ipc_imported, -m->map.size);
	}
	gm_lock_release(&lock);
	return found;
}

static CUresult close_any(CUdeviceptr address)
{
	CUresult result;
	const struct gm_context *context = gm_context_current(&gm_shim_driver, &result);
	if (!context || !import_close(address, context->key))
		return GM_PASS(real.cuIpcCloseMemHandle(address));
	imports_sweep();
	return CUDA_SUCCESS;
}
GM_HANDLER(cuIpcCloseMemHandle, (CUdeviceptr address), (address), close_any(address))

void gm_ipc_forget_all(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	imports.at = NULL;
	imports.n = imports.room = 0;
	atomic_store(&gm_ipc_open, 0);
	gm_ipc_forget_exports();
}
