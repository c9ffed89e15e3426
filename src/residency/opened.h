/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open devices of the process whose drivers may know the physical address of device memory:
 * /dev/infiniband/uverbs0 (ibv_reg_mr), /dev/gdrdrv, /dev/nvidia-fs0, capture cards. Such a
 * registration lives only as long as a descriptor of that device or a mapping of it, and makes no
 * call of CUDA. So each open character device counts, except those of harmless.def.
 */
#ifndef GM_RESIDENCY_OPENED_H
#define GM_RESIDENCY_OPENED_H

#include <stdbool.h>
#include <stddef.h>

/* True: such a device is open or mapped, and `name` has its path, cut at `size`; or /proc is
 * unreadable, and `name` has the unreadable path. Any thread, with no lock held. */
bool gm_opened_find(char *name, size_t size);

/* The same for mappings alone, from a file like /proc/self/maps. */
bool gm_opened_find_mapped(const char *maps, char *name, size_t size);

/* Is the character device of this path and major number (UINT_MAX: unknown) NVIDIA's own, or one
 * whose driver knows no memory of a GPU? */
bool gm_opened_is_harmless(const char *path, unsigned major);

#endif
