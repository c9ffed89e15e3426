/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that the process has open whose drivers may know the physical address of device memory:
 * /dev/infiniband/uverbs0 (ibv_reg_mr), /dev/gdrdrv, /dev/nvidia-fs0, those of capture cards. Such
 * a registration needs the driver's descriptor, or a mapping of its device, for as long as it
 * lives, and makes no call of CUDA. So each open character device counts, but for those of
 * harmless.def.
 */
#ifndef GM_RESIDENCY_OPENED_H
#define GM_RESIDENCY_OPENED_H

#include <stdbool.h>
#include <stddef.h>

/* True: such a device is open or mapped, and its path is in `name`, cut at `size`; or /proc, which
 * would tell, cannot be read, and its path is there. Any thread, with no lock held. */
bool gm_opened_find(char *name, size_t size);

/* Likewise, of mappings alone, in a file like /proc/self/maps. */
bool gm_opened_find_mapped(const char *maps, char *name, size_t size);

/* Of a path and the number of a character device (UINT_MAX: not known): no driver of it knows
 * memory of a GPU but NVIDIA's own. */
bool gm_opened_is_harmless(const char *path, unsigned major);

#endif
