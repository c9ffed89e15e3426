/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a log that a process writes; for log.c, recording.c, ring.c and small.c. There are
 * two: gm_writer, the log of the knobs, and gm_recording, events from a request on.
 * pre: GM_LOCK_RANK_LOG is held, except for gm_writer_drop.
 */
#ifndef GM_LOG_WRITER_H
#define GM_LOG_WRITER_H

#include "base/debug.h"
#include "base/lock.h"
#include "log/about.h"
#include "log/file.h"
#include "log/format.h"
#include "log/log.h"
#include "log/segment.h"

/* Size of `front`: the first segment's head, description and live counters. */
#define GM_FRONT_SIZE (GM_PAGE_OFFSET + sizeof(struct gm_counter_live))
#define GM_FLUSH_NS 10000000000u /* interval at which a `memory` log is written to its file */
#define GM_COPY_NS 100000000u	 /* ... at which a recording gets a copy of the counters */

/* Work for both writers, bits of gm_log_due; only one of them has a ring. */
enum gm_log_work { GM_DUE_TOUCH = 1, GM_DUE_SPARE = 2, GM_DUE_CHECKPOINT = 4, GM_DUE_FLUSH = 8 };

/* GM_LOCK_RANK_LOG: guards all members of both writers that are not atomic. */
extern GM_HIDDEN struct gm_lock gm_writer_lock;

struct gm_writer {
	enum gm_format_level level;
	struct gm_file file;
	struct gm_about about;
	struct gm_segment_head head; /* common to all heads */
	char *front; /* mapping of the first segment up to its slots; NULL: the log is not mapped */
	_Atomic(struct gm_segment *)
		current;	       /* segment that writers use; NULL: the log has ended */
	struct gm_segment segments[2]; /* ring.c; small.c uses the first */
	unsigned now;		       /* index of the segment that is or was current */
	bool ready;		       /* the other segment is prepared */
	_Atomic int ended;     /* the errno that ended the log, after one message; 0: it goes on */
	uint32_t places;       /* segments that the file may hold */
	uint32_t *records_at;  /* records in the segment at each place */
	uint64_t records;      /* finished in segments no longer held */
	uint64_t dropped;      /* lost with dropped segments */
	_Atomic uint64_t lost; /* of gm_recording: records lost in any way */
	uint64_t flushed;      /* time of the last flush: CLOCK_MONOTONIC */
	unsigned n_devices;
};

extern GM_HIDDEN struct gm_writer gm_writer, gm_recording;

/* Count records that were not kept, or are overwritten. */
void gm_writer_drop(struct gm_writer *w, uint64_t records);

/* Provide memory for the segment at `offset`: mapped from the file, where space is reserved, or
 * private. 0 or an errno. */
int gm_writer_hold(struct gm_writer *w, struct gm_segment *segment, uint64_t offset);

/* The head of the segment at `offset`, with sequence 0. */
struct gm_segment_head gm_writer_head(const struct gm_writer *w, uint64_t offset);

/* Clear a segment for its next use and fill in head and description, with sequence 0 in the file.
 * The live counters in its place stay. */
void gm_writer_describe(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence);

/* Publish the segment to readers: the counters as they are now, then the sequence. */
void gm_writer_show(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence);

/* Move the live counters into the log, if it is mapped; a recording gets a copy of them. 0 or an
 * errno. */
int gm_writer_share_counters(struct gm_writer *w);

/* Bring the copy of a mapped recording up to date. */
void gm_writer_copy_counters(struct gm_writer *w);

/* Write to a `memory` file: slots [from, to), then all before the slots; flush_page: the page of
 * counters. 0 or an errno, which ends the log. */
int gm_writer_flush(struct gm_writer *w, struct gm_segment *segment, uint32_t from, uint32_t to);
void gm_writer_flush_page(struct gm_writer *w, enum gm_page_end end);

/* Store the final live counters of a closed log. `length`: of the file; `end`: OPEN if a writer is
 * inside. */
void gm_writer_finish(struct gm_writer *w, uint64_t length, enum gm_page_end end);

/* End the log, with one message; no record is kept from now on. */
void gm_writer_end(struct gm_writer *w, int error);

/* Unmap segments and counters. pre: no thread writes. */
void gm_writer_unmap(struct gm_writer *w);

/* --- log.c, for recording.c --- */

/* Gather the description of the process. No lock is held; one thread at a time. */
void gm_log_describe(struct gm_writer *w);

/* The name of GPUMEM_LOG_NAME. False: it is too long. pre: gm_log_describe. */
bool gm_log_name(const struct gm_writer *w, char *name, size_t n);

/* Make the file, and begin the log at w->level. 0, or an errno of gm_file_create and no file. */
int gm_log_make(struct gm_writer *w, const char *name);

/* Events go to this writer from now on; NULL: nowhere. No effect after gm_log_close. */
void gm_log_route(struct gm_writer *w);

/*
 * Make the current segment readable without the ones before it: write all strings, and the blocks
 * and tensors alive. No lock is held. If the lives would fill more than half of the segment, they
 * are left out. `time` not 0: of blocks only those with GM_STACK_BEFORE, at this time.
 */
void gm_log_checkpoint(struct gm_writer *w, uint64_t time);

#endif
