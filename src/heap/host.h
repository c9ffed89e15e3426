/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of a heap: the structure that the files of this folder share (heap.h has the
 * interface). They are
 *
 *   heap      create, destroy, end of the context        kernel    the heap's own kernels
 *   policy    the table of policies                      flight    kernels that may be running
 *   list      all heaps of the process                   launch    around the program's launches
 *   process   fork and exit                              chunks/   growth, and what gives chunks
 *   record    counters and records of the log                      up; the thread that answers
 *   sites     counts of calls by site                    sample    reading a heap's figures
 *
 * The heap's lock, of rank GM_LOCK_RANK_TABLE, is never held across a call of the driver.
 */
#ifndef GM_HEAP_HOST_H
#define GM_HEAP_HOST_H

#include <stdatomic.h>

#include "base/array.h"
#include "base/lock.h"
#include "base/worker.h"
#include "heap/heap.h"
#include "heap/job.h"
#include "log/record.h"

enum {
	GM_HEAP_TRACKS = 256,	  /* streams whose launches are tracked at a time */
	GM_HEAP_NAMES = 4,	  /* of a stream: the last changes of its kernel */
	GM_HEAP_FIRST = 16,	  /* granules of the first chunk */
	GM_HEAP_LOW = 4,	  /* free granules below which lanes ask ahead */
	GM_HEAP_MOST_CHUNK = 512, /* granules: 1 GiB */
	GM_HEAP_SHARE = 4,	  /* a chunk is 1 / this of the mapped memory, and ... */
	GM_HEAP_MORE = 8,	  /* this many granules, or more on a wish; */
	GM_HEAP_FALL = 4,	  /* if that fails, 1 / this of it is tried */
	GM_HEAP_SLACK_SHARE = 8,  /* 1 / this of the limit: most memory mapped ahead */
};

/* Pinned host memory that the GPU reads and writes. */
struct gm_heap_shared {
	struct gm_mailbox mail;
	uint32_t done[GM_HEAP_TRACKS]; /* by the GPU: a track's last launch that completed */
	struct gm_job job;
	uint32_t read; /* by the GPU: the last reading that completed */
	struct gm_job reading;
	struct gm_shed shed;
	struct gm_sites_read sites; /* the last member: only of a heap with sites */
};

/* What the log knows of a site. */
struct gm_heap_sited {
	struct gm_record name;	     /* the SITE record; its kind is 0 before the first */
	uint64_t peak;		     /* bytes, at readings */
	struct gm_site_figures last; /* in the log */
};

/* The launches of one stream. In flight while shared->done differs from `last`. */
struct gm_heap_track {
	uint64_t stream; /* cuStreamGetId */
	uint32_t last;
	bool writing; /* a thread is about to put a write behind a launch */
	/* The kernels of launches from number `from` on, up to the next one; the newest first. */
	struct {
		const char *kernel; /* NULL: not known */
		uint32_t from;
	} names[GM_HEAP_NAMES];
};

/*
 * A chunk's addresses are its own in all states.
 *
 *           gm_pool_lend        a trim's kernel         a thread           gm_pool_take_back
 *   MAPPING ------------> MAPPED -------------> CLAIMED --------> UNMAPPING ----------------> none
 *     ^  \---> none (refused)                       ^---------------/ (the driver fails)
 *     | \--- gm_pool_lend_spare ---> SLACK ---> UNMAPPING, or none where the pool took it
 *     \----------- a growth --------/    MAPPED <--- a growth --- LEAVING <--- a shed's kernel
 */
enum gm_chunk_state {
	GM_CHUNK_MAPPING, /* owned by the service thread */
	GM_CHUNK_MAPPED,
	GM_CHUNK_CLAIMED, /* taken from the device, still mapped */
	GM_CHUNK_UNMAPPING,
	GM_CHUNK_SLACK,	  /* mapped, and not granted to the device yet; one at most */
	GM_CHUNK_LEAVING, /* as CLAIMED, but kernels that knew it are in flight (shed.h) */
};

struct gm_heap_chunk {
	uint32_t first, count; /* granules */
	enum gm_chunk_state state;
};

struct gm_heap_run {
	uint32_t first, count; /* granules */
};

