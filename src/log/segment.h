/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of a log being written. At most two are held: the current one and the other, which is
 * the one before, or the next one made ready. Writers are lock-free: a writer announces itself in
 * one of the segment's stripes, sees that the segment is still the current one, and only then
 * writes; whoever replaces a segment first makes another current, and uses the old one's memory or
 * place in the file again only when every stripe is empty.
 */
#ifndef GM_LOG_SEGMENT_H
#define GM_LOG_SEGMENT_H

#include <stdatomic.h>

#include "log/file.h"
#include "log/format.h"

#define GM_STRIPES 64
#define GM_BLOCK 32 /* slots that a thread takes at a time */

/* Low 16 bits: writers inside; the rest: records finished. */
struct gm_stripe {
	_Alignas(64) _Atomic uint64_t word;
};

struct gm_segment {
	char *base; /* the whole segment, mapped or private memory */
	uint64_t offset, size;
	_Atomic uint64_t sequence;
	uint32_t slots_offset, slots;
	_Atomic uint32_t touched; /* slots whose pages were faulted in ahead of the writers */
	uint32_t written;	  /* slots already written to a `memory` file */
	/* First slot not taken; may run past `slots`. Not beside what every record reads. */
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

/* Take `n` neighbouring slots (at most GM_BLOCK plus those of the largest record) for the calling
 * thread, entered in `segment`. False: it is full. */
bool gm_segment_take(struct gm_segment *segment, uint32_t n, uint32_t *slot);

/* Enter and leave as a writer; leave counts `records` as finished. */
void gm_segment_enter(struct gm_segment *segment);
void gm_segment_leave(struct gm_segment *segment, unsigned records);

/* Write a record and its body into slots taken; its kind appears last. */
void gm_segment_write(struct gm_segment *segment, uint32_t slot, const struct gm_record *record,
		      const void *body, size_t length);

/* Records finished; *writers: how many are inside now. */
uint64_t gm_segment_records(const struct gm_segment *segment, uint64_t *writers);

/* True once no writer is inside; tries for a moment, `patient` for some 20 ms. */
bool gm_segment_drain(const struct gm_segment *segment, bool patient);

/* Slots used, holes included. */
uint32_t gm_segment_used(const struct gm_segment *segment);

/* Linux thread id of the caller. */
uint32_t gm_segment_thread(void);

/* In a forked child. */
void gm_segment_forget_thread(void);

#endif
