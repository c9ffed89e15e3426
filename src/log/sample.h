/* SPDX-License-Identifier: BSD-3-Clause */
/* What samples leave behind in the counters: peaks and sums over time (gpumem-log(5)). */
#ifndef GM_LOG_SAMPLE_H
#define GM_LOG_SAMPLE_H

#include <stdint.h>

#include "log/record.h"

/* Count one sample of a device, taken at `time`. The caller keeps others out. */
void gm_sample_count(unsigned device, uint64_t time, const struct gm_sample *sample);

/* Samples are due from now on, every `interval` ns. */
void gm_sample_start(uint64_t interval);

/* Nothing is due, and nothing was seen. */
void gm_sample_stop(void);

#endif