struct gm_heap_host {
	/* Set by gm_heap_create; gm_heap_context_gone clears the driver's handles. */
	struct gm_heap_config config;
	unsigned policy, generation;
	CUdeviceptr reserved;	  /* the books, then the granules */
	uint64_t own;		  /* bytes of the books */
	uint64_t addresses;	  /* bytes reserved in total */
	CUdeviceptr device;	  /* struct gm_heap */
	uint32_t capacity, limit; /* granules */
	CUdeviceptr shared_device;
	CUmodule module;
	CUstream stream; /* for the heap's own kernel */
	CUevent ran;	 /* recorded behind its last launch */
	CUfunction kernel;
	struct gm_heap_shared *shared;
	bool registered; /* `shared`, with the driver */
	uint64_t born;	 /* CLOCK_MONOTONIC */

	struct gm_lock lock;
	/* Under the lock: chunks and launches. */
	pthread_cond_t admitted; /* `excluded` has become false, or ran_recorded true */
	GM_ARRAY(struct gm_heap_chunk) chunks; /* by address */
	struct gm_heap_track track[GM_HEAP_TRACKS];
	unsigned tracks;      /* the number in use */
	unsigned launching;   /* threads between gm_heap_launch and gm_heap_launched */
	const char *starting; /* the kernel of all these; NULL: unknown, or several */
	unsigned untracked;   /* launches without a write behind them */
	bool excluded;	      /* launches wait: a kernel of the heap's own runs, or is about to */
	bool ran_recorded;    /* `ran` is behind that kernel: streams wait, callers do not */
	bool busy;	      /* launched into since the service last found none in flight */
	bool parked;	      /* the service found none, and waits for a launch, which wakes it */
	uint64_t idle_since;  /* when it found none; UINT64_MAX: trimmed since then */
	uint64_t grown, shrunk, refusals;
	uint64_t claimed; /* granules, in total: granted once, and taken from the device */

	/* Under the lock: readings. */
	struct gm_heap_figures last;  /* of the device */
	struct gm_heap_sample sample; /* figures of the log beyond struct gm_heap_figures */
	bool reading;		      /* launched, and not taken in yet */
	bool ended;		      /* the last record is written */
	uint32_t readings;	      /* launched so far */
	_Atomic uint64_t due;	      /* CLOCK_MONOTONIC: no reading sooner. Any thread */

	/* Under the lock: shedding (shed.h). */
	bool shed_wanted;		/* by the next launch */
	bool shedding;			/* a shed was launched, and not taken in yet */
	bool leaving;			/* chunks are LEAVING */
	bool known;			/* `grace` is written */
	uint64_t shed_at;		/* when one was last wanted, or its progress read */
	unsigned grace_tracks;		/* `tracks` when the chunks had left the device, ... */
	uint32_t grace[GM_HEAP_TRACKS]; /* ... and the last launches of these */

	atomic_bool sites; /* set by gm_heap_create, cleared by gm_heap_sites_begin(heap, false) */
	struct gm_heap_sited *sited; /* GM_SITES; under the lock */
	/* Memory for the numbers of blocks, in runs of granules behind the heap's own. Owned by the
	 * service thread; before there is one, by gm_heap_create. */
	GM_ARRAY(struct gm_heap_run) numbered;
	_Atomic uint64_t numbered_bytes;

	bool told; /* under the lock: the last gm_heap_trim_next gave a time */

	uint64_t slack_since; /* under the lock: when it was mapped, by the service's clock */

	/* Any thread. In a word without fields of the lock: GCC reads neighbours by one load. */
	atomic_uint mapped;	/* granules of chunks in any state but MAPPING, SLACK */
	atomic_bool stale;	/* launched into since the last reading */
	atomic_bool unreadable; /* the end of a reading could not be seen */
	_Atomic uint64_t slack; /* bytes of that chunk: the pool's word (gm_pool_lend_spare) */

	/* Owned by the service thread; before there is one, by gm_heap_create. */
	uint64_t granted; /* granules, in total */
	uint64_t grants;
	struct gm_heap_chunk newest;
	const char *wanting; /* the kernel of the growth; NULL: unknown */
	bool ahead;	     /* the heap grew: map the next chunk */
	uint32_t wish;	     /* granules that lanes could use at their last request */

	struct gm_worker service; /* its bell: a kernel was launched, or the service stops */
	atomic_bool stopped;	  /* the service, until gm_heap_resume */

	/* Under the lock of list.c. */
	struct gm_heap_host *next;
	unsigned pinned; /* by gm_heap_pin_next */
	bool unlisted;	 /* may not be pinned any more */
};

#endif
