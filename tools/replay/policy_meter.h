/* SPDX-License-Identifier: BSD-3-Clause */
/* A null driver that counts and times the calls that take or release memory. Single-threaded. */
#ifndef GM_TOOLS_REPLAY_POLICY_METER_H
#define GM_TOOLS_REPLAY_POLICY_METER_H

#include <stdint.h>

#include "driver/driver.h"

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
	uint64_t calls[GM_METER_COUNT]; /* failed calls included */
	uint64_t peak;			/* most bytes taken at a time */
	uint64_t ns;			/* time spent in these calls */
};

/* At most one meter is open. Opening resets the counts; closing frees the driver's tables. */
void gm_meter_open(struct gm_driver *driver, uint64_t memory);
void gm_meter_read(struct gm_meter *out);
void gm_meter_close(void);

#endif
