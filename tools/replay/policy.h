/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policies that serve requests for device memory: the pool, and others for comparison. Each is a
 * row of one table and a file policy_*.c. It takes memory only from the driver given to open.
 * Single-threaded. If host memory is short, the program ends with a message.
 */
#ifndef GM_TOOLS_REPLAY_POLICY_H
#define GM_TOOLS_REPLAY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

/* A block in the terms of its policy. */
struct gm_policy_place {
	uint64_t address; /* never 0 */
	void *of;	  /* the policy's own */
};

struct gm_policy {
	const char *name;
	bool limited; /* enforces GPUMEM_LIMIT itself; others get a device of that size */
	/* Open on a device of `memory` bytes. `limit`: most bytes to take from the driver;
	 * UINT64_MAX: no limit. */
	void *(*open)(const struct gm_driver *driver, uint64_t memory, uint64_t limit);
	/* Allocate `size` bytes, 1 to GM_POLICY_LARGEST, at time `now` (ns, never decreasing).
	 * False: refused. */
	bool (*alloc)(void *state, uint64_t size, uint64_t now, struct gm_policy_place *out);
	void (*free)(void *state, const struct gm_policy_place *place, uint64_t now);
	void (*close)(void *state); /* after all blocks were freed */
	const char *says;	    /* in a few words, shown below the results */
};

#define GM_POLICY_LARGEST ((uint64_t)1 << 60) /* can be rounded up without overflow */

enum { GM_POLICY_POOL, GM_POLICY_COUNT = 10 };
extern const struct gm_policy *const gm_policies[GM_POLICY_COUNT]; /* the pool first */

extern uint64_t gm_policy_lag; /* delay of the GPU behind the program, ns; 0: it is idle */

/* ns for which calls of the present policy have waited for the GPU; the caller sets it to 0. */
extern uint64_t gm_policy_waited;

/* "pool,pytorch" as a set: bit i for gm_policies[i]. False: no name, or an unknown one. */
bool gm_policy_parse(const char *text, unsigned *set);

/* Zeroed host memory; never NULL. */
void *gm_policy_make(size_t size);

#endif
