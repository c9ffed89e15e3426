/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log in memory, for read.c, load.c and check.c. Memory is bounded by the size of the file, never
 * by a number in it; whatever does not fit the format is left out and remembered in `damage`.
 */
#ifndef GM_LOG_LOAD_H
#define GM_LOG_LOAD_H

#include "base/array.h"
#include "log/format.h"
#include "log/read.h"

struct gm_load_segment {
	struct gm_segment_head head;
	uint64_t offset;
	struct gm_record *slots;
	uint32_t n;
};

struct gm_load_key {
	uint64_t time;
	uint32_t segment, slot;
};

struct gm_load_string {
	uint32_t number;
	char *text;
};

struct gm_log_file {
	int fd;
	uint64_t size; /* at first: what is added later is not looked at */
	uint64_t segment_size;
	uint32_t version; /* of the format */
	struct gm_log_about about;
	char *path, *text;
	GM_ARRAY(struct gm_log_read_device) devices;
	GM_ARRAY(const char *) hooks;
	GM_ARRAY(const char *) knobs;
	GM_ARRAY(struct gm_load_segment) segments; /* by sequence */
	GM_ARRAY(struct gm_load_key) keys;	   /* by time */
	GM_ARRAY(struct gm_load_string) strings;   /* by number */
	struct gm_page_head page;		   /* what stands before the live counters */
	uint64_t sequence;			   /* newest segment before any was read */
	bool page_known;			   /* else the counters are those of a checkpoint */
	uint64_t counters[GM_PAGE_ROWS][GM_COUNTER_COUNT];
	uint32_t kept; /* bit k: records of kind k are kept */
	size_t at;     /* in keys */
	struct gm_sample sample;
	struct gm_heap_sample heap;
	char damage[160];
};

/* Note the first damage. */
__attribute__((format(printf, 2, 3))) void gm_load_damage(struct gm_log_file *file,
							  const char *format, ...);

/* Read up to `n` bytes at `offset`, no further than the file was long when opened; the rest is
 * zeroed. Returns how many there were. */
size_t gm_load_bytes(const struct gm_log_file *file, void *to, size_t n, uint64_t offset);

/* Read every segment whose head can be trusted; false: host memory is short. */
bool gm_load_segments(struct gm_log_file *file);

/* Read strings and index the records; false: host memory is short. */
bool gm_load_index(struct gm_log_file *file);

/* Read the counters of the page at `offset`; false: there is none. */
bool gm_load_page(struct gm_log_file *file, uint64_t offset, struct gm_page_head *head);

/* Fill in what the newest head says; false: host memory is short. */
bool gm_load_about(struct gm_log_file *file);

/* Is the record followed by a sample, and which? False: it is not all there. What an older version
 * of the library did not write is 0. */
bool gm_load_has_sample(const struct gm_record *record);
bool gm_load_sample(const struct gm_load_segment *segment, uint32_t slot, struct gm_sample *out);

/* What follows a HEAP_SAMPLE; false: nothing, or not all. What an older version did not write is 0.
 */
bool gm_load_heap(const struct gm_load_segment *segment, uint32_t slot, struct gm_heap_sample *out);

/* The body of a record of `length` bytes in the slots after it; false: it is not all there. */
bool gm_load_body(const struct gm_load_segment *segment, uint32_t slot, void *to, size_t length);

#endif
