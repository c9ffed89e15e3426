/* SPDX-License-Identifier: BSD-3-Clause */
/* Wire formats: the content of a handle, the request for a block, and the reply. */
#ifndef GM_SHIM_IPC_HANDLE_H
#define GM_SHIM_IPC_HANDLE_H

#include "driver/driver.h"
#include "pool/pool.h"
#include "rpc/rpc.h"

/* Without padding, so that handles compare by their bytes. */
struct gm_ipc_handle {
	struct gm_rpc_address node; /* its magic comes first */
	uint64_t base, id;	    /* of the block, in its process */
	uint64_t secret;	    /* of that process: requests need a handle */
};
_Static_assert(sizeof(struct gm_ipc_handle) == sizeof(CUipcMemHandle), "it is a CUipcMemHandle");

/* GM_RPC_IPC_OPEN. Requests the parts from number `first` on. */
struct gm_ipc_request {
	struct gm_ipc_handle handle;
	uint64_t first;
};

/* With a descriptor for each part; the first reply may have one more, of a page (opens.h). Where
 * `again` is 1 there is nothing else: the process sleeps and will wake. The other process may be of
 * another release: its numbers may be inconsistent. */
struct gm_ipc_reply {
	uint64_t offset, size, total; /* struct gm_export */
	uint64_t chunks, first, n;
	uint64_t page, again;		/* 0 or 1 */
	uint64_t part[GM_EXPORT_PARTS]; /* bytes of each part */
};
_Static_assert(sizeof(struct gm_ipc_reply) <= GM_RPC_BYTES && GM_EXPORT_PARTS < GM_RPC_FDS,
	       "it fits into a message");

#endif
