/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fragmentation of a device's pool over the time of a log: the state after each event, computed
 * from addresses, if the log has every event; else its samples. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_COURSE_H
#define GM_TOOLS_LOG_COURSE_H

#include "base/array.h"
#include "log/frag.h"
#include "tools/log/figures.h"

#define GM_COURSE_FEW 10 /* samples; fewer say little about the time between them */
#define GM_COURSE_MOMENTS 1024

struct gm_course_moment {
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	struct gm_sample sample;
};

struct gm_course {
	/* By time: each sample, or each state. Of more than GM_COURSE_MOMENTS states: of as many
	 * equal parts of the time the last one, the one with the highest external fragmentation,
	 * and the most fragmented one. */
	GM_ARRAY(struct gm_course_moment) moments;
	/* The most fragmented sample or state, unless there are no moments: most in pieces even
	 * after remapping, then most mapped. */
	struct gm_course_moment worst;
	size_t samples;	     /* in the log */
	size_t states;	     /* that were computed */
	bool computed;	     /* the moments are states, not samples */
	struct gm_frag peak; /* the highest figure of all samples or states */
	struct gm_frag mean; /* over the time from the first to the last; 0, and utilisation 1,
			      * with only one */
	double ns;	     /* that time */
	double mean_requested, mean_mapped; /* bytes, likewise */
};

/* That of a device. The first call reads it, which rewinds the log; `figures` own it. Ends the
 * program when memory is short. */
const struct gm_course *gm_course_of(const struct gm_figures *figures, unsigned device);
void gm_course_free(struct gm_course *course);

/* True: `counter` is a figure of samples, and *value what it is for the states after all events.
 * False: the log does not have every event, or it is another counter. Reads as gm_course_of. */
bool gm_course_counter(const struct gm_figures *figures, unsigned device, enum gm_counter counter,
		       uint64_t *value);

/* True if `a` is more fragmented, as for `worst`. */
bool gm_course_is_worse(const struct gm_sample *a, const struct gm_sample *b);

#endif
