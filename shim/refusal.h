/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What keeps a process from being put to sleep, whatever its memory does: who knows or uses memory
 * of the pool past gpumem's hooks. By use, not by what is loaded: every PyTorch loads libcufile and
 * NCCL. Any thread may call these functions, with no lock held.
 */
#ifndef GM_SHIM_REFUSAL_H
#define GM_SHIM_REFUSAL_H

#include <stddef.h>

#include "driver/driver.h"
#include "residency/move.h"

/* The program asks for a kernel by this name. Making a communicator, NCCL asks for its kernels. */
void gm_refusal_kernel_asked(const char *name);

/* NONE; else the reason, and in `name` the library, device or table, cut at `size`. */
enum gm_refusal gm_refusal_find(char *name, size_t size);

#endif
