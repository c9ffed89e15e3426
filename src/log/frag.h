/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fragmentation figures of gpumem-log(5), FRAGMENTATION. No other file has these formulas. Pure
 * functions.
 */
#ifndef GM_LOG_FRAG_H
#define GM_LOG_FRAG_H

#include <stdbool.h>
#include <stdint.h>

#include "log/counters.h"
#include "log/record.h"

struct gm_frag {
	double internal;       /* bytes: handed out - requested */
	double external;       /* 0 to 1: 1 - largest idle / idle; 0 when nothing is idle */
	double external_remap; /* external, after the runs that remapping could join */
	double unreclaimable;  /* bytes: idle, inside chunks that also hold live blocks */
	double utilisation;    /* 0 to 1: requested / mapped; 1 when nothing is mapped */
};

/* The figures of one sample. */
void gm_frag_now(const struct gm_sample *sample, struct gm_frag *out);

/* The highest of all samples; utilisation: peak requested / peak mapped. `counters`: one device's,
 * in the order of counters.def. */
void gm_frag_peak(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out);

/* The mean over time from the first sample to the last; 0 (utilisation 1) with only one sample. */
void gm_frag_mean(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out);

/* The bin of a run of `size` bytes, and the least size of a bin. */
unsigned gm_frag_bin(uint64_t size);
uint64_t gm_frag_bin_least(unsigned bin);

/* True if the sample has its bins; the first logs had none. */
bool gm_frag_has_bins(const struct gm_sample *sample);

/* Idle bytes in runs: all but free slots of slabs. */
uint64_t gm_frag_in_runs(const struct gm_sample *sample);

/*
 * Bounds of the idle bytes in runs of at least `size`, which is at least GM_SAMPLE_LEAST. Runs are
 * known by bins only: *least equals *most if `size` is a power of two, or if all runs of its bin
 * are on one side of it.
 */
void gm_frag_usable(const struct gm_sample *sample, uint64_t size, uint64_t *least, uint64_t *most);

/* External fragmentation in parts per million, rounded down, as the counters keep it. */
uint64_t gm_frag_external_ppm(uint64_t idle, uint64_t largest);

#endif
