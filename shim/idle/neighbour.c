/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/idle/neighbour.h"

#include "knob/knob.h"
#include "log/count.h"
#include "shim/call.h"
#include "shim/memory/device.h"
#include "shim/memory/overhead.h"

/* Differences of this part of the device count as nothing, within these bounds. A context of
 * another process takes some 520 MiB of an H100 before it allocates; modules that this process
 * loads later look like one. */
#define SLACK_PART 128
#define SLACK_LEAST (UINT64_C(16) << 20)
#define SLACK_MOST (UINT64_C(384) << 20)

static struct neighbour {
	_Atomic uint64_t before; /* bytes of others at the first context, plus 1; 0: unknown */
	bool more;		 /* the last look saw more; the trim thread's */
} neighbours[GM_COUNTER_DEVICES];

bool gm_neighbour_matters(void)
{
	uint64_t after = gm_knob_get()->trim_after.trim.after;
	return after > GM_NEIGHBOUR_AFTER && after != UINT64_MAX &&
	       gm_knob_origin(GM_KNOB_ID_trim_after).source == GM_KNOB_DEFAULT;
}

/* False: unknown. Memory that is being mapped meanwhile may count as that of others: hence two
 * looks. */
static bool others_measure(unsigned ordinal, uint64_t *bytes)
{
	CUresult ignored;
	uint64_t available, before = gm_overhead_accounted(ordinal);
	const struct gm_context *current = gm_context_current(&gm_shim_driver, &ignored);
	if (!gm_overhead_read(ordinal, current, &available))
		return false;
	uint64_t after = gm_overhead_accounted(ordinal), ours = before > after ? before : after;
	const uint64_t total = gm_shim_devices[ordinal].total, free = available + ours;
	*bytes = total > free ? total - free : 0;
	return true;
}

void gm_neighbour_begin(unsigned ordinal)
{
	uint64_t bytes;
	if (gm_neighbour_matters() && others_measure(ordinal, &bytes))
		atomic_store(&neighbours[ordinal].before, bytes + 1);
}

static uint64_t neighbour_slack(uint64_t total)
{
	uint64_t part = total / SLACK_PART;
	if (part > SLACK_MOST)
		return SLACK_MOST;
	return part < SLACK_LEAST ? SLACK_LEAST : part;
}

bool gm_neighbour_came(unsigned ordinal)
{
	struct neighbour *n = &neighbours[ordinal];
	uint64_t bytes = 0, slack = neighbour_slack(gm_shim_devices[ordinal].total);
	bool more = n->more;
	if (!others_measure(ordinal, &bytes))
		return false;
	if (!atomic_load(&n->before))
		atomic_store(&n->before, bytes + 1);
	n->more = bytes >= atomic_load(&n->before) + slack;
	return more && n->more;
}

void gm_neighbour_forget(void)
{
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++) {
		atomic_store(&neighbours[i].before, 0);
		neighbours[i].more = false;
	}
}
