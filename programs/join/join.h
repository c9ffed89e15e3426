/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hashjoin: a partitioned hash join whose output pages come from one of several allocators.
 * doc/programs.md has the ways and their source.
 */
#ifndef JOIN_H
#define JOIN_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

enum join_policy {
	JOIN_DIRECT,
#define JOIN_POLICY(name, n) JOIN_##n,
#include "policies.def"
#undef JOIN_POLICY
	JOIN_MALLOC,
	JOIN_POLICIES
};

struct join_tuple {
	uint32_t key, payload;
};

/* Output of one thread: pairs of payloads. */
#define JOIN_PAGE 256
#define JOIN_PAIRS ((JOIN_PAGE - 16) / 8)
struct join_page {
	struct join_page *next;
	uint32_t used, pad;
	struct join_tuple pair[JOIN_PAIRS]; /* the payload of R, then that of S */
};

struct join_side {
	struct join_tuple *tuple;  /* as they came */
	struct join_tuple *parted; /* by partition */
	uint32_t *cursor;	   /* of each partition: tuples; then where the next one goes */
};

/* The argument of all kernels, in device memory. */
struct join_work {
	struct join_side side[2];	 /* R, of which the table is made, and S, which probes it */
	uint32_t tuples;		 /* of each */
	uint32_t bucket_bits, part_bits; /* the first bits of a hash; part_bits <= bucket_bits */
	uint64_t *head;			 /* of each bucket: place in R + 1 of its first tuple */
	uint32_t *next;		  /* of each tuple of R: place + 1 of the next one in the bucket */
	struct join_page **first; /* of each thread that probes; the newest page is first */
	uint32_t threads;	  /* that probe, each tuples / threads of S */
	void *heap;		  /* struct gm_heap; NULL: direct, malloc */
	char *pages;		  /* direct: the pages */
	uint64_t page_count;
	/* Set to 0 before a run. */
	uint64_t taken;			  /* direct: pages */
	uint64_t lacking;		  /* pages that nobody had */
	uint64_t matches, checksum, held; /* held: pages */
};

/* Of a pair: the sum over all pairs is the checksum, whatever their order. */
PR_BOTH uint64_t join_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

/* --- join_kernels.cu: each enqueues kernels on the default stream --- */

/* A heap of that policy for so many pages, ready for use; NULL: the policy has none. The caller
 * ends it by join_heap_close. */
struct page_heap *join_heap_open(enum join_policy policy, uint64_t pages);
void *join_heap_device(struct page_heap *heap);
void join_heap_close(struct page_heap *heap);

cudaError_t join_kernel_count(struct join_work *work, uint32_t tuples, int side);
cudaError_t join_kernel_scatter(struct join_work *work, uint32_t tuples, int side);
cudaError_t join_kernel_build(struct join_work *work, uint32_t tuples);
cudaError_t join_kernel_probe(struct join_work *work, uint32_t threads, enum join_policy policy);
/* matches, checksum and held; frees the pages. */
cudaError_t join_kernel_finish(struct join_work *work, uint32_t threads, enum join_policy policy);

/* --- join_run.c --- */

struct join_result {
	uint64_t matches, checksum, held;
	double partition_ms, build_ms, probe_ms, finish_ms;
};

/* Both tables, of `tuples` keys below `tuples`, in host memory. */
struct join_tables {
	struct join_tuple *tuple[2];
	uint32_t tuples;
};

/* False: no memory of the host. */
bool join_tables_make(struct join_tables *t, uint32_t tuples);
void join_tables_free(struct join_tables *t);
/* The CPU's result. False: no memory. */
bool join_reference(const struct join_tables *t, uint64_t *matches, uint64_t *checksum);

/* One device's data for joins of these tables. */
struct join_session;
struct join_session *join_open(const struct join_tables *t, uint32_t probes, uint64_t pages,
			       enum join_policy policy);
/* Ends the process if the pages do not suffice. */
void join_run(struct join_session *s, struct join_result *out);
void join_close(struct join_session *s);

#ifdef __cplusplus
}
#endif

#endif
