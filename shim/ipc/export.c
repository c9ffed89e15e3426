/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exporter: cuIpcGetMemHandle, and replies to processes that open its handles. While one has
 * the block open, it stays on the device (opens.h). Descriptors are made on request of a process,
 * and none is kept: it would keep the memory after the program has freed it.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/sys.h"
#include "log/count.h"
#include "residency/door.h"
#include "shim/call.h"
#include "shim/ipc/handle.h"
#include "shim/ipc/ipc.h"
#include "shim/ipc/opens.h"
#include "shim/memory/device.h"
#include "shim/sleep/rest.h"
#include "shim/sleep/sleep.h"

static _Atomic uint64_t secret; /* 0: no export yet */
static atomic_bool opened;	/* another process has opened an export */

static uint64_t secret_make(void)
{
	uint64_t none = 0, value = 0;
	if (gm_sys_random(&value, sizeof value) != sizeof value)
		value = gm_clock_ns() ^ (uint64_t)(uintptr_t)&value << 20;
	value |= 1;
	return atomic_compare_exchange_strong(&secret, &none, value) ? value : none;
}

/* --- on the node's thread --- */

static enum gm_rpc_result export_refused(CUresult result)
{
	if (result != CUDA_ERROR_INVALID_VALUE) /* else the block was freed */
		GM_MSG_ONCE(GM_MSG_WARN,
			    "another process cannot open a block of this one: the driver gives no "
			    "descriptor (%s)",
			    gm_driver_error(&gm_shim_driver, result));
	return GM_RPC_REFUSED;
}

/* `page`: a descriptor; -1: none. */
static void reply_fill(struct gm_rpc_message *message, const struct gm_export *e, int page)
{
	struct gm_ipc_reply reply = {
		.offset = e->offset,
		.size = e->size,
		.total = e->total,
		.chunks = e->chunks,
		.first = e->first,
		.n = e->n,
		.page = page >= 0,
	};
	for (unsigned i = 0; i < e->n; i++) {
		reply.part[i] = e->part[i].size;
		message->fds[i] = e->part[i].fd;
	}
	message->n_fds = e->n;
	if (page >= 0)
		message->fds[message->n_fds++] = page;
	message->size = sizeof reply;
	memcpy(message->data, &reply, sizeof reply);
}

/* A sleep or a wake is in progress, or the block is off the device. This thread does not wait: the
 * other process asks again. */
static enum gm_rpc_result reply_again(struct gm_rpc_message *message)
{
	struct gm_ipc_reply reply = {.again = 1};
	gm_sleep_wake_later();
	message->size = sizeof reply;
	memcpy(message->data, &reply, sizeof reply);
	return GM_RPC_OK;
}

/* The first reply of an open: from now on the block stays on the device. Without GPUMEM_SLEEP
 * nothing moves, so nobody asks whether it is still open. */
static bool open_begin(const struct gm_ipc_handle *handle, struct gm_export *e, int *page)
{
	*page = -1;
	if (!atomic_load(&gm_door_used) ||
	    gm_opens_add(handle->base, handle->id, gm_rpc_asker(), page))
		return true;
	for (unsigned i = 0; i < e->n; i++)
		gm_sys_close(e->part[i].fd);
	return false;
}

/* Inside the door, so that no chunk is away or moving. */
static enum gm_rpc_result export_give(struct gm_pool *pool, const struct gm_ipc_request *q,
				      struct gm_rpc_message *message)
{
	const struct gm_ipc_handle *handle = &q->handle;
	struct gm_export e;
	int page = -1;
	if (!q->first)
		gm_opens_make_room();
	if (!q->first && !gm_pool_share_open(pool, handle->base, handle->id, true))
		return GM_RPC_REFUSED;
	CUresult result = gm_pool_export(pool, handle->base, handle->id, (unsigned)q->first, &e);
	bool given = result == CUDA_SUCCESS && (q->first || open_begin(handle, &e, &page));
	if (!given && !q->first && atomic_load(&gm_door_used)) /* else nothing is recorded */
		gm_opens_check(handle->base, handle->id);
	if (!given)
		return result == CUDA_SUCCESS ? GM_RPC_REFUSED : export_refused(result);
	reply_fill(message, &e, page);
	return GM_RPC_OK;
}

