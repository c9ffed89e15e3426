/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and values of nvml.h, unchanged since release 11.5 of CUDA. */
#include "tools/top/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MOST = 64, PROCESSES_MOST = 4096, TRIES = 4 };
enum { NVML_SUCCESS = 0, NVML_ERROR_INSUFFICIENT_SIZE = 7 };

typedef struct nvml_device *nvml_device;

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_process {
	unsigned pid;
	unsigned long long used; /* ~0: not available */
	unsigned gpu_instance, compute_instance;
};

/* The functions; unused unless all were found. */
static struct {
	int (*init)(void);
	int (*count)(unsigned *n);
	int (*handle)(unsigned index, nvml_device *out);
	int (*name)(nvml_device device, char *text, unsigned n);
	int (*uuid)(nvml_device device, char *text, unsigned n);
	int (*memory)(nvml_device device, struct nvml_memory *out);
	int (*compute)(nvml_device device, unsigned *n, struct nvml_process *out);
} nvml;

static bool library_open(void)
{
	static const struct {
		void *to;
		const char *name;
	} symbols[] = {
		{&nvml.init, "nvmlInit_v2"},
		{&nvml.count, "nvmlDeviceGetCount_v2"},
		{&nvml.handle, "nvmlDeviceGetHandleByIndex_v2"},
		{&nvml.name, "nvmlDeviceGetName"},
		{&nvml.uuid, "nvmlDeviceGetUUID"},
		{&nvml.memory, "nvmlDeviceGetMemoryInfo"},
		{&nvml.compute, "nvmlDeviceGetComputeRunningProcesses_v3"},
	};
	static bool tried, usable;
	if (tried)
		return usable;
	tried = true;
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	usable = library != NULL;
	for (size_t i = 0; usable && i < sizeof symbols / sizeof *symbols; i++) {
		void *symbol = dlsym(library, symbols[i].name);
		usable = symbol != NULL;
		memcpy(symbols[i].to, &symbol, sizeof symbol);
	}
	usable = usable && nvml.init() == NVML_SUCCESS;
	return usable;
}

/* "GPU-6dd3...", hexadecimal digits with dashes. False: other text. */
static bool uuid_parse(const char *text, unsigned char uuid[16])
{
	unsigned digits = 0;
	const char *at = strncmp(text, "GPU-", 4) == 0 ? text + 4 : text;
	memset(uuid, 0, 16);
	for (; *at; at++) {
		static const char hex[] = "0123456789abcdef";
		const char *digit = strchr(hex, *at | 0x20);
		if (*at == '-')
			continue;
		if (!digit || digits == 32)
			return false;
		uuid[digits / 2] |= (unsigned char)((digit - hex) << (digits % 2 ? 0 : 4));
		digits++;
	}
	return digits == 32;
}

/* The compute processes of a device; none if the library refuses. */
static bool processes_read(struct gm_nvml_device *device, nvml_device handle)
{
	struct nvml_process *list = NULL;
	unsigned n = 32;
	int result = NVML_ERROR_INSUFFICIENT_SIZE;
	/* Processes may start between two calls. */
	for (unsigned i = 0; i < TRIES && result == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
		free(list);
		n = n < PROCESSES_MOST ? n : PROCESSES_MOST;
		list = calloc(n + 1, sizeof *list);
		const unsigned room = n;
		result = list ? nvml.compute(handle, &n, list) : NVML_SUCCESS;
		if (!list || n > room)
			n = result == NVML_ERROR_INSUFFICIENT_SIZE ? n + 16 : 0;
	}
	bool ok = list != NULL;
	for (unsigned i = 0; ok && result == NVML_SUCCESS && i < n; i++) {
		const struct gm_nvml_process process = {(int)list[i].pid, list[i].used};
		ok = gm_array_push(&device->processes, process);
	}
	free(list);
	return ok;
}

static bool device_read(struct gm_nvml_device *device, unsigned index)
{
	nvml_device handle;
	struct nvml_memory memory = {0};
	char uuid[96] = "";
	if (nvml.handle(index, &handle) != NVML_SUCCESS ||
	    nvml.uuid(handle, uuid, sizeof uuid) != NVML_SUCCESS || !uuid_parse(uuid, device->uuid))
		return false;
	if (nvml.name(handle, device->name, sizeof device->name) != NVML_SUCCESS)
		*device->name = '\0';
	device->name[sizeof device->name - 1] = '\0';
	if (nvml.memory(handle, &memory) == NVML_SUCCESS) {
		device->total = memory.total;
		device->used = memory.used;
	}
	return processes_read(device, handle);
}

bool gm_nvml_read(struct gm_nvml *out)
{
	unsigned n = 0;
	*out = (struct gm_nvml){0};
	if (!library_open() || nvml.count(&n) != NVML_SUCCESS)
		return false;
	for (unsigned i = 0; i < n && i < DEVICES_MOST; i++) {
		struct gm_nvml_device device = {0};
		if (!device_read(&device, i) || !gm_array_push(&out->devices, device))
			gm_array_free(&device.processes);
	}
	return true;
}

void gm_nvml_free(struct gm_nvml *of)
{
	for (size_t i = 0; i < of->devices.n; i++)
		gm_array_free(&of->devices.at[i].processes);
	gm_array_free(&of->devices);
}
