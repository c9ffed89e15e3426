/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the stand-in for libc10_cuda.so. */
#ifndef GM_TESTS_PRELOAD_LEND_BLOCKS_H
#define GM_TESTS_PRELOAD_LEND_BLOCKS_H

#include <pthread.h>

#include "cache.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define LEND_DEVICES 2
#define LEND_STREAMS 16

/* c10::Device */
struct lend_device_name {
	int8_t type, index;
};

/* Free blocks of one kind. */
struct lend_blocks {
	struct lend_block *first;
	bool small;
	struct lend_pool *owner; /* NULL: everybody's */
};

struct lend_pool {
	struct lend_blocks small, large;
	unsigned segments;
	unsigned graphs; /* 0: its segments can be freed */
	struct lend_pool *next;
};

struct lend_block {
	CUdeviceptr at;
	size_t size;
	CUstream stream;
	struct lend_device *device;
	struct lend_blocks *home;
	struct lend_block *prev, *next;	   /* neighbours in the segment */
	struct lend_block *before, *after; /* while free */
	struct lend_block *deferred;	   /* waits for the end of all captures to get its events */
	bool allocated;
	unsigned events, n_uses;
	CUstream uses[LEND_STREAMS];
};

/* An event of one stream, after the last use of a block there. */
struct lend_event {
	CUevent event;
	struct lend_block *block;
	struct lend_event *next;
};

struct lend_device {
	pthread_mutex_t mutex;
	int8_t index;
	struct lend_blocks small, large;
	struct lend_pool *pools;
	unsigned captures;
	struct lend_block *deferred;
	struct {
		CUstream stream;
		struct lend_event *first, **last;
	} queues[LEND_STREAMS];
	unsigned n_queues;
	struct lend_event *spare;
	struct lend_counts counts;
	bool wrong_sum;
};

/* blocks.c; all with the device's mutex held */

/* A block of at least `size` bytes, with the rest split off; NULL: out of memory. */
struct lend_block *lend_block_find(struct lend_device *device, struct lend_pool *pool, size_t size,
				   CUstream stream);
void lend_block_return(struct lend_block *block);
/* Blocks whose events have passed are free. */
void lend_events_process(struct lend_device *device);
void lend_events_record(struct lend_block *block);
/* Free all segments that nothing uses. */
void lend_segments_free(struct lend_device *device);

/* Segments come from cuMemAlloc, or from cudaMalloc of a runtime. */
extern int (*lend_runtime_malloc)(void **out, size_t size), (*lend_runtime_free)(void *address);
/* Segments stay; no stream but a block's own is waited for. */
extern bool lend_keeps, lend_forgets;

/* c10 */

#define LEND_REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
void LEND_REPORT(void *address, int64_t bytes, size_t allocated, size_t reserved,
		 struct lend_device_name device);
#define LEND_REFUSE _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
void LEND_REFUSE(int64_t asked, size_t allocated, size_t reserved, struct lend_device_name device);

#endif
