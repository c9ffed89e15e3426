/* SPDX-License-Identifier: BSD-3-Clause */
/* Another process' block: asking for it, and mapping it. Any thread, no lock held. */
#ifndef GM_SHIM_IPC_MAP_H
#define GM_SHIM_IPC_MAP_H

#include "shim/ipc/handle.h"

struct gm_context;

/* Chunks of another process, mapped side by side. */
struct gm_ipc_map {
	CUdeviceptr at;
	uint64_t total, mapped; /* bytes: reserved, and mapped so far */
	CUdeviceptr block;	/* in them */
	uint64_t size;		/* of the block, as requested there */
	unsigned ordinal;	/* of the device whose memory it is */
};

/* Map the block of a handle for a context's device. On success *map is the caller's until
 * gm_ipc_unmap. Else the native error; reports what the program cannot know. */
CUresult gm_ipc_map(const struct gm_ipc_handle *handle, const struct gm_context *context,
		    struct gm_ipc_map *map);

/* The caller has waited for the work that uses it. */
void gm_ipc_unmap(struct gm_ipc_map *map);

#endif
