/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process with the preload has its live counters in a file of its /proc/PID/fd: its log, or a
 * memfd named "gpumem". NVML gives the processes without the preload.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/frag.h"
#include "log/load.h"
#include "tools/log/process.h"
#include "tools/tool.h"
#include "tools/top/nvml.h"
#include "tools/top/top.h"

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* --- the counters of a process --- */

/* The counters in an open file. NULL: none. gm_log_read_close frees. */
static struct gm_log_file *live_open(int fd)
{
	struct gm_load_segment first = {0};
	struct gm_log_file *file = calloc(1, sizeof *file);
	struct stat st;
	char magic[8];
	if (!file)
		memory_exhausted();
	file->fd = fd;
	file->about.program = "";
	file->size = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (gm_load_bytes(file, magic, sizeof magic, 0) == sizeof magic) {
		if (memcmp(magic, GM_PAGE_MAGIC, sizeof magic) == 0 &&
		    gm_load_page(file, 0, &file->page))
			return file;
		if (memcmp(magic, GM_FORMAT_MAGIC, sizeof magic) == 0 &&
		    gm_load_page(file, GM_PAGE_OFFSET, &file->page) &&
		    gm_load_bytes(file, &first.head, sizeof first.head, 0) == sizeof first.head &&
		    (uint64_t)first.head.text_offset + first.head.text_size <= GM_PAGE_OFFSET &&
		    gm_array_push(&file->segments, first) && gm_load_about(file))
			return file;
	}
	gm_log_read_close(file);
	return NULL;
}

/* The counters of a process. */
static struct gm_log_file *process_open(int pid)
{
	struct gm_process process;
	if (!gm_process_find(pid, &process))
		return NULL;
	const int fd = open(process.live, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? NULL : live_open(fd);
}

/* --- the table --- */

static unsigned device_add(struct gm_top *top, const struct gm_top_device *device)
{
	if (!gm_array_push(&top->devices, *device))
		memory_exhausted();
	return (unsigned)top->devices.n - 1;
}

/* The device of an ordinal of a process. Without a log, only the number is known. */
static unsigned device_find(struct gm_top *top, const struct gm_log_about *about, unsigned ordinal)
{
	struct gm_top_device device = {0};
	if (ordinal < about->n_devices) {
		const struct gm_log_read_device *known = &about->devices[ordinal];
		for (unsigned i = 0; i < top->devices.n; i++)
			if (top->devices.at[i].identified &&
			    memcmp(top->devices.at[i].uuid, known->uuid, sizeof known->uuid) == 0)
				return i;
		device.identified = true;
		device.total = known->total;
		memcpy(device.uuid, known->uuid, sizeof device.uuid);
		snprintf(device.name, sizeof device.name, "%s", known->name);
		return device_add(top, &device);
	}
	while (top->devices.n <= ordinal)
		device_add(top, &device);
	return ordinal;
}

static void process_add(struct gm_top *top, const struct gm_top_process *process)
{
	if (!gm_array_push(&top->processes, *process))
		memory_exhausted();
}

static struct gm_top_process device_counters(const struct gm_log_file *file, unsigned device)
{
	const uint64_t *c = gm_log_read_counters(file, device);
	struct gm_frag mean;
	gm_frag_mean(c, &mean);
	/* The counters are read one by one, so `away` may exceed the sum. */
	const uint64_t held = c[GM_C_mapped] + c[GM_C_lent];
	const uint64_t away = c[GM_C_away] < held ? c[GM_C_away] : held;
	return (struct gm_top_process){
		.counted = true,
		.memory_known = true,
		.memory = held - away + c[GM_C_foreign],
		.requested = c[GM_C_requested],
		.mapped = c[GM_C_mapped],
		.away = away,
		.heap = c[GM_C_heap_mapped],
		.lent = c[GM_C_lent],
		.foreign = c[GM_C_foreign],
		.allocations = c[GM_C_allocate_calls],
		.external = (uint64_t)(mean.external * 1e6),
	};
}

/* Add a row for each device used by the process, or one row without a device. */
static void process_count(struct gm_top *top, int pid, const struct gm_log_file *file)
{
	bool any = false;
	char program[64];
	if (*file->about.program)
		snprintf(program, sizeof program, "%s", file->about.program);
	else
		gm_process_program(pid, program, sizeof program);
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		struct gm_top_process process = device_counters(file, d);
		if (!process.memory && !process.allocations)
			continue;
		process.pid = pid;
		process.device = device_find(top, &file->about, d);
		memcpy(process.program, program, sizeof program);
		process_add(top, &process);
		any = true;
	}
	if (!any) {
		struct gm_top_process process = {.pid = pid,
						 .device = GM_TOP_NO_DEVICE,
						 .counted = true,
						 .memory_known = true};
		memcpy(process.program, program, sizeof program);
		process_add(top, &process);
	}
}

