/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live counters, from the first cuInit on, with or without a log: a page (page.h) in the log while
 * one is mapped, else in a memfd named "gpumem". Other processes find both through /proc/PID/fd.
 * Adding to a counter of split.def writes no memory that other threads write. Any thread.
 */
#ifndef GM_LOG_COUNTERS_H
#define GM_LOG_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"

#define GM_COUNTER_DEVICES 48 /* higher ordinals share the last */

enum gm_counter {
#define GM_COUNTER(scope, kind, name, unit, help) GM_C_##name,
#include "log/counters.def"
#undef GM_COUNTER
	GM_COUNTER_COUNT
};

enum gm_counter_scope { GM_SCOPE_DEVICE, GM_SCOPE_PROCESS };
enum gm_counter_kind { GM_KIND_SUM, GM_KIND_GAUGE, GM_KIND_PEAK, GM_KIND_INTEGRAL };
enum gm_counter_unit {
	GM_UNIT_COUNT,
	GM_UNIT_BYTES,
	GM_UNIT_NS,
	GM_UNIT_PPM,
	GM_UNIT_BYTES_SECONDS,
	GM_UNIT_PPM_SECONDS
};

struct gm_counter_info {
	const char *name, *help;
	enum gm_counter_scope scope;
	enum gm_counter_kind kind;
	enum gm_counter_unit unit;
};

extern GM_HIDDEN const struct gm_counter_info gm_counter_table[GM_COUNTER_COUNT];

/* gm_counter_add is in count.h. */
/* Add `n` and return the new value. Process counters ignore `device`. Not for counters of
 * split.def. */
uint64_t gm_counter_change(unsigned device, enum gm_counter counter, uint64_t n);
/* Store a value. For a counter of split.def, no other thread may add to it meanwhile: its parts are
 * summed. */
void gm_counter_set(unsigned device, enum gm_counter counter, uint64_t value);
/* Raise a PEAK to `value`; true if it rose. */
bool gm_counter_raise(unsigned device, enum gm_counter counter, uint64_t value);
/* The value; for a counter of split.def the sum of all threads' parts, which is slow. */
uint64_t gm_counter_get(unsigned device, enum gm_counter counter);

/* Move the counters into a memfd. False, after one message: they stay in private memory. */
bool gm_counters_open(void);
/* In a forked child: a fresh private page, all zero. */
void gm_counters_forget(void);

#endif
