/* SPDX-License-Identifier: BSD-3-Clause */
/* What NVIDIA's management library knows of the devices and their processes, where it is installed.
 * Single-threaded. */
#ifndef GM_TOOLS_TOP_NVML_H
#define GM_TOOLS_TOP_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

struct gm_nvml_process {
	int pid;
	uint64_t used; /* bytes; UINT64_MAX: the library does not know */
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

/* Ask libnvidia-ml.so.1. False: it is not installed, or has no answer. The library stays loaded.
 * The caller frees *out, in both cases. */
bool gm_nvml_read(struct gm_nvml *out);
void gm_nvml_free(struct gm_nvml *nvml);

/* "GPU-6dd3...", hexadecimal digits with dashes. False: it is none. */
bool gm_nvml_parse_uuid(const char *text, unsigned char uuid[16]);

#endif
