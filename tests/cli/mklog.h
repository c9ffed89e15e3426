/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by mklog.c and mklog_heap.c. */
#ifndef GM_TESTS_MKLOG_H
#define GM_TESTS_MKLOG_H

#include "base/size.h"
#include "log/count.h"
#include "log/log.h"

enum { DEVICES = 2, WORDS = 4 };

extern struct device {
	uint64_t requested, handed_out, mapped, live;
	struct gm_sample next; /* its runs, and the longest run that remapping could make */
} devices[DEVICES];

/* Write a record, if the log's level includes its kind. */
void put(struct gm_record record);
/* Set the gauges and peaks of a device. */
void gauges(unsigned d);
void do_map(const uint64_t v[WORDS]);

/* mklog_heap.c: the words about malloc in kernels. */
void do_native(const uint64_t v[WORDS]);
void do_taken(const uint64_t v[WORDS]);
void do_image(const uint64_t v[WORDS]);
void do_lend(const uint64_t v[WORDS]);
void do_kernel(const uint64_t v[WORDS]);
void do_grow(const uint64_t v[WORDS]);
void do_nogrow(const uint64_t v[WORDS]);
void do_slack(const uint64_t v[WORDS]);
void do_waited(const uint64_t v[WORDS]);
void do_size(const uint64_t v[WORDS]);
void do_heap(const uint64_t v[WORDS]);
void do_last(const uint64_t v[WORDS]);

#endif
