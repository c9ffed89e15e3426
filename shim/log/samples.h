/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of the pools, for the log. Any thread, no lock held. */
#ifndef GM_SHIM_LOG_SAMPLES_H
#define GM_SHIM_LOG_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

/* Write a fragmentation sample of every due pool; `last`: of every pool. No CUDA call. */
void gm_samples_write(uint64_t now, bool last);

/* modules.h */
void gm_samples_pool_made(unsigned ordinal);
void gm_samples_leave(uint64_t now);
void gm_samples_report(void);
void gm_samples_forget(void);

#endif
