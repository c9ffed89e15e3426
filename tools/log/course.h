/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fragmentation of a device's pool over the time of a log: its samples; or, if they are few and
 * the log has every event, the state after events, computed from addresses. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_COURSE_H
#define GM_TOOLS_LOG_COURSE_H

#include "base/array.h"
#include "log/frag.h"
#include "tools/log/figures.h"

#define GM_COURSE_FEW 10 /* samples; fewer say little about the time between them */

struct gm_course_moment {
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	struct gm_sample sample;
};

struct gm_course {
	GM_ARRAY(struct gm_course_moment) moments; /* by time */
	size_t samples;				   /* in the log */
	bool computed;				   /* the moments are not samples */
};

/* Read a device. Rewinds the log. Ends the program when memory is short. The caller frees. */
void gm_course_read(struct gm_course *course, const struct gm_figures *figures, unsigned device);
void gm_course_free(struct gm_course *course);

/* The highest figures of the moments, and the mean over the time from the first to the last; 0
 * (utilisation 1) with only one moment. */
void gm_course_peak(const struct gm_course *course, struct gm_frag *out);
void gm_course_mean(const struct gm_course *course, struct gm_frag *out);

#endif
