/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layout of a log file, for the writer and the reader; frozen with gpumem-log(5), LAYOUT.
 *
 *     | segment 1 | segment 2 | ...        all of one size
 *     each: head | description | live counters (first only) | checkpoint (events only) | slots
 */
#ifndef GM_LOG_FORMAT_H
#define GM_LOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/size.h"
#include "log/page.h"
#include "log/record.h"

#define GM_FORMAT_MAGIC "GPUMEMLG"
#define GM_FORMAT_VERSION 2
#define GM_FORMAT_OLDEST 1 /* oldest version that is read: its live counters have no parts */
#define GM_SLOT_SIZE 64
#define GM_MORE_SIZE 63 /* bytes of text or body in a MORE slot */

#define GM_SEGMENT_SMALL GM_MIB
#define GM_SEGMENT_EVENTS (16 * GM_MIB)
#define GM_TEXT_OFFSET (4 * GM_KIB)
#define GM_TEXT_ROOM (28 * GM_KIB)
#define GM_PAGE_OFFSET (32 * GM_KIB) /* of the live counters; a checkpoint has GM_PAGE_ROOM */
#define GM_STRING_MAX 4096	     /* longer texts are cut */

enum gm_format_level { GM_LEVEL_SMALL = 1, GM_LEVEL_EVENTS = 2, GM_LEVEL_RECORDING = 3 };

struct gm_segment_head {
	char magic[8];
	uint32_t version;
	uint32_t slot_size;
	uint64_t sequence;		 /* 1, 2, ...; 0 while the rest is written; stored last */
	uint64_t size;			 /* of every segment of the file */
	uint32_t text_offset, text_size; /* "key=value" strings, each ended by a 0 */
	uint32_t live_offset;		 /* of the live counters; 0: not in this segment */
	uint32_t checkpoint_offset;	 /* the counters when the segment began; 0: none */
	uint32_t slots_offset;
	uint32_t level; /* enum gm_format_level */
	uint32_t kept;	/* bit k: records of kind k are kept */
	uint32_t pid;
	int32_t rank; /* -1: none */
	int32_t driver_version;
	uint64_t start, start_wall; /* of the log: CLOCK_MONOTONIC and CLOCK_REALTIME, ns */
	uint64_t begun;		    /* this segment: CLOCK_MONOTONIC, ns */
	uint64_t dropped;	    /* records lost before this segment */
	uint32_t live_known;	    /* 1: the LIVE records of this segment are complete */
	uint32_t live_records;	    /* number of LIVE records */
};

_Static_assert(sizeof(struct gm_segment_head) == 112, "gpumem-log(5) gives the offsets");
_Static_assert(GM_SAMPLE_POOL == 248 && sizeof(struct gm_sample) == 304,
	       "gpumem-log(5) gives the offsets");

/* Slots of a record with `length` bytes of text or body. */
static inline uint32_t gm_format_slots(size_t length)
{
	return 1 + (uint32_t)((length + GM_MORE_SIZE - 1) / GM_MORE_SIZE);
}

#endif
