/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries in the process that move device memory to other processes and machines. Any thread. */
#ifndef GM_SHIM_BLOCK_NETWORK_H
#define GM_SHIM_BLOCK_NETWORK_H

#include <stdbool.h>

#include "pool/pool.h"

/* A call asks whether a block can be shared. If it cannot, and a library is loaded that is then
 * slower, warn once. */
void gm_shim_report_network(void);

/* The `may_remap` of struct gm_pool_config: GPUMEM_REMAP. */
bool gm_shim_may_remap(void *unused);

/* modules.h */
void gm_network_pool_config(unsigned ordinal, struct gm_pool_config *config);

#endif
