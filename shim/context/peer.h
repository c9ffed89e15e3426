/* SPDX-License-Identifier: BSD-3-Clause */
/* Which devices can reach the memory of which pools. Any thread, no lock held. */
#ifndef GM_SHIM_CONTEXT_PEER_H
#define GM_SHIM_CONTEXT_PEER_H

#include "context/context.h"
#include "pool/pool.h"

/* A copy needs device `reader` to reach the pool of `owner`: open it, for good. True: it can. */
bool gm_peer_reach(unsigned owner, unsigned reader);
/* Did the program give the current context access to memory of the context `owner` on the device
 * `ordinal`? True on that device itself, and without a current context. */
bool gm_peer_is_enabled(uint64_t owner, unsigned ordinal);
/* Open a new pool to the devices that were given access before it was made. */
void gm_peer_apply(unsigned owner, struct gm_pool *pool);

/* modules.h */
void gm_peer_context_gone(struct gm_context *context);
void gm_peer_forget_all(void);

#endif
