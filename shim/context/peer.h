/* SPDX-License-Identifier: BSD-3-Clause */
/* Access of devices to the memory of pools of other devices. Any thread, no lock held. */
#ifndef GM_SHIM_CONTEXT_PEER_H
#define GM_SHIM_CONTEXT_PEER_H

#include "context/context.h"
#include "pool/pool.h"

/* Open the pool of `owner` to device `reader` permanently, for a copy. True: `reader` can access
 * it. */
bool gm_peer_reach(unsigned owner, unsigned reader);
/* Has the program given the current context access to memory of the context `owner` on the device
 * `ordinal`? True on that device itself, and without a current context. */
bool gm_peer_is_enabled(uint64_t owner, unsigned ordinal);
/* modules.h: open a new pool to the devices that got access before it was made. */
void gm_peer_pool_made(unsigned owner);

/* modules.h */
void gm_peer_context_gone(struct gm_context *context);
void gm_peer_forget_all(void);

#endif
