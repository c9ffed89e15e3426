/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The four fragmentation figures of gpumem-log(5), FRAGMENTATION. The formulas live here and
 * nowhere else. Pure functions.
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
	double external_remap; /* likewise, with what remapping could put side by side */
	double unreclaimable;  /* bytes: idle, inside chunks that also hold live blocks */
	double utilisation;    /* 0 to 1: requested / mapped; 1 when nothing is mapped */
};

/* At one sample. */
void gm_frag_now(const struct gm_sample *sample, struct gm_frag *out);

/* The highest of all samples; utilisation: peak requested / peak mapped. `counters` are those of
 * one device, in the order of counters.def. */
void gm_frag_peak(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out);

/* The mean over time from the first sample to the last; 0 (utilisation 1) when there is but one. */
void gm_frag_mean(const uint64_t counters[GM_COUNTER_COUNT], struct gm_frag *out);

/* The bin of a sample that a run of `size` bytes is in, and the least size of a bin. */
unsigned gm_frag_bin(uint64_t size);
uint64_t gm_frag_bin_least(unsigned bin);

/* True if the sample has its bins; the first logs had none. */
bool gm_frag_has_bins(const struct gm_sample *sample);

/* Idle bytes in runs, which free slots of slabs are not. */
uint64_t gm_frag_in_runs(const struct gm_sample *sample);

/*
 * Idle bytes in runs of at least `size`, which is at least GM_SAMPLE_LEAST. They are known by bins:
 * *least and *most bound them, and are equal where `size` is a power of two, or all of its bin is
 * on one side.
 */
void gm_frag_usable(const struct gm_sample *sample, uint64_t size, uint64_t *least, uint64_t *most);

/* External fragmentation in parts per million, rounded down, as the counters keep it. */
uint64_t gm_frag_external_ppm(uint64_t idle, uint64_t largest);

#endif
