/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live counters, there from the first cuInit on whether there is a log or not: a page (page.h) in
 * the log while one is mapped, else in a memfd named "gpumem"; other processes find either through
 * /proc/PID/fd. A counter of split.def is added to without touching memory that other threads
 * write.
 */
#ifndef GM_LOG_COUNTERS_H
#define GM_LOG_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#define GM_COUNTER_DEVICES 64 /* ordinals beyond share the last */

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

extern const struct gm_counter_info gm_counter_table[GM_COUNTER_COUNT];

/* Process counters ignore `device`. Before gm_counters_open, updates go to a private page. Any
 * thread; no driver call, no lock but at a thread's first count of a device. */
void gm_counter_add(unsigned device, enum gm_counter counter, uint64_t n);
/* Likewise, and returns what the counter has become. Not for those of split.def. */
uint64_t gm_counter_change(unsigned device, enum gm_counter counter, uint64_t n);
/* A counter of split.def only while no other thread adds to it: its parts are summed. */
void gm_counter_set(unsigned device, enum gm_counter counter, uint64_t value);
/* Raise a PEAK to `value`; true if it rose. */
bool gm_counter_raise(unsigned device, enum gm_counter counter, uint64_t value);
/* Of a split one, what all threads' parts come to: not for calls that are to be fast. */
uint64_t gm_counter_get(unsigned device, enum gm_counter counter);

/* Make the page; false (one line said) keeps the private one. */
bool gm_counters_open(void);
/* In a forked child: a fresh private page, all zero. */
void gm_counters_forget(void);

#endif