/* Processes with a log first: a log names the devices. */
static void counters_read(struct gm_top *top)
{
	struct found {
		int pid;
		struct gm_log_file *file;
	};
	GM_ARRAY(struct found) found = {0};
	DIR *dir = opendir("/proc");
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		const int pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;
		struct gm_log_file *file = pid > 0 ? process_open(pid) : NULL;
		if (file && !gm_array_push(&found, (struct found){pid, file}))
			memory_exhausted();
	}
	if (dir)
		closedir(dir);
	for (unsigned named = 2; named-- > 0;)
		for (size_t i = 0; i < found.n; i++)
			if ((found.at[i].file->about.n_devices > 0) == named)
				process_count(top, found.at[i].pid, found.at[i].file);
	for (size_t i = 0; i < found.n; i++)
		gm_log_read_close(found.at[i].file);
	gm_array_free(&found);
}

/* --- NVML --- */

static void nvml_process_add(struct gm_top *top, unsigned device,
			     const struct gm_nvml_process *known)
{
	const bool measured = known->used != UINT64_MAX;
	for (size_t i = 0; i < top->processes.n; i++) {
		struct gm_top_process *process = &top->processes.at[i];
		if (process->pid != known->pid ||
		    (process->device != device && process->device != GM_TOP_NO_DEVICE))
			continue;
		process->device = device;
		process->memory = measured ? known->used : process->memory;
		return;
	}
	struct gm_top_process process = {.pid = known->pid,
					 .device = device,
					 .memory_known = measured,
					 .memory = measured ? known->used : 0};
	gm_process_program(known->pid, process.program, sizeof process.program);
	process_add(top, &process);
}

static void nvml_devices_add(struct gm_top *top, const struct gm_nvml *nvml)
{
	for (size_t i = 0; i < nvml->devices.n; i++) {
		const struct gm_nvml_device *from = &nvml->devices.at[i];
		struct gm_top_device device = {
			.identified = true, .total = from->total, .used = from->used};
		memcpy(device.uuid, from->uuid, sizeof device.uuid);
		memcpy(device.name, from->name, sizeof device.name);
		device_add(top, &device);
	}
}

static void sums_make(struct gm_top *top)
{
	for (size_t i = 0; i < top->processes.n; i++) {
		const struct gm_top_process *process = &top->processes.at[i];
		if (process->device >= top->devices.n)
			continue;
		struct gm_top_device *device = &top->devices.at[process->device];
		device->processes++;
		device->requested += process->requested;
		device->mapped += process->mapped;
		device->heap += process->heap;
		device->foreign += process->foreign;
		device->away += process->away;
	}
	/* Without NVML `used` is 0 here: use the sum of the processes. */
	for (size_t d = 0; d < top->devices.n; d++) {
		uint64_t sum = 0;
		for (size_t i = 0; i < top->processes.n; i++)
			sum += top->processes.at[i].device == d ? top->processes.at[i].memory : 0;
		if (!top->devices.at[d].used)
			top->devices.at[d].used = sum;
	}
}

void gm_top_read(struct gm_top *out)
{
	struct gm_nvml nvml;
	*out = (struct gm_top){0};
	gm_nvml_read(&nvml);
	nvml_devices_add(out, &nvml); /* first, so that numbers are those of nvidia-smi */
	counters_read(out);
	for (unsigned d = 0; d < nvml.devices.n; d++)
		for (size_t i = 0; i < nvml.devices.at[d].processes.n; i++)
			nvml_process_add(out, d, &nvml.devices.at[d].processes.at[i]);
	sums_make(out);
	gm_nvml_free(&nvml);
}

void gm_top_free(struct gm_top *top)
{
	gm_array_free(&top->processes);
	gm_array_free(&top->devices);
}
