/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool's configuration from knobs, for the preload and for gpumemstat's replay alike. */
#ifndef GM_POOL_KNOBS_H
#define GM_POOL_KNOBS_H

#include "knob/knob.h"
#include "pool/pool.h"

/* Fill in the members of *config that knobs decide, for a device of `total` bytes; the other
 * members keep their values. A limit of 100% or more is no limit. */
void gm_pool_config_knobs(struct gm_pool_config *config, const struct gm_knobs *knobs,
			  uint64_t total);

/* The bytes of a knob of type SIZE_OR_PERCENT on a device of `total` bytes. */
uint64_t gm_pool_knob_bytes(struct gm_knob_share share, uint64_t total);

#endif
