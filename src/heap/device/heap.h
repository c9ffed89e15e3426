/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap that kernels allocate from, as the device sees it, and the interface of policies.
 *
 *   granule  2 MiB of the heap's reserved addresses, mapped or not; granule g is at
 *            base + g * 2 MiB
 *   free     a granule that is mapped and has no owner: its bit in `free` is set
 *   grant    a run of granules that the host has mapped, announced in the mailbox
 *   policy   makes allocations of granules: one file each, chosen when the heap is made
 *
 * All of this is one block of device memory, zero but for the constants that the host writes.
 *
 * A policy is a row of policy.def and a file that defines, for its name N:
 *
 *   size_t gm_N_bytes(capacity)
 *       bytes of its own memory, heap->policy, for a heap of `capacity` granules; that memory is
 *       zeroed, and 64-byte aligned
 *   void gm_N_init(heap, thread, threads)
 *       by `threads` threads, each once, before any other call
 *   void *gm_N_malloc(heap, size)
 *       any size, 0 too; 16-byte aligned, overlaps no other allocation. NULL: the heap is full and
 *       the host has no more, or the size is beyond the heap
 *   void gm_N_free(heap, address)
 *       an address that malloc returned, once; NULL is ignored. Any other is an invalid free:
 *       without effect; counted in foreign_frees if the policy detects it
 *   size_t gm_N_usable(heap, address)
 *       bytes that the caller may use there, at least the requested size; 0: not known, or no
 *       allocation begins there
 *   void gm_N_trim(heap)
 *       by one lane, while no other one is in the heap: put empty granules back into `free`
 *   void gm_N_stats(heap, stats)
 *       likewise: add up the figures
 *
 * malloc and free may be called by any lanes of a warp, converged or not, with any sizes, in
 * blocks of any shape; free also in another kernel, stream or block than malloc. They never trap,
 * and take no more registers and stack than src/takeover/helper.sh allows.
 */
#ifndef GM_HEAP_DEVICE_HEAP_H
#define GM_HEAP_DEVICE_HEAP_H

#include "heap/device/simt.h"

#define GM_GRANULE_SHIFT 21
#define GM_GRANULE (1ull << GM_GRANULE_SHIFT)
#define GM_NO_GRANULE 0xffffffffu
#define GM_LINE 64 /* distance of words that different sides write */

enum { GM_GRANTS = 64 }; /* most grants that the device has not taken yet */

/*
 * The mailbox of host and device, in pinned host memory, a line for each word. Amounts are in
 * granules, in total since the heap was made. None ever falls, except `want`, when no lane waits
 * for that many any more, and `refused`, when lanes may ask again.
 */
struct gm_mailbox {
	struct {
		uint64_t value;
		char pad[GM_LINE - sizeof(uint64_t)];
	} want,		 /* device: total number of granules that are needed */
		wish,	 /* device: granules that all waiting lanes could use; a hint */
		have,	 /* host: grants made; grant i is in grant[i % GM_GRANTS] */
		taken,	 /* device: grants that were read; their places are free */
		refused, /* host: the least `want` that it cannot grant now; 0: none */
		beat;	 /* host: changes at least every 100 ms while `want` is not granted, except
			  * under GM_BEAT_CALLING */
	uint64_t grant[GM_GRANTS]; /* first granule << 32 | granules */
};

/* In `beat`: the host is calling the driver for more granules. The calls can be slow, or wait for a
 * thread that waits for the kernel. */
#define GM_BEAT_CALLING (1ull << 63)

/* A set of granules: a bit for each, and a bit for each word that is not 0. */
struct gm_bits {
	uint64_t *word;
	uint64_t *summary;
};

struct gm_heap {
	/* constant */
	uint64_t base;
	uint32_t capacity;  /* granules that the addresses have room for */
	uint32_t summaries; /* words of a summary: capacity / 4096, rounded up */
	uint32_t low;	    /* free granules below which lanes ask ahead */
	uint32_t pad0;
	struct gm_mailbox *mail;
	void *policy; /* the policy's memory */
	struct gm_bits free;
	uint32_t *run; /* owner of each granule: GM_RUN_..., or the length of a run (run.h) */
	struct gm_sites *sites; /* NULL: calls are not counted by their places (sites.h) */
	uint16_t *numbers;	/* of the site of each block, by its first 16 bytes */
	uint64_t pad1[4];

	/* changing */
	uint64_t available; /* free granules, a hint: changed after the bits */
	char pad2[GM_LINE - 8];
	uint64_t granted;   /* granules in total */
	uint64_t wanted;    /* the largest total that any lane needed */
	uint64_t grants;    /* taken so far, in total */
	uint64_t refused;   /* `refused` of the mailbox, at the last poll */
	uint64_t polled_at; /* when that poll began, by gm_nanoseconds */
	uint64_t beat;	    /* `beat` of the mailbox, at the last poll */
	uint64_t beat_at;   /* `waited` when it last changed */
	uint64_t dead;	    /* the beat at which lanes gave the host up, + 1; 0: none */
	uint32_t epoch;	    /* changes when granules become free */
	uint32_t reach;	    /* words of a summary that cover all granules granted so far */
	uint64_t seen_at;   /* polled_at of the last poll that is over */
	uint64_t waited;    /* ns between polls, in total; each at most GM_POLL_NS */
	uint64_t wished;    /* by waiting lanes, since the last grant */
	uint64_t stalled;   /* total ns of lanes waiting for the host; several at once count once */
	uint64_t least;	    /* lowest `available` since the last shed; 0: before the first */
	uint32_t pad5[4];
	uint64_t foreign_frees; /* invalid frees: no allocation in use begins there */
	uint64_t refusals;	/* allocations that got NULL */
	char pad4[GM_LINE - 16];
};

enum { GM_SIZES = 33 }; /* of allocations that a policy counts; the last: all larger ones */

/* A policy's figures: exact while no lane is in the heap; nearly so with a STEADY policy while
 * lanes are. */
struct gm_heap_stats {
	uint64_t granules;	  /* not free, and granted */
	uint64_t live_bytes;	  /* in use, rounded up as the policy does */
	uint64_t queue_chunks;	  /* Ouroboros: chunks that hold queues now, ... */
	uint64_t queue_recycled;  /* times that one was drained and reused, ... */
	uint64_t chunks_recycled; /* and that a chunk of pages was, for any use */
	uint64_t live[GM_SIZES];  /* granule: allocations of each class, and runs */
	uint32_t end;		  /* in: granules from here on were never granted; 0: capacity */
	uint32_t pad;
};

#endif
