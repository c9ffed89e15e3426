/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reasons not to put a process to sleep, apart from its memory: libraries and devices that know or
 * use memory of the pool past gpumem's hooks. Their use counts, not their presence: every PyTorch
 * loads libcufile and NCCL. Any thread may call these functions, with no lock held.
 */
#ifndef GM_SHIM_SLEEP_REFUSAL_H
#define GM_SHIM_SLEEP_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

#include "driver/driver.h"
#include "residency/move.h"

/* The program looks up a kernel of this name. NCCL does so when it makes a communicator. */
void gm_refusal_kernel_asked(const char *name);

/* NONE, or the reason; `name` gets the library, device or table, cut at `size`. `ordered`: a user
 * or the program orders the sleep, so that a communicator is no reason: processes that wait for
 * each other may be put to sleep only where someone knows all of them. */
enum gm_refusal gm_refusal_find(bool ordered, char *name, size_t size);

/* The result of gpumem_sleep, by any refusal; it sleeps already: CUDA_SUCCESS. */
CUresult gm_refusal_result(enum gm_refusal refusal);

#endif
