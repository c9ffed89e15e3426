/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap that kernels allocate from, as the device sees it, and what a policy is.
 *
 *   granule  2 MiB of the heap's reserved addresses, mapped or not; granule g is at
 *            base + g * 2 MiB
 *   free     a granule that is mapped and belongs to nobody: its bit in `free` is set
 *   grant    a run of granules that the host has mapped; it comes through the mailbox
 *   policy   what makes granules into allocations: one file each, chosen when the heap is made
 *
 * All of this is one block of device memory, zero but for the constants that the host writes.
 *
 * A policy is a row of policy.def and a file that defines, for its name N:
 *
 *   size_t gm_N_bytes(capacity)
 *       bytes of memory that it needs, zeroed, 64-byte aligned, for a heap of so many granules:
 *       heap->policy
 *   void gm_N_init(heap, thread, threads)
 *       by that many threads, each once, before all else
 *   void *gm_N_malloc(heap, size)
 *       any size; 16-byte aligned; distinct from all that is allocated, size 0 too; NULL: full, and
 *       the host has no more, or the size is beyond the heap
 *   void gm_N_free(heap, address)
 *       what malloc returned, once; NULL is nothing
 *   size_t gm_N_usable(heap, address)
 *       bytes that the caller may use there, at least the size it asked for; 0: not known
 *   void gm_N_trim(heap)
 *       by one lane, while no other one is in the heap: put granules that hold nothing back into
 *       `free`
 *   void gm_N_stats(heap, stats)
 *       likewise: add up what its structures say
 *
 * malloc and free may be called by any lanes of a warp, together or apart, with any sizes, in
 * blocks of any shape; free also in another kernel, stream or block than malloc. They never trap.
 */
#ifndef GM_HEAP_DEVICE_HEAP_H
#define GM_HEAP_DEVICE_HEAP_H

#include "heap/device/simt.h"

#define GM_GRANULE_SHIFT 21
#define GM_GRANULE (1ull << GM_GRANULE_SHIFT)
#define GM_NO_GRANULE 0xffffffffu
#define GM_LINE 64 /* what two sides write apart lies this far apart */

enum { GM_GRANTS = 64 }; /* granted, and not yet taken by the device, at most */

/*
 * What host and device tell each other: pinned host memory, a line for each word. All amounts are
 * in granules, counted from the heap's creation; none ever falls but `want`, when nobody waits for
 * that much any more, and `refused`, when it may be tried again.
 */
struct gm_mailbox {
	struct {
		uint64_t value;
		char pad[GM_LINE - sizeof(uint64_t)];
	} want,		 /* device: granules that are needed in all */
		have,	 /* host: grants made; grant i is in grant[i % GM_GRANTS] */
		taken,	 /* device: grants that it has read: their places are free */
		refused, /* host: the least want that it cannot meet now; 0: none */
		beat;	 /* host: changes at least every 100 ms while `want` is not met, but
			    for GM_BEAT_CALLING */
	uint64_t grant[GM_GRANTS]; /* first granule << 32 | granules */
};

/* In `beat`: the host is making the calls of the driver that more granules take. They can be slow,
 * or wait for a thread that waits for the kernel. */
#define GM_BEAT_CALLING (1ull << 63)

/* A set of granules: a bit each, and a bit for each word that is not 0. */
struct gm_bits {
	uint64_t *word;
	uint64_t *summary;
};

struct gm_heap {
	/* constant */
	uint64_t base;
	uint32_t capacity;  /* granules that the addresses have room for */
	uint32_t summaries; /* words of a summary: capacity / 4096, rounded up */
	uint32_t low;	    /* free granules below which more are asked for beforehand */
	uint32_t pad0;
	struct gm_mailbox *mail;
	void *policy; /* the policy's memory */
	struct gm_bits free;
	uint32_t *run; /* whose a granule is: GM_RUN_... or the length of a run (run.h) */
	uint64_t pad1[6];

	/* changing */
	uint64_t available; /* free granules, as a guide: bits change before it does */
	char pad2[GM_LINE - 8];
	uint64_t granted;   /* granules that came so far */
	uint64_t wanted;    /* largest number of them that any lane needed */
	uint64_t grants;    /* taken so far */
	uint64_t refused;   /* mailbox's, when last looked at */
	uint64_t polled_at; /* and when that was, by gm_nanoseconds */
	uint64_t beat;	    /* mailbox's */
	uint64_t beat_at;   /* `waited` when a change of it was seen */
	uint64_t dead;	    /* the beat + 1 after which a lane waited in vain; 0: none */
	uint32_t epoch;	    /* counts granules that came back or in */
	uint32_t reach;	    /* words of a summary that all granules so far need */
	uint64_t seen_at;   /* polled_at of the last look that is over */
	uint64_t waited;    /* ns between looks, each no more than GM_LOOK */
	uint32_t pad5[10];
	uint64_t foreign_frees; /* of addresses outside the heap, or where nothing is allocated */
	uint64_t refusals;	/* allocations that got NULL */
	char pad4[GM_LINE - 16];
};

enum { GM_SIZES = 33 }; /* of allocations that a policy may tell apart; the last: all beyond */

/* What a policy's structures say while nobody is in the heap; or, of one that is STEADY, nearly so
 * while somebody is. */
struct gm_heap_stats {
	uint64_t granules;	  /* not free, and granted */
	uint64_t live_bytes;	  /* in use, rounded up as the policy does */
	uint64_t static_bytes;	  /* gm_N_bytes */
	uint64_t queue_chunks;	  /* Ouroboros: chunks that hold queues now, ... */
	uint64_t queue_recycled;  /* how often one was drained and went back, ... */
	uint64_t chunks_recycled; /* and how often a chunk of pages did, for any use */
	uint64_t live[GM_SIZES];  /* granule: allocations of each class, and runs */
	uint32_t end; /* in: granules from there on were never the heap's; 0: capacity */
	uint32_t pad;
};

#endif
