/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks alive at a moment, from the events of a log, which may have been dropped in part.
 * Unlike in blocks.h, a free may precede its allocation, or have none. Memory use: the peak of live
 * blocks. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_ALIVE_H
#define GM_TOOLS_LOG_ALIVE_H

#include "base/array.h"
#include "log/counters.h"
#include "log/read.h"
#include "tools/log/moment.h"

#define GM_ALIVE_END UINT64_MAX

struct gm_alive_block {
	uint64_t id, size, address;
	uint64_t birth,
		death; /* records, as in struct gm_moment; 0: before the first; GM_ALIVE_END */
	uint64_t time; /* of its allocation, CLOCK_MONOTONIC; 0: before the first record */
	uint32_t stack, context, next;
	uint32_t n; /* 1; of GM_TENSORS_BEFORE so many tensors */
	uint8_t device, state;
	bool driver; /* the driver served it */
	bool gone;   /* not freed: its context ended */
};

struct gm_alive {
	GM_ARRAY(struct gm_alive_block) blocks; /* after gm_alive_find: the live blocks */
	GM_ARRAY(uint32_t) heads;
	uint32_t free;
};

/* The moment shown of a device. */
struct gm_alive_moment {
	bool known;
	struct gm_moment at; /* at.records: GM_ALIVE_END after all events */
	uint64_t since;	     /* blocks allocated before do not count; CLOCK_MONOTONIC */
};

/* Why the log has no live blocks, "no events in this log: ..."; NULL: it has the needed events. */
const char *gm_alive_missing(const struct gm_log_about *about);

/* Why the log does not know the blocks of a requested time or range, "at no time: the log ends at
 * 3.00 s"; NULL: it does, or no time is requested. Valid until the next call. */
const char *gm_alive_unknown(struct gm_log_file *file, const struct gm_moment_wish *wish);

/* Find the requested moment of each device, with the driver's blocks. This and the next function
 * rewind the log and end the program when memory is short. */
void gm_alive_moments(struct gm_log_file *file, const struct gm_moment_wish *wish,
		      struct gm_alive_moment moments[GM_COUNTER_DEVICES]);

/* Find the blocks, or tensors, alive at the moments. `leaks`: add blocks of ended contexts. The
 * caller frees. */
void gm_alive_find(struct gm_log_file *file, const struct gm_alive_moment *moments, bool leaks,
		   enum gm_level level, struct gm_alive *out);
void gm_alive_free(struct gm_alive *alive);

#endif
