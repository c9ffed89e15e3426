/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory use of a device over the time of a log: from its events, or without events from its
 * samples. All output over time uses this module. It handles one change at a time, in constant
 * memory. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_USAGE_H
#define GM_TOOLS_LOG_USAGE_H

#include "tools/log/figures.h"

/* Bytes, clamped to 2^53: JavaScript is exact up to there, and a damaged log may have more. */
struct gm_usage_now {
	uint64_t time;	    /* CLOCK_MONOTONIC, ns */
	uint64_t requested; /* of blocks of the pool */
	uint64_t in_use;    /* as handed out */
	uint64_t mapped;    /* at least in_use; without memory of device heaps */
	uint64_t lent;	 /* to device heaps; of older logs, at the last sample and later growths */
	uint64_t driver; /* of blocks that the driver served */
};

/* Sums of blocks: requested, handed out, served by the driver; of chunks, with lent ones; of lent
 * chunks. */
struct gm_usage_sums {
	int64_t requested, in_use, driver, chunks, lent;
};

struct gm_usage {
	unsigned device;
	bool blocks_known, chunks_known; /* by events */
	struct gm_usage_sums sums;	 /* of events, plus the sums before the first one */
	bool lent_known;		 /* by events; older logs lack them */
	uint64_t lent;			 /* if not */
	struct gm_usage_now now;
};

/* True if the events of a log give the live blocks. */
bool gm_usage_has_blocks(const struct gm_log_about *about);

/*
 * Begin with the sums before the first record. If the log lacks its oldest events, these are the
 * counters less the sums of all events, which takes one read of the log. Rewinds the log.
 */
void gm_usages_begin(struct gm_usage usages[GM_COUNTER_DEVICES], const struct gm_figures *figures);

/* Apply a record. True: usage->now was updated. */
bool gm_usage_follow(struct gm_usage *usage, const struct gm_log_entry *entry);

#endif
