/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of logs. It trusts nothing in the file, reads the logs of killed processes, and can
 * check whether the numbers add up. It holds the records, as of the time of opening, in memory (the
 * file's size and a quarter), and keeps no descriptor. Of a closed log of more than 64 MiB it holds
 * the segments around the current record only, and keeps a descriptor during a pass. Not
 * thread-safe; one struct a file. No CUDA.
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

/* Strings belong to the file and live until gm_log_read_close; never NULL, "" when unknown. */
struct gm_log_about {
	const char *path, *host, *program, *command, *job, *mode,
		*level; /* level: "small", "events" */
	int rank;	/* -1: none */
	int pid;
	int driver_version;
	uint64_t start_wall, start,
		end;	  /* ns; start and end on CLOCK_MONOTONIC; end: last sign of life */
	bool closed;	  /* cleanly; else, if ended_known, the process was killed or still runs */
	bool ended_known; /* the page of counters, which records the end, is readable */
	bool recording;	  /* events from a request on: counters are those of the whole run */
	bool ended;	  /* a recording: it was ended, and the process went on */
	bool running;	  /* the process lives on this host and has the log open */
	unsigned n_devices, n_hooks, n_knobs;
	const struct gm_log_read_device *devices;
	const char *const *hooks;
	const char *const *knobs; /* "GPUMEM_LOG=events (environment)" */
	uint64_t records, torn;	  /* slots read; slots never finished */
	uint64_t dropped;	  /* records lost to GPUMEM_LOG_LIMIT or a full disk */
	uint32_t kept;		  /* bit k: records of kind k are kept */
	uint64_t since;		  /* events before are dropped; `start` when none are */
	bool since_known;	  /* the blocks that were live then are known */
	bool complete;		  /* has every event since the start, of the selected kinds */
	const char *damage; /* a part that is missing or unreadable, as in "it was cut: ..." */
};

/* On success the caller owns *out until gm_log_read_close. On failure `why` gets "no such file",
 * "not a gpumem log", "version 3 of the format, this gpumemstat reads 1 to 2", "segment 2 at 0x...:
 * ..." */
bool gm_log_read_open(const char *path, struct gm_log_file **out, char *why, size_t n);
void gm_log_read_close(struct gm_log_file *file);
/* From now on `tell` is called while segments of a long log are read: `done` of `total` bytes of
 * this pass. NULL: no calls. */
typedef void gm_log_read_tell(const char *path, uint64_t done, uint64_t total);
void gm_log_read_progress(gm_log_read_tell *tell);

const struct gm_log_about *gm_log_read_about(const struct gm_log_file *file);

/* The last known value of a counter; `device` is the ordinal, ignored for PROCESS counters. */
uint64_t gm_log_read_counter(const struct gm_log_file *file, unsigned device,
			     enum gm_counter counter);

/* All counters of a device, in the order of counters.def, for gm_frag_peak and gm_frag_mean. They
 * belong to the file. */
const uint64_t *gm_log_read_counters(const struct gm_log_file *file, unsigned device);

/* Text of a STRING record; NULL: the file has none of this number. */
const char *gm_log_read_string(const struct gm_log_file *file, uint32_t number);

/* The frames of a STACK record, the innermost one first, and an OBJECT; NULL: the file has none of
 * this number. Numbers in them may have no record. */
struct gm_log_stack {
	uint32_t n, flags; /* enum gm_stack_flag */
	struct gm_frame frames[];
};
struct gm_log_object {
	uint32_t path; /* number of a string */
	uint32_t id_length;
	uint64_t address, size;
	uint8_t id[];
};
const struct gm_log_stack *gm_log_read_stack(const struct gm_log_file *file, uint32_t number);
const struct gm_log_object *gm_log_read_object(const struct gm_log_file *file, uint32_t number);

/* The records in order of time, without STRING, STACK, OBJECT and MORE. `sample` is set for SAMPLE
 * and OUT_OF_MEMORY, `heap` for HEAP_SAMPLE, else NULL; both are valid until the next call. False:
 * there are no more. rewind starts over. */
struct gm_log_entry {
	struct gm_record record;
	const struct gm_sample *sample;
	const struct gm_heap_sample *heap;
	uint32_t segment; /* of the record; 0: the oldest one */
};
bool gm_log_read_next(struct gm_log_file *file, struct gm_log_entry *out);
void gm_log_read_rewind(struct gm_log_file *file);

/* Check that the numbers add up: counters among themselves, samples, and, when `complete`, events
 * against counters. False: `why` names the first contradiction with both numbers. Rewinds a closed
 * log of more than 64 MiB. */
bool gm_log_read_check(struct gm_log_file *file, char *why, size_t n);

#endif
