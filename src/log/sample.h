/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters derived from samples: peaks, and sums over time (gpumem-log(5)). */
#ifndef GM_LOG_SAMPLE_H
#define GM_LOG_SAMPLE_H

#include <stdint.h>

#include "log/record.h"

/* Count one sample of a device, taken at `time`. pre: GM_LOCK_RANK_LOG is held, or the process has
 * one thread. */
void gm_sample_count(unsigned device, uint64_t time, const struct gm_sample *sample);

/* From now on samples are due every `interval` ns. */
void gm_sample_start(uint64_t interval);

/* From now on no sample is due; forget the last samples. pre: GM_LOCK_RANK_LOG is held, or the
 * process has one thread. */
void gm_sample_stop(void);

#endif
