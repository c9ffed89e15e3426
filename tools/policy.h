/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways to serve requests for device memory: the pool itself, and others to compare it with. Each
 * is a row of one table and a file policy_*.c, and has memory from nowhere but the driver that it
 * is given. Single-threaded. Where host memory is short, the program ends with a message.
 */
#ifndef GM_TOOLS_POLICY_H
#define GM_TOOLS_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

/* One block as its policy knows it. */
struct gm_policy_place {
	uint64_t address; /* never 0 */
	void *of;	  /* the policy's own */
};

struct gm_policy {
	const char *name;
	bool limited; /* keeps to GPUMEM_LIMIT by itself; for others the device is made as small */
	/* On a device of `memory` bytes; `limit`: most that may be taken, UINT64_MAX none. */
	void *(*open)(const struct gm_driver *driver, uint64_t memory, uint64_t limit);
	/* `size` bytes, 1 to GM_POLICY_LARGEST, at time `now` (ns, never going back). False:
	 * refused. */
	bool (*alloc)(void *state, uint64_t size, uint64_t now, struct gm_policy_place *out);
	void (*free)(void *state, const struct gm_policy_place *place, uint64_t now);
	void (*close)(void *state); /* after all blocks were freed */
};

#define GM_POLICY_LARGEST ((uint64_t)1 << 60) /* of a request: rounding it up cannot overflow */

enum { GM_POLICY_POOL, GM_POLICY_COUNT = 5 };
extern const struct gm_policy *const gm_policies[GM_POLICY_COUNT]; /* the pool first */

/* "pool,pytorch" as a set: bit i for gm_policies[i]. False: it names none, or others. */
bool gm_policy_parse(const char *text, unsigned *set);

/* Zeroed host memory. */
void *gm_policy_make(size_t size);

/* The driver of a device that is only imagined, and what was asked of it. */
#define GM_METER_CALLS(CALL) \
	CALL(create)         \
	CALL(map)            \
	CALL(access)         \
	CALL(unmap)          \
	CALL(release)        \
	CALL(alloc)          \
	CALL(free)

enum gm_meter_call {
#define GM_METER_CALL(name) GM_METER_##name,
	GM_METER_CALLS(GM_METER_CALL)
#undef GM_METER_CALL
		GM_METER_COUNT
};

struct gm_meter {
	uint64_t calls[GM_METER_COUNT]; /* those that failed included */
	uint64_t peak;			/* most memory taken at a time */
	uint64_t ns;			/* time spent in these calls */
};

/* One at a time. Opening begins anew; closing frees the accounts. */
void gm_meter_open(struct gm_driver *driver, uint64_t memory);
void gm_meter_read(struct gm_meter *out);
void gm_meter_close(void);

#endif
