/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the one log that a process writes; shared by log.c, ring.c and small.c. */
#ifndef GM_LOG_WRITER_H
#define GM_LOG_WRITER_H

#include "base/lock.h"
#include "log/about.h"
#include "log/file.h"
#include "log/format.h"
#include "log/log.h"
#include "log/segment.h"

/* What `front` maps: the first segment's head, description and live counters. */
#define GM_FRONT_SIZE (GM_PAGE_OFFSET + sizeof(struct gm_counter_live))
#define GM_FLUSH_NS 10000000000u /* a `memory` log is brought up to date this often */

/* Work left to gm_log_poll. */
enum gm_log_due { GM_DUE_TOUCH = 1, GM_DUE_SPARE = 2, GM_DUE_CHECKPOINT = 4, GM_DUE_FLUSH = 8 };

struct gm_writer {
	struct gm_lock lock; /* GM_RANK_LOG: all but what is atomic */
	enum gm_format_level level;
	struct gm_file file;
	struct gm_about about;
	struct gm_segment_head head; /* what all heads have in common */
	char *front;		     /* the first segment up to its slots, mapped; NULL: written */
	_Atomic(struct gm_segment *) current; /* what writers write to; NULL: the log has ended */
	struct gm_segment segments[2];	      /* ring.c; small.c uses the first */
	unsigned now;			      /* which of them is or was the current one */
	bool ready;			      /* the other one is ready to be */
	bool ended;			      /* and it was said why */
	uint32_t places;		      /* segments that the file may hold */
	uint32_t *records_at;		      /* records in the segment at each place */
	uint64_t records;		      /* finished in segments no longer held */
	uint64_t dropped;		      /* lost with dropped segments */
	uint64_t flushed;		      /* when: CLOCK_MONOTONIC */
	unsigned n_devices;
	void (*walk)(void (*each)(void *arg, const struct gm_record *live), void *arg);
	_Atomic uint32_t due;
};

extern struct gm_writer gm_writer;

/* writer.c. All need the lock but drop. */

/* Count records that could not be kept, or are no longer. */
void gm_writer_drop(uint64_t records);

/* Make memory for the segment at `offset`: mapped from the file, which has the space, or private.
 * 0 or an errno. */
int gm_writer_hold(struct gm_writer *w, struct gm_segment *segment, uint64_t offset);

/* Empty a held segment for its next life, head and description filled in, its sequence stored as 0;
 * the live counters in its place stay. */
void gm_writer_describe(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence);

/* Let readers see it: the counters as they are now, then the sequence. */
void gm_writer_show(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence);

/* Move the live counters into the log, if it is mapped. 0 or an errno. */
int gm_writer_share_counters(struct gm_writer *w);

/* To a `memory` file: slots [from, to), then what comes before the slots; the page of counters. 0
 * or an errno, which ends the log. */
int gm_writer_flush(struct gm_writer *w, struct gm_segment *segment, uint32_t from, uint32_t to);
void gm_writer_flush_page(struct gm_writer *w, bool closed);

/* The live counters of a log that is closed: `length` is the file's. */
void gm_writer_finish(struct gm_writer *w, uint64_t length, bool clean);

/* Say why, and keep nothing from now on. */
void gm_writer_end(struct gm_writer *w, int error);

/* ring.c: segments of events. All but put need the lock. */
int gm_ring_open(struct gm_writer *w, uint64_t limit);
bool gm_ring_put(struct gm_writer *w, const struct gm_record *record, const void *body,
		 size_t length); /* false: not kept */
void gm_ring_touch(struct gm_writer *w);
void gm_ring_prepare(struct gm_writer *w);
void gm_ring_flush(struct gm_writer *w);
void gm_ring_close(struct gm_writer *w);
uint64_t gm_ring_records(const struct gm_writer *w);

/* small.c: the one segment of the small log. All need the lock. */
int gm_small_open(struct gm_writer *w);
bool gm_small_put(struct gm_writer *w, const struct gm_record *record, const void *body,
		  size_t length);
void gm_small_flush(struct gm_writer *w);
void gm_small_close(struct gm_writer *w);

#endif
