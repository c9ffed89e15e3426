/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks that were alive at a moment, by the events of a log, whatever it lacks: a free may
 * stand before its allocation, or without one, where blocks.h knows complete logs alone. Memory is
 * what the most blocks alive at once take. Single-threaded.
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
	uint8_t device, state;
	bool driver; /* the driver served it */
	bool gone;   /* it was not freed, but went with its context */
};

struct gm_alive {
	GM_ARRAY(struct gm_alive_block) blocks; /* those alive, once gm_alive_find returns */
	GM_ARRAY(uint32_t) heads;
	uint32_t free;
};

/* The moment that each device is shown at. */
struct gm_alive_moment {
	bool known;
	struct gm_moment at; /* records: GM_ALIVE_END after all events */
};

/* Why the log cannot say it, as "it has no events: ..."; NULL: it can. */
const char *gm_alive_missing(const struct gm_log_about *about);

/* The moment that is wished, of each device, with the driver's blocks. Ends the program when memory
 * is short, as the next. Both rewind the log. */
void gm_alive_moments(struct gm_log_file *file, const struct gm_moment_wish *wish,
		      struct gm_alive_moment moments[GM_COUNTER_DEVICES]);

/* The blocks that were alive then; `leaks`: and those that had gone with their context. The caller
 * frees. */
void gm_alive_find(struct gm_log_file *file, const struct gm_alive_moment *moments, bool leaks,
		   struct gm_alive *out);
void gm_alive_free(struct gm_alive *alive);

#endif
