/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arguments and answers of the heap's own kernel, in pinned host memory. Its operations are
 * written once, in the common language of C11 and CUDA C++, a function for each: kernels.cu makes a
 * kernel of them, sim/kernels.c a function that the simulated driver launches.
 */
#ifndef GM_HEAP_JOB_H
#define GM_HEAP_JOB_H

#include "heap/device/sites.h"
#include "heap/device/span.h"

enum {
	GM_JOB_CHUNKS = 512, /* of one job of a trim */
	GM_INIT_THREADS = 256,
};

/*
 * The operations of the kernel gm_heap_run_<policy>(heap, job, operation). It is one kernel,
 * because the driver loads each, and the host looks each up. `job` is a struct gm_job, of a shed a
 * struct gm_shed.
 */
enum gm_job_op {
	GM_JOB_SET_UP, /* by GM_INIT_THREADS lanes; the others by one, ... */
	GM_JOB_TRIM,
	GM_JOB_STATS, /* ... but this by GM_INIT_THREADS in a heap with sites, */
	GM_JOB_SHED,  /* and this by a warp */
};

struct gm_job_chunk {
	uint32_t first, count; /* granules */
	uint32_t taken;	       /* out: all were free, and were taken from the device */
	uint32_t pad;
};

struct gm_job {
	struct gm_heap heap;	    /* set_up: the device's initial value */
	struct gm_heap_stats stats; /* stats: the policy's figures, and the heap's: */
	uint64_t nulls, foreign_frees, used, stalled;
	struct gm_sites_read *sites; /* in: where stats puts the sites' figures; NULL: nowhere */
	uint32_t chunks;	     /* trim: of `chunk` */
	uint32_t pad;
	struct gm_job_chunk chunk[GM_JOB_CHUNKS];
};

/* Of a shed: device/shed.h. */
struct gm_shed {
	uint64_t done;	 /* out: `number`, at the end */
	uint64_t number; /* of the shed; not 0 */
	uint64_t mapped; /* granules that the device has */
	uint64_t chunks; /* of `chunk`, in the order in which they are claimed */
	struct gm_job_chunk chunk[GM_JOB_CHUNKS];
};

/* By one lane, on zeroed memory. */
GM_DEVICE void gm_job_set_up(struct gm_heap *heap, const struct gm_job *job)
{
	*heap = job->heap;
	gm_span_collect(heap);
}

/*
 * By one lane, after the policy's trim and while no other one is in the heap. No lane waits, so
 * open wants are dropped; and lanes may ask again after a refusal.
 */
GM_DEVICE void gm_job_take_chunks(struct gm_heap *heap, struct gm_job *job)
{
	gm_span_collect(heap);
	for (uint32_t i = 0; i < job->chunks; i++) {
		struct gm_job_chunk *chunk = &job->chunk[i];
		chunk->taken = gm_span_claim(heap, chunk->first, chunk->count);
	}
	heap->wanted = heap->granted;
	heap->refused = 0;
}

/* By one lane, after the policy's stats. */
GM_DEVICE void gm_job_count(const struct gm_heap *heap, struct gm_job *job)
{
	job->nulls = heap->refusals;
	job->foreign_frees = heap->foreign_frees;
	job->used = heap->granted - heap->available;
	job->stalled = heap->stalled;
}

#endif
