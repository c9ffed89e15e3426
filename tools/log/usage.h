/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory of a device was used over the time of a log: from its events, or, of a log
 * without them, from its samples. One change at a time; memory is that of the most blocks alive at
 * a time. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_USAGE_H
#define GM_TOOLS_LOG_USAGE_H

#include "log/read.h"
#include "tools/log/blocks.h"

struct gm_usage_now {
	uint64_t time;	    /* CLOCK_MONOTONIC, ns */
	uint64_t requested; /* of blocks of the pool, bytes, as all below */
	uint64_t in_use;    /* as handed out */
	uint64_t mapped;    /* at least in_use; without what device heaps have */
	uint64_t lent;	    /* to device heaps: when last sampled, and growth since then */
	uint64_t driver;    /* of blocks that the driver served */
};

struct gm_usage {
	const struct gm_log_about *about;
	unsigned device;
	bool blocks_known, chunks_known; /* by events */
	bool based;			 /* older events are there, or a sample made up for them */
	struct gm_blocks blocks;
	/* Sums of events, modulo 2^64; `chunks`: mapped and lent. */
	uint64_t requested, in_use, driver, chunks;
	struct gm_usage_now now;
	/* By the record that was followed last. */
	enum gm_blocks_change change;
	struct gm_blocks_one block; /* of BORN and GONE */
};

/* The caller frees. */
void gm_usage_begin(struct gm_usage *usage, const struct gm_log_about *about, unsigned device);

/* Follow a record; true: usage->now has changed. Ends the program when memory is short. */
bool gm_usage_follow(struct gm_usage *usage, const struct gm_log_entry *entry);

void gm_usage_free(struct gm_usage *usage);

#endif
