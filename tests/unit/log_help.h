/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the tests of the log: a temporary folder, children that write logs under given knobs (a
 * process reads its knobs once), and a small model of a program, with counters that match its
 * events.
 */
#ifndef GM_TESTS_LOG_HELP_H
#define GM_TESTS_LOG_HELP_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "log/count.h"
#include "log/log.h"
#include "log/read.h"

#include "../tap.h"

static char help_folder[256];

static inline void help_remove_folder(void)
{
	char command[300];
	snprintf(command, sizeof command, "rm -rf '%s'", help_folder);
	if (system(command))
		perror("rm");
}

/* Make the folder and change into it; it is removed when the test ends. */
static inline void help_begin(void)
{
	const char *tmp = getenv("TMPDIR");
	snprintf(help_folder, sizeof help_folder, "%s/gpumem-log.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(help_folder) || chdir(help_folder)) {
		perror(help_folder);
		exit(1);
	}
	atexit(help_remove_folder);
}

static const struct gm_log_device help_devices[2] = {
	{.name = "Simulated one", .uuid = {1, 2, 3, 255}, .total = 8 * GM_GIB},
	{.name = "Simulated two", .uuid = {4, 5, 6}, .total = 16 * GM_GIB},
};
static const char *const help_hooks[] = {"cuMemAlloc_v2", "cuMemFree_v2"};
static __attribute__((unused)) struct gm_log_config help_config = {.mode = "pool",
								   .driver_version = 13000,
								   .devices = help_devices,
								   .n_devices = 2,
								   .hooks = help_hooks,
								   .n_hooks = 2};

/* Run `what(arg)` in a child, knobs given as "A=x B=y"; the child ends with _exit(result of
 * `what`). Returns wait's status. */
static inline int help_child(const char *knobs, int (*what)(void *arg), void *arg)
{
	char copy[512];
	int status = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		snprintf(copy, sizeof copy, "%s", knobs);
		setenv("GPUMEM_LOG_NAME", "log", 1);
		for (char *knob = strtok(copy, " "); knob; knob = strtok(NULL, " "))
			putenv(knob);
		_exit(what(arg));
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

/* Open a log that must be readable; NULL (and a failed check) if it is not. */
static inline struct gm_log_file *help_open(const char *path)
{
	struct gm_log_file *file = NULL;
	char why[256] = "";
	bool ok = gm_log_read_open(path, &file, why, sizeof why);
	if (!TAP_OK(ok, "%s can be read", path))
		printf("# %s\n", why);
	return ok ? file : NULL;
}

static inline bool help_check(struct gm_log_file *file)
{
	char why[256] = "";
	bool ok = gm_log_read_check(file, why, sizeof why);
	if (!ok)
		printf("# %s\n", why);
	return ok;
}

/* --- the model of a program: one chunk a device, blocks by id --- */

#define HELP_BLOCKS 4096
struct help_block {
	uint64_t id, size, held;
};
static struct help_device {
	struct help_block live[HELP_BLOCKS];
	unsigned n;
	uint64_t requested, handed_out, mapped;
} help_of[2];
static uint64_t help_ids;

static inline void help_gauges(unsigned d)
{
	struct help_device *device = &help_of[d];
	gm_counter_set(d, GM_C_requested, device->requested);
	gm_counter_set(d, GM_C_handed_out, device->handed_out);
	gm_counter_set(d, GM_C_mapped, device->mapped);
	gm_counter_set(d, GM_C_idle, device->mapped - device->handed_out);
	gm_counter_set(d, GM_C_live_blocks, device->n);
	if (gm_counter_raise(d, GM_C_requested_peak, device->requested))
		gm_counter_set(d, GM_C_requested_peak_time, gm_clock_ns());
	if (gm_counter_raise(d, GM_C_mapped_peak, device->mapped))
		gm_counter_set(d, GM_C_mapped_peak_time, gm_clock_ns());
}

static inline void help_map(unsigned d, uint64_t size)
{
	struct gm_record record = {
		.size = size, .id = 1, .device = (uint8_t)d, .kind = GM_RECORD_MAP};
	help_of[d].mapped += size;
	gm_counter_add(d, GM_C_map_calls, 1);
	gm_counter_add(d, GM_C_map_bytes, size);
	help_gauges(d);
	if (gm_log_wants(GM_RECORD_MAP))
		gm_log_put(&record);
}

static inline void help_allocate(unsigned d, uint64_t size)
{
	struct help_device *device = &help_of[d];
	struct help_block block = {++help_ids, size, (size + 511) / 512 * 512};
	struct gm_record record = {.address = block.id << 20,
				   .size = size,
				   .held = block.held,
				   .id = block.id,
				   .hook = 1,
				   .device = (uint8_t)d,
				   .kind = GM_RECORD_ALLOCATE};
	device->live[device->n++] = block;
	device->requested += size;
	device->handed_out += block.held;
	gm_counter_add(d, GM_C_allocate_calls, 1);
	gm_counter_add(d, GM_C_allocate_pool, 1);
	gm_counter_add(d, GM_C_allocate_bytes, size);
	help_gauges(d);
	if (gm_log_wants(GM_RECORD_ALLOCATE))
		gm_log_put(&record);
}

static inline void help_free(unsigned d, unsigned which)
{
	struct help_device *device = &help_of[d];
	struct help_block block = device->live[which];
	struct gm_record record = {.address = block.id << 20,
				   .size = block.size,
				   .held = block.held,
				   .id = block.id,
				   .hook = 2,
				   .device = (uint8_t)d,
				   .kind = GM_RECORD_FREE};
	device->live[which] = device->live[--device->n];
	device->requested -= block.size;
	device->handed_out -= block.held;
	gm_counter_add(d, GM_C_free_calls, 1);
	gm_counter_add(d, GM_C_free_bytes, block.size);
	help_gauges(d);
	if (gm_log_wants(GM_RECORD_FREE))
		gm_log_put(&record);
}

static inline struct gm_sample help_state(unsigned d)
{
	const struct help_device *device = &help_of[d];
	uint64_t idle = device->mapped - device->handed_out;
	return (struct gm_sample){.requested = device->requested,
				  .handed_out = device->handed_out,
				  .mapped = device->mapped,
				  .idle = idle,
				  .largest_idle = idle / 4,
				  .largest_after_remap = idle / 2,
				  .unreclaimable = idle / 8,
				  .live_blocks = device->n,
				  .chunks = 1,
				  .idle_extents = 2,
				  .idle_units = {(uint32_t)(idle / 4 / GM_SAMPLE_UNIT)},
				  .idle_runs = {2}};
}

static inline void help_sample(unsigned d, uint64_t time, enum gm_record_kind kind)
{
	struct gm_sample sample = help_state(d);
	struct gm_record record = {.time = time, .device = (uint8_t)d, .kind = (uint8_t)kind};
	gm_log_put_sample(&record, &sample);
}

static inline void help_walk(void (*each)(void *arg, const struct gm_record *live), void *arg)
{
	for (unsigned d = 0; d < 2; d++)
		for (unsigned i = 0; i < help_of[d].n; i++) {
			const struct help_block *block = &help_of[d].live[i];
			struct gm_record record = {.address = block->id << 20,
						   .size = block->size,
						   .held = block->held,
						   .id = block->id,
						   .device = (uint8_t)d,
						   .kind = GM_RECORD_LIVE};
			each(arg, &record);
		}
}

#endif
