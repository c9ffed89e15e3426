/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests for a block of another process, and its mapping. Any thread, no lock held. */
#ifndef GM_SHIM_IPC_MAP_H
#define GM_SHIM_IPC_MAP_H

#include "shim/ipc/handle.h"

struct gm_context;

/* Chunks of another process, mapped side by side. */
struct gm_ipc_map {
	CUdeviceptr at;
	uint64_t total, mapped;	  /* bytes: reserved, and mapped so far */
	CUdeviceptr block;	  /* address of the block in the chunks */
	uint64_t size;		  /* of the block, as requested in its process */
	unsigned ordinal;	  /* of the memory's device */
	struct gm_ipc_page *page; /* that says when it is closed; NULL: none */
};

/* Map the block of a handle for a context's device. On success the caller owns *map until
 * gm_ipc_unmap. Else returns the native error, and reports the cause. */
CUresult gm_ipc_map(const struct gm_ipc_handle *handle, const struct gm_context *context,
		    struct gm_ipc_map *map);

/* pre: the caller has waited for the work that uses the mapping. */
void gm_ipc_unmap(struct gm_ipc_map *map);

#endif
