/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle memory of other processes of this user (GPUMEM_SLEEP=1 in both): before a call fails for
 * lack of memory, each of them is asked to return its own to the driver. Any thread, with no lock
 * held.
 */
#ifndef GM_SHIM_OTHERS_H
#define GM_SHIM_OTHERS_H

#include <stdint.h>

/* modules.h; bytes that others returned. Waits for their answers, GM_OTHERS_PATIENCE at most. */
uint64_t gm_others_reclaim(unsigned ordinal);
#define GM_OTHERS_PATIENCE 2000000000u /* ns for all of them */

/* Bytes that others returned so far because this process asked. */
uint64_t gm_others_given(void);

#endif
