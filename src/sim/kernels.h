/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap's kernels as an image of the simulated driver: gm_heap_config.image in tests. They run
 * in the SIMT emulation, so one at a time. */
#ifndef GM_SIM_KERNELS_H
#define GM_SIM_KERNELS_H

#include "sim/sim.h"

extern const struct gm_sim_image gm_heap_sim_image;

#endif
