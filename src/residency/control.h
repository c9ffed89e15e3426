/* SPDX-License-Identifier: BSD-3-Clause */
/* What `gpumemstat sleep` and `wake` and the preload say to each other, through src/node. */
#ifndef GM_RESIDENCY_CONTROL_H
#define GM_RESIDENCY_CONTROL_H

#include <stdint.h>

#define GM_CONTROL_NAME 128

/* The answer to SLEEP, WAKE, GIVE and RESIDENCY, without padding: it travels as it is. */
struct gm_control {
	uint32_t asleep;    /* enum gm_door_state */
	uint32_t refusal;   /* enum gm_refusal: of the last request that was done */
	uint64_t done;	    /* requests done so far */
	uint64_t asked;	    /* requests made so far, this one included */
	uint64_t moved, ns; /* bytes of the last move of all, and its time */
	uint64_t given;	    /* idle bytes that went to the driver as others asked, so far */
	uint64_t mapped;    /* by all pools */
	uint64_t away;	    /* of these, in host memory */
	uint64_t pinned;    /* what does not move: chunks that others know, */
	uint64_t lent;	    /* device heaps of kernels, */
	uint64_t driver;    /* cuMemAlloc that the driver served, */
	uint64_t async;	    /* cuMemAllocAsync and its pools, */
	uint64_t created;   /* cuMemCreate of the program, */
	uint64_t array;	    /* arrays, */
	uint64_t managed;   /* cuMemAllocManaged */
	char refused_for[GM_CONTROL_NAME]; /* library, device, kernel or table; "": none */
};

#endif
