/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of a log being written. At most two are in memory: the current one, and the previous or
 * the prepared next one. Writers take no lock:
 *
 *     writer:  enter(stripe)   still current? write   leave(stripe)
 *     turn:    current = next  ... wait until every stripe is empty ... reuse the old one's memory
 *
 * A writer increments a stripe of the segment before it checks that the segment is still current;
 * the thread that replaces the segment makes another one current first. So it sees every writer
 * inside.
 */
#ifndef GM_LOG_SEGMENT_H
#define GM_LOG_SEGMENT_H

#include <stdatomic.h>

#include "log/file.h"
#include "log/format.h"

#define GM_STRIPES 64
#define GM_STRIPES_ALONE 32 /* with one thread each */
#define GM_BLOCK 32	    /* slots that a thread takes at once */

/* Low 16 bits: writers inside; the rest: records finished. */
struct gm_stripe {
	_Alignas(64) _Atomic uint64_t word;
};

struct gm_segment {
	char *base; /* the whole segment, mapped or private memory */
	uint64_t offset, size;
	_Atomic uint64_t sequence;
	/* Of this use of the memory: no other use in this process has the same. */
	_Atomic uint64_t generation;
	uint32_t slots_offset, slots;
	_Atomic uint32_t touched; /* slots whose pages were faulted in ahead of writers */
	uint32_t written;	  /* slots already written to a `memory` file */
	/* First slot not taken; may exceed `slots`. Apart from the members that every record
	 * reads. */
	_Alignas(64) _Atomic uint32_t next;
	struct gm_stripe stripes[GM_STRIPES];
};

static inline struct gm_segment_head *gm_segment_head(const struct gm_segment *segment)
{
	return (struct gm_segment_head *)segment->base;
}

static inline struct gm_record *gm_segment_slot(const struct gm_segment *segment, uint32_t slot)
{
	return (struct gm_record *)(segment->base + segment->slots_offset +
				    (size_t)slot * GM_SLOT_SIZE);
}

/* Take `n` adjacent slots (at most GM_BLOCK plus those of the largest record) for the calling
 * thread. NONE: the segment is full; BLOCK: the slots begin a new block. pre: the thread has
 * entered the segment. */
enum gm_taken { GM_TAKEN_NONE, GM_TAKEN, GM_TAKEN_BLOCK };
enum gm_taken gm_segment_take(struct gm_segment *segment, uint32_t n, uint32_t *slot);

/* Enter and leave as a writer; leave counts `records` as finished, 0 if another segment is current.
 * In between the segment is not reused. */
void gm_segment_enter(struct gm_segment *segment);
void gm_segment_leave(struct gm_segment *segment, unsigned records);

/* Write a record and its body into slots taken; the record's kind is stored last. */
void gm_segment_write(struct gm_segment *segment, uint32_t slot, const struct gm_record *record,
		      const void *body, size_t length);

/* Return the number of records finished, and reset it. pre: the segment is not current, and was
 * drained. */
uint64_t gm_segment_forget_records(struct gm_segment *segment);

/* Records finished; *writers: writers inside now. */
uint64_t gm_segment_records(const struct gm_segment *segment, uint64_t *writers);

/* True as soon as no writer is inside. Polls for a moment; if `patient`, for some 20 ms. */
bool gm_segment_drain(const struct gm_segment *segment, bool patient);

/* Slots taken, unwritten ones included. */
uint32_t gm_segment_used(const struct gm_segment *segment);

/* In a forked child: the calling thread has no slots in any segment. */
void gm_segment_forget_thread(void);

#endif
