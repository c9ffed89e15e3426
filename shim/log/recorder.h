/* SPDX-License-Identifier: BSD-3-Clause */
/* Events and call stacks, from the start or by request: what the shim does around
 * log/recording.h. */
#ifndef GM_SHIM_LOG_RECORDER_H
#define GM_SHIM_LOG_RECORDER_H

#include <stdint.h>

/* modules.h: keep stacks if the log is one of events, as GPUMEM_STACKS says; obey requests to begin
 * or to end a recording. */
void gm_recorder_start(void);
void gm_recorder_leave(uint64_t now);

#endif
