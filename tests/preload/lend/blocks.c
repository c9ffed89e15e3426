/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments from the driver, blocks in them, and the events after which blocks are free. */
#include "blocks.h"

#include <stdio.h>
#include <stdlib.h>

#define SMALL_SIZE (1 * MIB)	 /* the largest block of a small segment */
#define SMALL_SEGMENT (2 * MIB)	 /* several small blocks share it */
#define LARGE_SEGMENT (20 * MIB) /* for blocks below LARGE_LEAST */
#define LARGE_LEAST (10 * MIB)	 /* from here on, a segment is as large as its block */
#define LEAST ((size_t)512)

int (*lend_runtime_malloc)(void **out, size_t size), (*lend_runtime_free)(void *address);
bool lend_keeps, lend_forgets;

#define CALL(call)                                                            \
	do {                                                                  \
		CUresult result_ = (call);                                    \
		if (result_ != CUDA_SUCCESS) {                                \
			printf("libc10_cuda: %s: %d\n", #call, (int)result_); \
			exit(1);                                              \
		}                                                             \
	} while (0)

static size_t rounded(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* --- lists of free blocks --- */

static void free_add(struct lend_block *block)
{
	block->before = NULL;
	block->after = block->home->first;
	if (block->after)
		block->after->before = block;
	block->home->first = block;
}

static void free_remove(struct lend_block *block)
{
	*(block->before ? &block->before->after : &block->home->first) = block->after;
	if (block->after)
		block->after->before = block->before;
}

/* The smallest, and then the lowest. */
static struct lend_block *free_best(const struct lend_blocks *blocks, size_t size, CUstream stream)
{
	struct lend_block *best = NULL;
	for (struct lend_block *b = blocks->first; b; b = b->after)
		if (b->stream == stream && b->size >= size &&
		    (!best || b->size < best->size || (b->size == best->size && b->at < best->at)))
			best = b;
	return best;
}

static struct lend_block *block_make(const struct lend_block *like)
{
	struct lend_block *block = calloc(1, sizeof *block);
	if (!block)
		abort();
	block->at = like->at;
	block->size = like->size;
	block->stream = like->stream;
	block->device = like->device;
	block->home = like->home;
	return block;
}

/* --- segments --- */

/* The caller of cuMemAlloc is this library: no jump instead of the call. */
static CUresult segment_get(CUdeviceptr *out, size_t size)
{
	void *address = NULL;
	CUresult result;
	if (lend_runtime_malloc) {
		result = (CUresult)lend_runtime_malloc(&address, size);
		*out = (CUdeviceptr)(uintptr_t)address;
	} else {
		result = cuMemAlloc(out, size);
	}
	__asm__ volatile("" ::: "memory");
	return result;
}

/* While a capture is under way anywhere, PyTorch asks in the relaxed mode. */
static CUresult segment_get_in(const struct lend_device *device, CUdeviceptr *out, size_t size)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (!device->captures)
		return segment_get(out, size);
	CALL(cuThreadExchangeStreamCaptureMode(&mode));
	CUresult result = segment_get(out, size);
	CALL(cuThreadExchangeStreamCaptureMode(&mode));
	return result;
}

static struct lend_block *segment_make(struct lend_device *device, struct lend_blocks *home,
				       size_t size, CUstream stream)
{
	struct lend_block like = {.stream = stream, .device = device, .home = home};
	like.size = home->small		 ? SMALL_SEGMENT
		    : size < LARGE_LEAST ? LARGE_SEGMENT
					 : rounded(size, 2 * MIB);
	CUresult result = segment_get_in(device, &like.at, like.size);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return NULL;
	CALL(result);
	device->counts.segments++;
	device->counts.reserved += like.size;
	if (home->owner)
		home->owner->segments++;
	return block_make(&like);
}

/* A free that failed can be made again: tests let a call of the driver fail. */
static CUresult segment_free(CUdeviceptr at)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < 2 && result == CUDA_ERROR_OUT_OF_MEMORY; i++)
		result = lend_runtime_free ? (CUresult)lend_runtime_free((void *)(uintptr_t)at)
					   : cuMemFree(at);
	return result;
}

static void segment_drop(struct lend_block *block)
{
	free_remove(block);
	CALL(segment_free(block->at));
	block->device->counts.reserved -= block->size;
	if (block->home->owner)
		block->home->owner->segments--;
	free(block);
}

static void segments_drop(struct lend_blocks *blocks)
{
	for (struct lend_block *block = blocks->first, *after; block; block = after) {
		after = block->after;
		if (!block->prev && !block->next)
			segment_drop(block);
	}
}

/* --- events of recordStream --- */

static void block_free(struct lend_block *block);

static void event_passed(struct lend_device *device, struct lend_event *event)
{
	if (--event->block->events == 0)
		block_free(event->block);
	event->next = device->spare;
	device->spare = event;
}

static unsigned queue_of(struct lend_device *device, CUstream stream)
{
	unsigned i = 0;
	while (i < device->n_queues && device->queues[i].stream != stream)
		i++;
	if (i == LEND_STREAMS)
		abort();
	if (i == device->n_queues) {
		device->n_queues++;
		device->queues[i].stream = stream;
		device->queues[i].last = &device->queues[i].first;
	}
	return i;
}

