/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents between a device and a folder, through a window of host memory: DMA uses one half while
 * writing or reading threads use the other.
 *
 *     device ==DMA==> | half: piece 3 |
 *                     | half: piece 2 | ==crew==> file
 *
 * The window is a parcel of the mover's store, taken for the move of a pool. Mover's thread only.
 */
#ifndef GM_RESIDENCY_WINDOW_H
#define GM_RESIDENCY_WINDOW_H

#include "residency/move.h"

#define GM_WINDOW ((uint64_t)64 << 20) /* bytes */

/* Copy [at, +size) of the device into a new place of the folder; NULL: failure. */
struct gm_filed *gm_window_out(struct gm_move *move, CUdeviceptr at, uint64_t size);

/* Copy a place back to the device. False: failure, or the bytes read differ from those written; the
 * folder keeps them. */
bool gm_window_in(struct gm_move *move, CUdeviceptr at, struct gm_filed *filed);

#endif
