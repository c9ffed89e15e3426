/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap's own kernels as an image of the simulated driver: gm_heap_config.image of tests. They
 * run in the SIMT emulation, so one at a time. */
#ifndef GM_HEAP_SIM_KERNELS_H
#define GM_HEAP_SIM_KERNELS_H

#include "driver/sim.h"

extern const struct gm_sim_image gm_heap_sim_image;

#endif
