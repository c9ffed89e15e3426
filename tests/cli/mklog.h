/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by mklog.c and mklog_heap.c. */
#ifndef GM_TESTS_MKLOG_H
#define GM_TESTS_MKLOG_H

#include "base/size.h"
#include "log/count.h"
#include "log/log.h"

enum { DEVICES = 2, WORDS = 4, TORCH_STACKS = 300 };

extern struct device {
	uint64_t requested, handed_out, mapped, live;
	struct gm_sample next; /* its runs, and the longest run that remapping could make */
} devices[DEVICES];

/* Write a record, if the log's level includes its kind. */
void put(struct gm_record record);
/* Set the gauges and peaks of a device. */
void gauges(unsigned d);
/* Map a chunk for a heap: the words of `map`. */
void chunk_lend(const uint64_t v[WORDS]);
/* The address of the last `to`, which is used up; without one, `otherwise`. */
uint64_t address_take(uint64_t otherwise);
extern unsigned stack_now; /* of the word `stack` */

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
void do_site(const uint64_t v[WORDS]);
void do_wrong(const uint64_t v[WORDS]);

/* A frame of Python. */
static inline struct gm_frame python_frame(const char *file, const char *function, unsigned line)
{
	return (struct gm_frame){GM_FRAME_PYTHON, line,
				 (uint64_t)gm_log_string(function) << 32 | gm_log_string(file)};
}

/* mklog_torch.c: the words about PyTorch. */
void torch_stack_put(unsigned number);
void do_tensor(const uint64_t v[WORDS]);
void do_back(const uint64_t v[WORDS]);
void do_refuse(const uint64_t v[WORDS]);

#endif