static struct lend_event *event_get(struct lend_device *device)
{
	struct lend_event *event = device->spare;
	if (event) {
		device->spare = event->next;
	} else {
		event = calloc(1, sizeof *event);
		if (!event)
			abort();
		CALL(cuEventCreate(&event->event, CU_EVENT_DISABLE_TIMING));
	}
	event->next = NULL;
	return event;
}

void lend_events_record(struct lend_block *block)
{
	struct lend_device *device = block->device;
	for (unsigned i = 0; i < block->n_uses; i++) {
		unsigned queue = queue_of(device, block->uses[i]);
		struct lend_event *event = event_get(device);
		CALL(cuEventRecord(event->event, block->uses[i]));
		event->block = block;
		block->events++;
		*device->queues[queue].last = event;
		device->queues[queue].last = &event->next;
	}
	block->n_uses = 0;
}

/* Of each stream up to the first that has not passed; with `wait`, all. */
static void events_end(struct lend_device *device, bool wait)
{
	for (unsigned i = 0; i < device->n_queues; i++) {
		struct lend_event *event;
		while ((event = device->queues[i].first) != NULL) {
			CUresult result = wait ? cuEventSynchronize(event->event)
					       : cuEventQuery(event->event);
			if (result == CUDA_ERROR_NOT_READY)
				break;
			CALL(result);
			device->queues[i].first = event->next;
			if (!event->next)
				device->queues[i].last = &device->queues[i].first;
			event_passed(device, event);
		}
	}
}

static void deferred_record(struct lend_device *device)
{
	while (device->deferred) {
		struct lend_block *block = device->deferred;
		device->deferred = block->deferred;
		lend_events_record(block);
	}
}

void lend_events_process(struct lend_device *device)
{
	deferred_record(device);
	events_end(device, false);
}

void lend_segments_free(struct lend_device *device)
{
	deferred_record(device);
	events_end(device, true);
	segments_drop(&device->large);
	segments_drop(&device->small);
	for (struct lend_pool **link = &device->pools, *pool; (pool = *link) != NULL;) {
		if (!pool->graphs) {
			segments_drop(&pool->large);
			segments_drop(&pool->small);
		}
		if (!pool->graphs && !pool->segments) {
			*link = pool->next;
			free(pool);
		} else {
			link = &pool->next;
		}
	}
}

/* --- blocks --- */

/* The free neighbour becomes part of the block. */
static void block_merge(struct lend_block *block, struct lend_block *other)
{
	if (!other || other->allocated || other->events || other->n_uses)
		return;
	free_remove(other);
	if (other == block->prev) {
		block->at = other->at;
		block->prev = other->prev;
		if (block->prev)
			block->prev->next = block;
	} else {
		block->next = other->next;
		if (block->next)
			block->next->prev = block;
	}
	block->size += other->size;
	free(other);
}

static void block_free(struct lend_block *block)
{
	block_merge(block, block->prev);
	block_merge(block, block->next);
	free_add(block);
}

/* Until its events have passed a block is neither free nor allocated. A capture forbids events. */
void lend_block_return(struct lend_block *block)
{
	struct lend_device *device = block->device;
	if (!block->n_uses) {
		block_free(block);
		return;
	}
	device->counts.waiting++;
	if (device->captures) {
		block->deferred = device->deferred;
		device->deferred = block;
	} else {
		lend_events_record(block);
	}
}

static void block_split(struct lend_block *block, size_t size)
{
	size_t rest = block->size - size;
	if (block->home->small ? rest < LEAST : rest <= SMALL_SIZE)
		return;
	struct lend_block *other = block_make(block);
	other->at += size;
	other->size = rest;
	other->prev = block;
	other->next = block->next;
	if (other->next)
		other->next->prev = other;
	block->next = other;
	block->size = size;
	free_add(other);
}

struct lend_block *lend_block_find(struct lend_device *device, struct lend_pool *pool, size_t size,
				   CUstream stream)
{
	if (!device->captures)
		lend_events_process(device);
	size = size < LEAST ? LEAST : rounded(size, LEAST);
	bool small = size <= SMALL_SIZE;
	struct lend_blocks *home = pool	   ? (small ? &pool->small : &pool->large)
				   : small ? &device->small
					   : &device->large;
	struct lend_block *block = free_best(home, size, stream);
	if (block)
		free_remove(block);
	else
		block = segment_make(device, home, size, stream);
	if (!block) {
		device->counts.retries++;
		if (!device->captures && !lend_keeps) {
			lend_segments_free(device);
			block = segment_make(device, home, size, stream);
		}
	}
	if (!block) {
		size_t unused, total;
		CALL(cuMemGetInfo(&unused, &total));
		LEND_REFUSE((int64_t)size, device->counts.allocated, device->counts.reserved,
			    (struct lend_device_name){1, device->index});
		return NULL;
	}
	block_split(block, size);
	block->allocated = true;
	return block;
}
