/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of logs: trusts nothing in the file, reads what a killed process left, and can say
 * whether the numbers add up. It holds the records in memory (the file's size and a quarter) as
 * they were when it was opened. Not thread-safe; one struct a file. No CUDA, no process state.
 */
#ifndef GM_LOG_READ_H
#define GM_LOG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/counters.h"
#include "log/record.h"

struct gm_log_file;

struct gm_log_read_device {
	char name[96];
	uint8_t uuid[16];
	uint64_t total;
};

/* Strings belong to the file and live until gm_log_read_close; never NULL, "" when not known. */
struct gm_log_about {
	const char *path, *host, *program, *command, *job, *mode,
		*level; /* level: "small", "events" */
	int rank;	/* -1: none */
	int pid;
	int driver_version;
	uint64_t start_wall, start,
		end;  /* ns; start and end on CLOCK_MONOTONIC; end: last sign of life */
	bool closed;  /* cleanly; else killed or still running */
	bool running; /* the process is alive here and still has the log open */
	unsigned n_devices, n_hooks, n_knobs;
	const struct gm_log_read_device *devices;
	const char *const *hooks;
	const char *const *knobs; /* "GPUMEM_LOG=events (environment)" */
	uint64_t records, torn;	  /* slots read, slots never finished */
	uint64_t dropped;	  /* records lost to GPUMEM_LOG_LIMIT or a full disk */
	bool complete; /* every event since the start is there, but for kinds not asked for */
};

/* On success *out is the caller's until gm_log_read_close. On failure `why` gets "no such file",
 * "not a gpumem log", "version 3 of the format, this gpumemstat reads 1 to 2", "segment 2 at 0x...:
 * ..."
 */
bool gm_log_read_open(const char *path, struct gm_log_file **out, char *why, size_t n);
void gm_log_read_close(struct gm_log_file *file);
const struct gm_log_about *gm_log_read_about(const struct gm_log_file *file);

/* The last known value of a counter; DEVICE counters by ordinal, PROCESS ones ignore it. */
uint64_t gm_log_read_counter(const struct gm_log_file *file, unsigned device,
			     enum gm_counter counter);

/* All of one device's, in the order of counters.def, for gm_frag_peak and gm_frag_mean; the file's.
 */
const uint64_t *gm_log_read_counters(const struct gm_log_file *file, unsigned device);

/* Text of a STRING record; NULL if the file does not have it. */
const char *gm_log_read_string(const struct gm_log_file *file, uint32_t number);

/* Records in order of time, STRING and MORE taken out. `sample` is set for SAMPLE and
 * OUT_OF_MEMORY, `heap` for HEAP_SAMPLE, else NULL, and valid until the next call. gm_log_read_next
 * returns false at the end; rewind starts over. */
struct gm_log_entry {
	struct gm_record record;
	const struct gm_sample *sample;
	const struct gm_heap_sample *heap;
};
bool gm_log_read_next(struct gm_log_file *file, struct gm_log_entry *out);
void gm_log_read_rewind(struct gm_log_file *file);

/* Do the numbers add up: counters among themselves, samples, and, when `complete`, events against
 * counters. False: `why` names the first contradiction with both numbers. */
bool gm_log_read_check(struct gm_log_file *file, char *why, size_t n);

#endif
