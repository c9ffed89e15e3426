/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns: of processes with GPUMEM_SLEEP, an idle one sleeps when another lacks memory of a device.
 * There is no daemon and no common file: who lacks memory asks the nodes of the device (src/rpc),
 * again and again, and a process that ends in any way is in no answer any more.
 *
 *     A, awake and idle                      B lacks memory: a wake, or an allocation
 *     -----------------                      ----------------------------------------
 *                           <--- TURN        first a wake asks, so that it takes nothing that
 *     state, bytes, since when it waits ---> another waits for
 *                                            nobody waits longer: try; still a lack
 *     (shim/sleep/rest.h: may it?) <--- TURN       each 10 ms, of all processes
 *     idle                   --->            nobody fell asleep since the try: the idlest one
 *                            <--- TURN, order
 *     gpumem-sleep: fences, refusals; sleeps
 *     moves ... asleep       --->            try
 *
 * Who began to wait first goes first, then the smaller nonce. Another process that waits takes no
 * memory meanwhile and asks nobody to sleep, unless the free memory suffices for both: a wake sends
 * back what it has fetched so far.
 *
 * Two processes, both awake, that wait in allocations would keep each other's memory. So such a
 * thread stands outside the door while it waits: its process can be put to sleep for the older one.
 * Then it wakes the process when it is its turn, and tries again. A thread that cannot stand
 * outside (a launch that lacks memory, a call nested in another) waits only while nobody waits
 * longer; else it fails at once, as natively, and the older one goes on.
 *
 * A wait ends GM_TURNS_PATIENCE after its begin. The time in which others move memory, stay for the
 * minimum after a wake, or wait longer, is not counted; GM_TURNS_MOST in total. An allocation fails
 * at once if nobody may sleep, or if all together have too little. After one that waited in vain,
 * those of the next GM_TURNS_PAUSE wait GM_TURNS_BRIEF: a program that takes memory until a call
 * fails does not wait each time, and a process that is idle still shows it. Any thread, no lock
 * held.
 */
#ifndef GM_SHIM_SLEEP_TURNS_H
#define GM_SHIM_SLEEP_TURNS_H

#include "log/counters.h"
#include "shim/sleep/rest.h"

#define GM_TURNS_PATIENCE UINT64_C(10000000000) /* ns */
#define GM_TURNS_MOST (6 * GM_TURNS_PATIENCE)
#define GM_TURNS_BRIEF (2 * GM_REST_IDLE)
#define GM_TURNS_PAUSE UINT64_C(60000000000) /* ns */
#define GM_TURNS_EVERY UINT64_C(10000000)    /* ns between two rounds of requests */

/* What a round of requests found. */
struct gm_turns_found {
	uint64_t bytes; /* that others may return */
	unsigned seen;	/* changes if one of them falls asleep, ends or begins; 0: nobody */
	bool elder;    /* another process waits longer, for memory that does not suffice for both */
	bool suffices; /* the device's free memory does, for this wait */
	bool moves;    /* another falls asleep or wakes */
	bool stays;    /* another stays for the minimum */
	bool may;      /* some process may sleep, now or later */
};

struct gm_turn {
	struct gm_rest_wait wait;
	uint64_t end, most;    /* ns: time of the end; at the latest */
	uint64_t nonce;	       /* of this process */
	uint64_t round, tried; /* ns: time of the last round, and of the last try */
	uint64_t pause;	       /* ns between two tries although nothing has changed */
	struct gm_turns_found found;
	unsigned seen_then;		      /* `found.seen` at the last try */
	unsigned seen_on[GM_COUNTER_DEVICES]; /* of each device, in the last round */
	bool waited;
};

/* Memory of the device `ordinal`, or GM_REST_ANY, is lacking. `since`: 0, or since when this call
 * waits. False: this process takes no turns (GPUMEM_SLEEP), and *turn is unused. */
bool gm_turns_begin(struct gm_turn *turn, int ordinal, uint64_t bytes, uint64_t since);
void gm_turns_end(struct gm_turn *turn);

/* For a wake: asks, if a round is due. False: another process waits longer; take nothing. */
bool gm_turns_may_take(struct gm_turn *turn);
/* For a wake: others return their idle memory. Returns bytes. */
uint64_t gm_turns_reclaim(const struct gm_turn *turn);
static inline bool gm_turns_is_over(const struct gm_turn *turn, uint64_t now)
{
	return now >= turn->end;
}

/* For an allocation in the door (`stays`: it cannot leave the door) or outside: waits until a try
 * is worth it. False: it fails. In both cases the thread is inside the door if it was; after false
 * the door may be shut, and the caller uses no memory of the pools. */
bool gm_turns_await(struct gm_turn *turn, bool stays);

/* The same, once, for a call of the driver that is then retried. *since: 0 at its first time. */
bool gm_turns_retry(unsigned ordinal, uint64_t bytes, uint64_t *since);

#endif
