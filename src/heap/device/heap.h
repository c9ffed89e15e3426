/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap that kernels allocate from, as the device sees it.
 *
 *   granule   2 MiB of the heap's reserved addresses, mapped or not; granule g is at base + g * 2 MiB
 *   free      granule that is mapped and belongs to nobody: its bit in `free` is set
 *   grant     a run of granules that the host has mapped; it comes through the mailbox
 *   policy    what makes granules into allocations: one file each, chosen when the heap is made
 *
 * All of this is one block of device memory, zero but for the constants that the host writes; the
 * policy's own part lies behind it.
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
 * in granules, counted from the heap's creation and never falling.
 */
struct gm_mailbox {
	struct {
		uint64_t value;
		char pad[GM_LINE - sizeof(uint64_t)];
	} want,		   /* device: granules that are needed in all */
		have,	   /* host: grants made; grant i is in grant[i % GM_GRANTS] */
		taken,	   /* device: grants whose granules are in `free` */
		refused,   /* host: the least want that it cannot meet now; 0: none */
		beat;	   /* host: changes at least every 100 ms while `want` is not met */
	uint64_t grant[GM_GRANTS]; /* first granule << 32 | granules */
};

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
	char pad1[GM_LINE - 8];

	/* changing */
	uint64_t available; /* free granules, as a guide: bits change before it does */
	char pad2[GM_LINE - 8];
	uint64_t granted;    /* granules that came so far */
	uint64_t grants;     /* in how many grants */
	uint64_t refused;    /* mailbox's, when last looked at */
	uint64_t refused_at; /* and when that was, by gm_nanoseconds */
	uint32_t growing;    /* 1: one lane talks to the host */
	uint32_t epoch;	     /* counts granules that came back or in */
	char pad3[GM_LINE - 40];
	uint64_t foreign_frees; /* of addresses outside the heap, or where nothing is allocated */
	uint64_t refusals;	/* allocations that got NULL */
	char pad4[GM_LINE - 16];
};

#endif
