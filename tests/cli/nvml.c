/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of libnvidia-ml.so.1 that gpumemstat top uses: one device of 80 GiB, of which 5 GiB are
 * used. NVML_UUID is its UUID. NVML_PROCESSES is a list of "PID:BYTES" with commas; BYTES "-" is
 * unknown. NVML_BROKEN names a function that fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_ERROR_INSUFFICIENT_SIZE = 7, NVML_ERROR_UNKNOWN = 999 };

typedef struct nvml_device *nvmlDevice_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static int result_of(const char *function)
{
	const char *broken = getenv("NVML_BROKEN");
	return broken && strcmp(broken, function) == 0 ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
	return result_of("nvmlInit_v2");
}

int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = 1;
	return result_of("nvmlDeviceGetCount_v2");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
	static char device;
	*out = (nvmlDevice_t)(void *)&device;
	return index == 0 ? result_of("nvmlDeviceGetHandleByIndex_v2") : NVML_ERROR_UNKNOWN;
}

int nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned n);
int nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned n)
{
	(void)device;
	snprintf(text, n, "Fake \033[1mH100");
	return result_of("nvmlDeviceGetName");
}

int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned n);
int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned n)
{
	const char *uuid = getenv("NVML_UUID");
	(void)device;
	snprintf(text, n, "%s", uuid ? uuid : "GPU-01234567-89ab-cdef-0123-456789abcdef");
	return result_of("nvmlDeviceGetUUID");
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
	(void)device;
	*out = (nvmlMemory_t){80ull << 30, 75ull << 30, 5ull << 30};
	return result_of("nvmlDeviceGetMemoryInfo");
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *n,
					    nvmlProcessInfo_t *out);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *n,
					    nvmlProcessInfo_t *out)
{
	const char *at = getenv("NVML_PROCESSES");
	unsigned room = *n, count = 0;
	(void)device;
	for (; at && *at; count++) {
		char *end;
		const unsigned pid = (unsigned)strtoul(at, &end, 10);
		const char *bytes = end + 1;
		const unsigned long long used = *bytes == '-' ? ~0ull : strtoull(bytes, NULL, 10);
		if (count < room)
			out[count] = (nvmlProcessInfo_t){pid, used, ~0u, ~0u};
		at = strchr(bytes, ',');
		at = at ? at + 1 : NULL;
	}
	*n = count;
	return count > room ? NVML_ERROR_INSUFFICIENT_SIZE
			    : result_of("nvmlDeviceGetComputeRunningProcesses_v3");
}
