/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of allocation nodes of graphs. Any thread, no lock held. */
#ifndef GM_SHIM_FOREIGN_GRAPH_H
#define GM_SHIM_FOREIGN_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"
#include "log/sample.h"

/* True: `stream` is being captured, and *group is the group of its graph. One relaxed load while no
 * capture is open. */
bool gm_graph_captured(CUstream stream, uint64_t *group);

/* Will the driver refuse work for `stream` because of a capture: an invalid one, or one of another
 * stream that this one may not wait for? */
bool gm_graph_capture_refuses(CUstream stream);

/* modules.h. reserved: bytes that the driver reserves on a device for memory of graphs, as it says.
 * reclaim: with GPUMEM_LIMIT, what no graph uses now returns to the driver. */
void gm_graph_reserved(unsigned ordinal, struct gm_sample *sample);
uint64_t gm_graph_reclaim(unsigned ordinal, uint64_t bytes);
void gm_graph_forget_all(void);

#endif
