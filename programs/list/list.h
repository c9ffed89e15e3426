/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arraylist: a list of equal objects that kernels let grow, of R. Spliet, A comprehensive study of
 * Dynamic Memory Management in OpenCL kernels (2013), 4.2.2 and 5.3. doc/programs.md has it.
 *
 * The list is a chain of blocks; a block's header says which positions it has. An item grows it by
 * a block of its own, or a group by one block for all of its items.
 */
#ifndef LIST_H
#define LIST_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

enum list_way {
	LIST_FIXED,	 /* room for the most objects of all requests, no list */
	LIST_BUMP,	 /* a counter, no list */
	LIST_MALLOC,	 /* malloc of each item, no list */
	LIST_ITEM,	 /* a list: blocks of items, by malloc */
	LIST_GROUP,	 /* blocks of groups, by malloc */
	LIST_GROUP_BUMP, /* by a counter */
	LIST_WAYS
};

#define LIST_GROUP_MOST 1024

typedef unsigned long long list_word;

/* Objects, of 4 bytes each, stand behind it. */
struct list_block {
	list_word next;
	uint32_t first, count; /* the position of its first object; how many */
};

struct list {
	list_word head; /* the newest block, which leads to older ones */
	uint32_t count; /* positions given out */
};

/* What the items of a group share. */
struct list_shared {
	list_word sum[LIST_GROUP_MOST]; /* bytes, then addresses */
	bool lacking;
};

/* The argument of all kernels, in device memory. */
struct list_work {
	uint32_t items, rounds, most; /* each item asks for 1 to `most` objects in each round */
	struct list list;
	list_word *kept; /* without a list: the address of each request */
	char *space;	 /* of LIST_FIXED and the counters */
	list_word space_bytes, used;
	/* Set to 0 before a run. */
	list_word allocated, bytes, lacking; /* the first two: blocks that were found, and freed */
	list_word checksum, found;	     /* of all objects */
	list_word some_checksum, some_found; /* of those that are read by their position */
	list_word read_checksum, read_found; /* the same, as they were read */
};

PR_BOTH uint64_t list_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

/* How many objects the item asks for in that round. */
PR_BOTH uint32_t list_request(uint32_t item, uint32_t round, uint32_t most)
{
	return 1 + (uint32_t)((list_mix(item, round) >> 32) * most >> 32);
}

PR_BOTH uint32_t list_value(uint32_t item, uint32_t round, uint32_t k)
{
	return (uint32_t)list_mix(list_mix(item, round) >> 32, k);
}

/* What an object adds to a checksum, so that each counts once. */
PR_BOTH uint64_t list_digest(uint32_t value)
{
	return list_mix(value, 1);
}

/* --- list_kernels.cu: each enqueues one kernel on the default stream --- */

/* A thread an item, which grows the list in each round and writes its objects. */
cudaError_t list_kernel_grow(struct list_work *work, uint32_t items, uint32_t group,
			     enum list_way way);
/* A thread a position: 0, stride, 2 * stride, ... `reads` of them. Without a list: of requests. */
cudaError_t list_kernel_read(struct list_work *work, uint32_t reads, uint32_t stride,
			     enum list_way way);
/* All objects are added up, and all blocks freed. */
cudaError_t list_kernel_clear(struct list_work *work, uint32_t items, uint32_t stride,
			      enum list_way way);

#ifdef __cplusplus
}
#endif

#endif
