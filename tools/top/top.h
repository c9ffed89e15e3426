/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices and their processes at this moment. Single-threaded. */
#ifndef GM_TOOLS_TOP_TOP_H
#define GM_TOOLS_TOP_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

#define GM_TOP_NO_DEVICE UINT32_MAX

/* A process on a device. */
struct gm_top_process {
	int pid;
	unsigned device; /* index of gm_top.devices; GM_TOP_NO_DEVICE: no device used */
	bool counted;	 /* has the preload's counters; else only `memory` is known */
	bool memory_known;
	uint64_t memory; /* from NVML, else mapped + lent - away + foreign */
	uint64_t requested, mapped, heap, lent, foreign, allocations;
	uint64_t away;	   /* of mapped and lent, in host memory */
	uint64_t external; /* ppm, the mean of the samples */
	char program[64];
};

struct gm_top_device {
	unsigned char uuid[16];
	bool identified; /* uuid is known */
	char name[96];
	uint64_t total; /* 0: unknown */
	uint64_t used;	/* from NVML, else the sum of its processes */
	unsigned processes;
	uint64_t requested, mapped, heap, foreign, away; /* sums of its processes */
};

struct gm_top {
	GM_ARRAY(struct gm_top_process) processes;
	GM_ARRAY(struct gm_top_device) devices;
};

/* Read NVML and the live counters of all processes with readable files. Ends the program when
 * memory is short. The caller frees *out. */
void gm_top_read(struct gm_top *out);
void gm_top_free(struct gm_top *top);

#endif
