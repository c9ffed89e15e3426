/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Legacy IPC between preloaded processes of one user.
 *
 *     exporter   cuIpcGetMemHandle: shares the block, joins as a node; the handle names both
 *     importer   cuIpcOpenMemHandle: gets descriptors of the chunks under the block from the node,
 *                and maps all of them; the result is the block's address in them
 *     importer   cuIpcCloseMemHandle: the last one unmaps them
 *
 * A mapping no longer needs the exporter. The block stays on the device while it is open (opens.h);
 * a sleep of the exporter moves it else, and an open wakes the exporter. The driver's own handles
 * are passed to the driver. export.c and opens.c are the exporter's part, import.c and map.c the
 * importer's.
 */
#ifndef GM_SHIM_IPC_IPC_H
#define GM_SHIM_IPC_IPC_H

#include <stdatomic.h>

#include "base/debug.h"
#include "context/context.h"
#include "knob/knob.h"
#include "pool/pool.h"

/* Is a block of this size left to the driver, so that any process can open it? */
#define GM_IPC_NATIVE_FROM ((size_t)2 << 20)
static inline bool gm_ipc_is_native(size_t size)
{
	return size >= GM_IPC_NATIVE_FROM && gm_knob_get()->ipc.choice == GM_IPC_NATIVE;
}

/* True: `address` is in *block, a block of another process that is open here. Any thread; any lock
 * below GM_LOCK_RANK_TABLE may be held. One relaxed load while none is open. */
extern GM_HIDDEN atomic_size_t gm_ipc_open;
bool gm_ipc_find_open(CUdeviceptr address, struct gm_block *block);
static inline bool gm_ipc_find(CUdeviceptr address, struct gm_block *block)
{
	return GM_UNLIKELY(atomic_load_explicit(&gm_ipc_open, memory_order_relaxed)) &&
	       gm_ipc_find_open(address, block);
}

/* At exit: warn if blocks were exported, and no process has opened one. */
void gm_ipc_report(void);

/* modules.h */
void gm_ipc_context_gone(struct gm_context *context);
void gm_ipc_forget_all(void);
void gm_ipc_forget_exports(void); /* part of gm_ipc_forget_all */

#endif
