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
#include "log/record.h"

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
	uint32_t read; /* by the GPU: the last reading that completed */
	struct gm_job reading;
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
	GM_CHUNK_GOING,	  /* likewise, and a thread is unmapping it */
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
	CUevent ran;	 /* behind the last of them */
	CUfunction set_up, init, trim, stats;

	struct gm_lock lock;
	pthread_cond_t trimmed;
	GM_ARRAY(struct gm_heap_chunk) chunks; /* by address */
	struct gm_heap_track track[GM_HEAP_TRACKS];
	unsigned tracks;     /* the used part of it */
	unsigned launching;  /* between gm_heap_launch and gm_heap_launched */
	unsigned untracked;  /* launches that no write stands behind */
	bool trimming;	     /* a kernel of its own is, or will be, in the heap, and ... */
	bool behind;	     /* `ran` stands behind it */
	bool busy;	     /* launched into since the service last found nothing in flight */
	uint64_t idle_since; /* when that was; UINT64_MAX: gm_heap_trim_idle was there */
	uint64_t grown, shrunk, refusals,
		gone; /* gone: granules that were granted and left the device's hands */
	struct gm_heap_figures last; /* of the device */

	atomic_uint mapped;	     /* granules of chunks, whatever their state */
	uint64_t granted;	     /* granules, in all; the service's, and create's */
	uint64_t grants;	     /* likewise */
	struct gm_heap_chunk newest; /* likewise */
	atomic_uint alive;	     /* there is a service thread; a futex */
	atomic_uint bell;	     /* the service has something to look at; a futex */
	atomic_bool stopped;	     /* for good */
	struct gm_heap_shared *shared;
	bool registered; /* with the driver */

	/* --- figures.c, note.c --- */
	struct gm_heap_host *next; /* of all; under their lock, like the next two */
	unsigned pinned;	   /* by threads that look at it */
	bool leaving;		   /* nobody may do so any more */
	uint64_t born;		   /* CLOCK_MONOTONIC, like the next one */
	_Atomic uint64_t due;	   /* to be read no sooner */
	atomic_bool stale;	   /* kernels were launched since it was last read */
	atomic_bool deaf;	   /* nobody would hear of the end of a reading */
	/* Under the heap's lock: */
	bool reading;		    /* asked for, and not there yet */
	bool ended;		    /* its last record is written */
	uint32_t asked;		    /* readings */
	struct gm_heap_sample said; /* all that is known beyond struct gm_heap_figures */
};

/* --- policy.c --- */

/* Bytes of the policy's memory for so many granules. */
size_t gm_heap_policy_bytes(unsigned policy, uint32_t capacity);
/* Can it be read while kernels allocate? */
bool gm_heap_policy_is_steady(unsigned policy);
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

/* End the service and wait for its thread; and have it again, for what is in flight by now. */
void gm_heap_stop(struct gm_heap_host *heap);
void gm_heap_resume(struct gm_heap_host *heap);

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

/* The same with the heap's context made current: the caller sees to it that it does not end
 * meanwhile; or gm_context_enter does, and if that cannot be, CUDA_ERROR_NOT_READY. */
CUresult gm_heap_run_there(struct gm_heap_host *heap, CUfunction kernel, unsigned threads);
CUresult gm_heap_run_alive(struct gm_heap_host *heap, CUfunction kernel, unsigned threads);

/* Keep kernels that may allocate from running beside those of gm_heap_run, until gm_heap_let_in.
 * False: one is in flight, or another thread does so. */
bool gm_heap_keep_out(struct gm_heap_host *heap);
void gm_heap_let_in(struct gm_heap_host *heap);

/* --- figures.c --- */

/* Read the heap by a kernel that is run by `run`, and wait for it. */
CUresult gm_heap_read(struct gm_heap_host *heap,
		      CUresult (*run)(struct gm_heap_host *, CUfunction, unsigned));

/* Take in a reading that was asked for, if it is there: before the heap changes. Lock held. */
void gm_heap_take_reading(struct gm_heap_host *heap);

/* In a forked child. */
void gm_heap_look_forget(void);

/* A kernel that may allocate was launched: there will be something new to read. */
void gm_heap_has_news(struct gm_heap_host *heap);

/* --- note.c: counters and records. With the heap's lock held where it says so --- */

/* It is made; or nobody may look at it any more, after which its last record is written. */
void gm_heap_note_made(struct gm_heap_host *heap);
void gm_heap_note_end(struct gm_heap_host *heap);
/* Its last record alone; false: that has been written before. */
bool gm_heap_note_last(struct gm_heap_host *heap);
/* In a forked child. */
void gm_heap_note_forget(void);

/* Its chunks have become so many bytes more, or less. Lock held. */
void gm_heap_note_mapped(struct gm_heap_host *heap, int64_t bytes);

/* It got a chunk of `bytes` at `address` for kernels that wanted so many granules in all; or got
 * none, which is due to its own limit, or not. The host set out to do so at `start`. */
void gm_heap_note_growth(struct gm_heap_host *heap, CUdeviceptr address, uint64_t bytes,
			 uint64_t want, uint64_t start);
void gm_heap_note_refusal(struct gm_heap_host *heap, uint64_t bytes, uint64_t want, uint64_t start,
			  bool limit);

/* heap->last has been `before`, and was read anew. Lock held. */
void gm_heap_note_figures(struct gm_heap_host *heap, const struct gm_heap_figures *before);

/* The first heap of the context with this key, or of all (0), and pin it; or the one after `heap`,
 * which is let go. NULL: there is none. */
struct gm_heap_host *gm_heap_pin_next(struct gm_heap_host *heap, uint64_t key);

#endif
