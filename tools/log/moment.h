/* SPDX-License-Identifier: BSD-3-Clause */
/* A moment of a log, named by the user: the peak, out of memory, the end, a time, or the end of a
 * range of time. Single-threaded. */
#ifndef GM_TOOLS_LOG_MOMENT_H
#define GM_TOOLS_LOG_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/log/level.h"

enum gm_moment_kind { GM_MOMENT_PEAK, GM_MOMENT_OOM, GM_MOMENT_EXIT, GM_MOMENT_TIME };

struct gm_moment_wish {
	enum gm_moment_kind kind;
	uint64_t time;	     /* for GM_MOMENT_TIME: ns since the start of the log */
	uint64_t from;	     /* for a range, which ends at `time`: its begin */
	bool range;	     /* only of GM_MOMENT_TIME */
	enum gm_level level; /* whose peak; of tensors, out of memory is when the cache gave up */
};

/* "peak", "oom", "exit", a time, or a range "1s..2.5s" whose begin is not behind its end. False:
 * other text. */
bool gm_moment_parse(const char *text, struct gm_moment_wish *out);

struct gm_moment {
	uint64_t records; /* records read by gm_log_read_next up to the moment */
	uint64_t time;	  /* CLOCK_MONOTONIC, ns */
};

/*
 * Find the moment of a device in a log of events. The peak is the peak of requested bytes, of
 * tensors, or of blocks of the pool and, if `driver`, of the driver. False: no such moment, because
 * no block was ever alive, or no request was refused. Rewinds the log.
 */
bool gm_moment_find(struct gm_log_file *file, unsigned device, bool driver,
		    const struct gm_moment_wish *wish, struct gm_moment *out);

#endif