static enum gm_rpc_result export_answer(enum gm_rpc_kind kind, const void *bytes, size_t size,
					struct gm_rpc_message *message)
{
	(void)kind;
	struct gm_ipc_request q;
	struct gm_block b;
	if (size != sizeof q || !gm_shim_active())
		return GM_RPC_REFUSED;
	memcpy(&q, bytes, sizeof q);
	struct gm_pool *pool = gm_shim_pool_at(q.handle.base);
	if (!pool || q.handle.secret != atomic_load(&secret) || q.first > UINT32_MAX)
		return GM_RPC_REFUSED;
	if (!gm_pool_find(pool, q.handle.base, &b) || !b.live || b.id != q.handle.id)
		return GM_RPC_REFUSED; /* freed: no reason to wake */
	if (!gm_door_try())
		return reply_again(message);
	gm_shim_inside = 1;
	enum gm_rpc_result result = export_give(pool, &q, message);
	gm_shim_inside = 0; /* exit handlers of the program may run on this thread */
	gm_door_leave();
	if (result == GM_RPC_OK && q.first == 0) {
		atomic_store(&opened, true);
		gm_counter_add(b.ordinal, GM_C_ipc_exports_opened, 1);
	}
	return result;
}

/* --- on the program's thread --- */

/* The driver's result for an address outside its allocations. */
static CUresult export_native(CUipcMemHandle *out)
{
	return GM_PASS(real.cuIpcGetMemHandle(out, GM_NOWHERE));
}

static CUresult export_block(CUipcMemHandle *out, struct gm_pool *pool, const struct gm_block *b)
{
	struct gm_ipc_handle handle = {.base = b->base, .id = b->id};
	if (!gm_pool_can_export(pool, b->base)) {
		GM_MSG_ONCE(GM_MSG_WARN,
			    "cuIpcGetMemHandle is refused: the driver gives no descriptors of "
			    "memory here; GPUMEM_IPC=native leaves blocks of 2 MiB and more to it");
		return export_native(out);
	}
	CUresult result = gm_pool_share(pool, b->base, b->size);
	if (result != CUDA_SUCCESS)
		return result;
	handle.secret = secret_make();
	gm_rpc_serve(GM_RPC_IPC_OPEN, export_answer);
	int error = gm_rpc_join(gm_shim_devices[b->ordinal].uuid, &handle.node);
	if (error) {
		GM_MSG_ONCE(GM_MSG_WARN,
			    "cuIpcGetMemHandle is refused: this process cannot be asked for its "
			    "memory: %s; GPUMEM_IPC=native leaves blocks of 2 MiB and more to the "
			    "driver",
			    strerror(error));
		return CUDA_ERROR_MAP_FAILED;
	}
	memcpy(out, &handle, sizeof handle);
	gm_counter_add(b->ordinal, GM_C_ipc_exports, 1);
	return CUDA_SUCCESS;
}

static CUresult export_any(CUipcMemHandle *out, CUdeviceptr address)
{
	struct gm_block b;
	CUresult result;
	gm_rest_share();
	struct gm_pool *pool = gm_shim_find(address, &b);
	if (!pool)
		return GM_PASS(real.cuIpcGetMemHandle(out, address));
	if (!out) /* in any context */
		return export_native(out);
	if (!gm_context_current(&gm_shim_driver, &result))
		return result;
	bool live = b.live && address - b.base < b.size;
	if (!live || gm_shim_context_state() != CUDA_SUCCESS)
		return export_native(out);
	return export_block(out, pool, &b);
}
GM_HANDLER(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr address), (out, address),
	   export_any(out, address))

/* A process without the preload cannot open such a handle, nor report the reason. */
void gm_ipc_report(void)
{
	if (atomic_load(&secret) && !atomic_load(&opened))
		gm_msg(GM_MSG_WARN,
		       "memory was exported by cuIpcGetMemHandle, and no process under gpumem has "
		       "opened it; for processes without gpumem set GPUMEM_IPC=native");
}

void gm_ipc_forget_exports(void)
{
	atomic_store(&secret, 0);
	atomic_store(&opened, false);
	gm_opens_forget();
}
