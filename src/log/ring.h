/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of events: a ring of segments in the file, of which at most two are in memory.
 * pre: GM_LOCK_RANK_LOG is held, except for gm_ring_put.
 */
#ifndef GM_LOG_RING_H
#define GM_LOG_RING_H

#include "log/writer.h"

/* Begin a ring of at most `limit` bytes, with at least two segments. 0 or an errno. */
int gm_ring_open(struct gm_writer *w, uint64_t limit);

/* Append a record. False: it was not kept. Any thread; takes the lock only at the turn of a
 * segment. */
bool gm_ring_put(struct gm_writer *w, const struct gm_record *record, const void *body,
		 size_t length);

/* Fault in the next pages of the current segment. */
void gm_ring_touch(struct gm_writer *w);

/* Prepare the next segment. */
void gm_ring_prepare(struct gm_writer *w);

/* Write a `memory` log to its file. */
void gm_ring_flush(struct gm_writer *w);

/* `end`: what the page says if no writer is inside. */
void gm_ring_close(struct gm_writer *w, enum gm_page_end end);

/* Records finished in all segments so far. */
uint64_t gm_ring_records(const struct gm_writer *w);

#endif
