/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log in memory, for read.c, load.c and check.c. The size of the file bounds the memory, never a
 * number in it; a long log takes the memory of a few segments. Parts that do not fit the format are
 * skipped and recorded in `damage`. Not thread-safe.
 */
#ifndef GM_LOG_LOAD_H
#define GM_LOG_LOAD_H

#include <sys/stat.h>

#include "base/array.h"
#include "log/format.h"
#include "log/read.h"

struct gm_load_segment {
	struct gm_segment_head head;
	uint64_t offset;
	struct gm_record *slots;
	uint32_t n;
	uint64_t earliest; /* of a file that is passed: the first time in this and all later
			      segments */
};

struct gm_load_key {
	uint64_t time;
	uint32_t segment, slot;
};

/* Keys of records, by time, and the next one to be read. */
struct gm_load_keys {
	GM_ARRAY(struct gm_load_key) of;
	size_t at;
};

/* A log that is closed and has more segments than this is read anew, two segments at a time, at
 * each pass. */
#define GM_LOAD_HELD 4

/* A thing that a record defines under a number; other records refer to it by that. */
struct gm_load_thing {
	uint32_t number;
	void *at; /* a text, struct gm_log_stack, struct gm_log_object; of malloc */
};
typedef GM_ARRAY(struct gm_load_thing) gm_load_things;

struct gm_log_file {
	int fd;	       /* -1 once all is read */
	uint64_t size; /* size when opened; data appended later is not read */
	uint64_t segment_size;
	uint32_t version; /* of the format */
	struct gm_log_about about;
	char *path, *text;
	GM_ARRAY(struct gm_log_read_device) devices;
	GM_ARRAY(const char *) hooks;
	GM_ARRAY(const char *) knobs;
	GM_ARRAY(struct gm_load_segment) segments; /* by sequence */
	struct gm_load_keys keys;		   /* of all records, unless `passed` */
	bool passed;				   /* slots are not held, but read by each pass */
	GM_ARRAY(struct gm_load_keys) windows;	   /* of the pass: one for each segment in memory */
	uint32_t next_segment;			   /* of the pass: index of the next one to read */
	struct stat identity;			   /* of a file that is passed */
	gm_load_things strings, stacks, objects;   /* by number */
	struct gm_page_head page;		   /* the head of the live counters */
	uint64_t sequence;			   /* newest segment, by the page read first */
	bool page_known;			   /* else the counters are those of a checkpoint */
	uint64_t counters[GM_PAGE_ROWS][GM_COUNTER_COUNT];
	uint64_t last; /* time of the last record */
	uint32_t kept; /* bit k: records of kind k are kept */
	struct gm_sample sample;
	struct gm_heap_sample heap;
	char damage[160];
};

/* Record the first damage; later ones are ignored. */
__attribute__((format(printf, 2, 3))) void gm_load_damage(struct gm_log_file *file,
							  const char *format, ...);

/* Read up to `n` bytes at `offset`, within the size of the file when opened; the rest of `to` is
 * zeroed. Returns the number of bytes read. */
size_t gm_load_bytes(const struct gm_log_file *file, void *to, size_t n, uint64_t offset);

/* Read every segment with a valid head. False: host memory is short. */
bool gm_load_segments(struct gm_log_file *file);

/* Read the strings, stacks and objects, and index the records. False: host memory is short. */
bool gm_load_index(struct gm_log_file *file);

/* Begin a pass. Ends the one before. */
void gm_load_pass_begin(struct gm_log_file *file);

/* The next record of the pass, by time. NULL: there are no more, or the file has changed; `damage`
 * then records that. */
const struct gm_load_key *gm_load_pass_next(struct gm_log_file *file);

/* Read the counters of the page at `offset`. False: there is no valid page. */
bool gm_load_page(struct gm_log_file *file, uint64_t offset, struct gm_page_head *head);

/* Fill in `about` from the newest head. False: host memory is short. */
bool gm_load_about(struct gm_log_file *file);

/* has_sample: the record's kind has a sample as its body. sample: read it; false: it is incomplete.
 * Members that an older version of the library did not write are 0. */
bool gm_load_has_sample(const struct gm_record *record);
bool gm_load_sample(const struct gm_load_segment *segment, uint32_t slot, struct gm_sample *out);

/* In things.c: keep the thing that the STRING, STACK or OBJECT at `slot` defines; an incomplete one
 * adds to `torn`. False: host memory is short. unique: sort by number, without doubles. */
bool gm_load_things_add(struct gm_log_file *file, const struct gm_load_segment *segment,
			uint32_t slot);
void gm_load_things_unique(struct gm_log_file *file);
/* Add the stack of GM_STACK_BEFORE. False: host memory is short. */
bool gm_load_things_add_before(struct gm_log_file *file);
/* Does a record of the kind define a thing? */
bool gm_load_defines(uint8_t kind);
/* The thing of a number; NULL: there is none. */
const void *gm_load_thing(const gm_load_things *things, uint32_t number);
void gm_load_things_free(gm_load_things *things);

/* Read the body of a HEAP_SAMPLE. False: it is incomplete. Members that an older version did not
 * write are 0. */
bool gm_load_heap(const struct gm_load_segment *segment, uint32_t slot, struct gm_heap_sample *out);

/* Read `length` bytes of a record's body from the slots after it. False: it is incomplete. */
bool gm_load_body(const struct gm_load_segment *segment, uint32_t slot, void *to, size_t length);

#endif
