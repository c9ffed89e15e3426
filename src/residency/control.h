/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between preloaded processes, and of `gpumemstat sleep` and `wake`, through src/rpc. */
#ifndef GM_RESIDENCY_CONTROL_H
#define GM_RESIDENCY_CONTROL_H

#include <stdint.h>

#define GM_CONTROL_NAME 128

/* The state of a process whose door is shut for a HOLD, beside those of enum gm_door_state. */
#define GM_CONTROL_HELD 3u

/* The requests HOLD and STEP (shim/sleep/orders.h). */
struct gm_hold_request {
	uint64_t ns; /* HOLD: that the process has to shut its door; STEP: that it stays open */
};

/* The reply to SLEEP, WAKE, RESIDENCY, HOLD, STEP, GO and LET, without padding: it is sent
 * unchanged. */
struct gm_control {
	uint32_t state;	    /* enum gm_door_state, or GM_CONTROL_HELD */
	uint32_t refusal;   /* enum gm_refusal: of the last completed request */
	uint64_t done;	    /* total of completed requests */
	uint64_t asked;	    /* total of requests, this one included */
	uint64_t moved, ns; /* bytes of the last sleep or wake, and its time */
	uint64_t given;	    /* total idle bytes returned to the driver at others' request */
	uint64_t mapped;    /* bytes mapped by all pools, lent ones included; and away ones of
			       cuMemCreate */
	uint64_t away;	    /* part of mapped: off the device, in host memory or a file */
	uint64_t filed;	    /* part of away: in a file */
	uint64_t lent;	    /* part of mapped: lent to device heaps of kernels */
	uint64_t pinned;    /* bytes that do not move: pinned chunks; and the following: */
	uint64_t driver;    /* cuMemAlloc served by the driver */
	uint64_t async;	    /* cuMemAllocAsync and its pools */
	uint64_t created;   /* cuMemCreate of the program, on a device */
	uint64_t array;	    /* arrays */
	uint64_t managed;   /* cuMemAllocManaged, unless sent to the host */
	uint64_t graph;	    /* memory nodes of graphs */
	uint64_t external;  /* imports from another interface */
	uint64_t questions; /* left on devices for questions about pointers */
	char refused_for[GM_CONTROL_NAME]; /* library, device, kernel, table or function; "": none
					    */
};

/* The reply to GIVE and GIVEN, likewise. */
struct gm_given {
	uint64_t done;	/* total of obeyed requests to give */
	uint64_t asked; /* total of such requests, this one included */
	uint64_t given; /* total bytes returned to the driver for them */
};

/* Turns (shim/sleep/turns.h). The request TURN: may the process that answers sleep for the one that
 * asks? `sleep`: 1, it shall do so now. */
struct gm_turn_request {
	unsigned char gpu[16]; /* UUID of the device that lacks memory */
	uint64_t sleep;
};

enum gm_turn_state {
	GM_TURN_ASLEEP, /* or it has nothing to give on this device */
	GM_TURN_MOVES,	/* it falls asleep or wakes */
	GM_TURN_BUSY,	/* it may be asked again */
	GM_TURN_IDLE,	/* it sleeps when asked to, if it is still idle then */
	GM_TURN_NEVER	/* for no other process, or not now: `refusal` */
};

struct gm_turn_reply {
	uint32_t state;	  /* enum gm_turn_state */
	uint32_t refusal; /* enum gm_refusal */
	uint64_t bytes;	  /* of the device that its sleep would return */
	uint64_t waits;	  /* ns of CLOCK_MONOTONIC since it waits itself; 0: it does not wait */
	uint64_t lacks;	  /* bytes of the device that it waits for; 0: unknown */
	uint64_t idle;	  /* ns since its last submission */
	uint64_t stay;	  /* ns until it may be put to sleep after its wake */
};

#endif
