/* SPDX-License-Identifier: BSD-3-Clause */
/* Events and call stacks, from the start or by request: what the shim does around
 * log/recording.h. */
#ifndef GM_SHIM_LOG_RECORDER_H
#define GM_SHIM_LOG_RECORDER_H

#include <stdint.h>

/* Keep stacks of allocations, as a value of GPUMEM_STACKS says (knob.h). There is a log with event
 * records, or is about to be. One thread at a time. */
void gm_recorder_keep_stacks(int choice);

/* modules.h: obey a request to begin or to end a recording. */
void gm_recorder_leave(uint64_t now);

#endif
