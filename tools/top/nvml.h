/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and their processes, from NVIDIA's management library, if installed. Single-threaded. */
#ifndef GM_TOOLS_TOP_NVML_H
#define GM_TOOLS_TOP_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

struct gm_nvml_process {
	int pid;
	uint64_t used; /* bytes; UINT64_MAX: unknown */
};

struct gm_nvml_device {
	unsigned char uuid[16];
	char name[96];
	uint64_t total, used; /* bytes */
	GM_ARRAY(struct gm_nvml_process) processes;
};

struct gm_nvml {
	GM_ARRAY(struct gm_nvml_device) devices;
};

/* Query libnvidia-ml.so.1. False: not installed, or it failed. The library stays loaded. The caller
 * frees *out in both cases. */
bool gm_nvml_read(struct gm_nvml *out);
void gm_nvml_free(struct gm_nvml *nvml);

#endif
