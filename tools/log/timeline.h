/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of each device over time, from the events of a log, in a bounded number of points. A
 * point is one event, or several successive events. It has the lowest and the highest value of each
 * series after any of its events, so no peak is lost. Between two points no value changes.
 * Single-threaded.
 */
#ifndef GM_TOOLS_LOG_TIMELINE_H
#define GM_TOOLS_LOG_TIMELINE_H

#include "base/array.h"
#include "tools/log/figures.h"

/* The members of struct gm_usage_now; and tensors of PyTorch, which lie in blocks. */
#define GM_TIMELINE_SERIES(GM_SERIES)   \
	GM_SERIES(REQUESTED, requested) \
	GM_SERIES(IN_USE, in_use)       \
	GM_SERIES(MAPPED, mapped)       \
	GM_SERIES(DRIVER, driver)       \
	GM_SERIES(LENT, lent)           \
	GM_SERIES(TENSORS, tensors)

enum gm_timeline_series {
#define GM_SERIES(bit, name) GM_TIMELINE_##bit,
	GM_TIMELINE_SERIES(GM_SERIES)
#undef GM_SERIES
		GM_TIMELINE_COUNT
};

struct gm_timeline_values {
	int64_t of[GM_TIMELINE_COUNT]; /* bytes */
};

struct gm_timeline_point {
	uint64_t from, to; /* the first and the last event, ns since the start of the log */
	uint64_t events;
	struct gm_timeline_values least, most, end;
};

struct gm_timeline {
	GM_ARRAY(struct gm_timeline_point) points; /* by time */
	uint64_t events, each, gap; /* a point has at most `each` events within `gap` */
	struct gm_timeline_values now;
	int64_t tensors; /* their sum; below 0 in a damaged log */
};

struct gm_timelines {
	struct gm_timeline devices[GM_COUNTER_DEVICES];
	size_t most; /* points a device */
};

/* Read a log with usage.h: at most `most` points a device, 64 or more. Without events, the samples
 * are the points, and the peaks of the counters, which have no events. Ends the program when memory
 * is short. The caller frees. */
void gm_timelines_read(struct gm_timelines *out, const struct gm_figures *figures, size_t most);
void gm_timelines_free(struct gm_timelines *timelines);

/*
 * The points as text of tools/output/pack.h; the caller frees. The numbers of a point: from - `to`
 * of the previous point; to - from; events; then for each series: end - `end` of the previous
 * point, a difference; end - least; most - end.
 */
char *gm_timeline_pack(const struct gm_timeline *timeline);

#endif
