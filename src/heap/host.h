/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the host's side of a heap share (heap.h). The heap's lock guards `chunks` and
 * the state of launches, never across a call of the driver.
 */
#ifndef GM_HEAP_HOST_H
#define GM_HEAP_HOST_H

#include <stdatomic.h>

#include "base/array.h"
#include "base/lock.h"
#include "heap/heap.h"
#include "heap/job.h"

enum {
	GM_HEAP_TRACKS = 256,	 /* streams whose launches are followed at a time */
	GM_HEAP_FIRST = 16,	 /* granules of the first chunk */
	GM_HEAP_LOW = 4,	 /* free granules below which lanes ask ahead */
	GM_HEAP_LEAST_CHUNK = 1, /* granules */
	GM_HEAP_MOST_CHUNK = 64,
	GM_HEAP_SHARE = 8, /* a chunk is this part of what is mapped */
};

/* Host memory that the GPU reads and writes. */
struct gm_heap_shared {
	struct gm_mailbox mail;
	uint32_t done[GM_HEAP_TRACKS]; /* by the GPU: the last launch that completed */
	struct gm_job job;
};

/* The launches of one stream. In flight while shared->done differs from `last`. */
struct gm_heap_track {
	uint64_t stream; /* cuStreamGetId */
	uint32_t last;
	bool writing; /* a thread is about to put a write behind a launch */
};

enum gm_chunk_state {
	GM_CHUNK_COMING, /* addresses alone, being mapped */
	GM_CHUNK_MAPPED,
	GM_CHUNK_LEAVING, /* out of the device's hands, and still mapped */
};

struct gm_heap_chunk {
	uint32_t first, count; /* granules */
	enum gm_chunk_state state;
};

struct gm_heap_host {
	struct gm_heap_config config;
	unsigned policy, generation;
	CUdeviceptr reserved;	  /* the books, then the granules */
	uint64_t own;		  /* bytes of the books */
	uint64_t addresses;	  /* bytes reserved in all */
	CUdeviceptr device;	  /* struct gm_heap */
	uint32_t capacity, limit; /* granules */
	CUdeviceptr shared_device;
	CUmodule module;
	CUstream stream; /* for the heap's own kernels */
	CUfunction set_up, init, trim, stats;

	struct gm_lock lock;
	pthread_cond_t trimmed;
	GM_ARRAY(struct gm_heap_chunk) chunks; /* by address */
	struct gm_heap_track track[GM_HEAP_TRACKS];
	unsigned tracks;    /* the used part of it */
	unsigned launching; /* between gm_heap_launch and gm_heap_launched */
	unsigned untracked; /* launches that no write stands behind */
	bool trimming;
	uint64_t grown, shrunk, refusals,
		gone; /* gone: granules that were granted and left the device's hands */
	struct gm_heap_figures last; /* of the device */

	atomic_uint mapped;  /* granules of chunks, whatever their state */
	uint64_t granted;    /* granules, in all; the service's, and create's */
	uint64_t grants;     /* likewise */
	atomic_uint alive;   /* there is a service thread; a futex */
	atomic_uint bell;    /* the service has something to look at; a futex */
	atomic_bool stopped; /* for good */
	struct gm_heap_shared *shared;
	bool registered; /* with the driver */
};

/* --- policy.c --- */

/* Bytes of the policy's memory for so many granules. */
size_t gm_heap_policy_bytes(unsigned policy, uint32_t capacity);
/* The policy's name in the names of its kernels, as gm_heap_init_<symbol>. */
const char *gm_heap_policy_symbol(unsigned policy);

/* --- grow.c --- */

/*
 * Map one more chunk of `count` granules, side by side, and grant it. Only the service thread calls
 * it, and create before there is one. The error is the pool's; nothing is changed then.
 */
CUresult gm_heap_add_chunk(struct gm_heap_host *heap, uint32_t count);

/* Answer what the mailbox asks for now. True: the heap grew. */
bool gm_heap_answer(struct gm_heap_host *heap);

/* Take chunks back that are LEAVING; those that the driver does not unmap stay. Returns bytes. */
uint64_t gm_heap_drop_chunks(struct gm_heap_host *heap);

/* --- launch.c --- */

/* In flight? And as far as its end will be seen by itself? With the lock held. */
bool gm_heap_is_in_flight(const struct gm_heap_host *heap);
bool gm_heap_is_tracked(const struct gm_heap_host *heap);

/* --- service.c --- */

/* What the service thread does, until it has nothing to do, on the calling thread. */
void gm_heap_serve(struct gm_heap_host *heap);

/* There is something in flight: with the lock held. */
void gm_heap_wake(struct gm_heap_host *heap);

/* End the service and wait for its thread. */
void gm_heap_stop(struct gm_heap_host *heap);

/* How often this process is a fork of the first one; and whether it is that which made the heap:
 * if not, nothing is done with it, for its lock may be held for ever. */
unsigned gm_heap_generation(void);
bool gm_heap_is_ours(const struct gm_heap_host *heap);

/* Around calls of the driver that are not the program's. False: the process exits. */
bool gm_heap_begin_calls(const struct gm_heap_host *heap);
void gm_heap_end_calls(void);

/* --- trim.c --- */

/* Launch one of the heap's kernels on its own stream and wait for it. */
CUresult gm_heap_run(struct gm_heap_host *heap, CUfunction kernel, unsigned threads);

#endif
