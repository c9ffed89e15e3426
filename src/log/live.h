/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page of live counters, as it lies in the memfd that /proc/PID/fd shows as
 * "/memfd:gpumem-live (deleted)". Values are written with relaxed atomics and may be read at any time.
 */
#ifndef GM_LOG_LIVE_H
#define GM_LOG_LIVE_H

#include <stdatomic.h>
#include <stdint.h>

#include "log/counters.h"

#define GM_LIVE_NAME "gpumem-live"
#define GM_LIVE_MAGIC "GPUMEMLV"
#define GM_LIVE_VERSION 1

struct gm_live {
	char magic[8];
	uint32_t version, counters, devices, reserved;
	_Atomic uint64_t process[GM_COUNTER_COUNT];
	_Atomic uint64_t device[GM_COUNTER_DEVICES][GM_COUNTER_COUNT];
};

#endif
