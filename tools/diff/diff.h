/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of gpumemstat diff: counters.c and sites.c. Single-threaded. */
#ifndef GM_TOOLS_DIFF_H
#define GM_TOOLS_DIFF_H

#include "tools/log/logs.h"
#include "tools/output/emit.h"

/* The logs of a run. */
struct gm_diff_run {
	struct gm_logs_one *logs;
	size_t n;
};

/* A figure of both runs. */
struct gm_diff_row {
	const char *name, *title; /* title: plain words; NULL: shown by -v only */
	enum gm_value_kind kind;
	uint64_t old, new;
};

/* Of a counter the sum over devices and logs; of shares and longest times the maximum. */
uint64_t gm_diff_counter(const struct gm_diff_run *run, enum gm_counter counter);

/* Of the longest log, ns. */
uint64_t gm_diff_length(const struct gm_diff_run *run);

/* "+50.0%", "-3.2%", "x12", "new", "gone". Returns buf. */
char *gm_diff_ratio(const struct gm_diff_row *row, char *buf, size_t n);

/* "+1.00 MiB", "-3", "0". Returns buf. */
char *gm_diff_change(const struct gm_emit *emit, enum gm_value_kind kind, int64_t change, char *buf,
		     size_t n);

/* The counters that differ: in text those with a title, or with -v all. */
void gm_diff_show_counters(struct gm_emit *emit, const struct gm_diff_run *old,
			   const struct gm_diff_run *new);

/* The call sites at the moment of --at, or why they are not known. */
void gm_diff_show_sites(struct gm_emit *emit, const struct gm_diff_run *old,
			const struct gm_diff_run *new);

#endif
