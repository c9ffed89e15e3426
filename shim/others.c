/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/others.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "node/node.h"
#include "residency/control.h"
#include "residency/door.h"
#include "shim/device.h"

#define MOST 64	     /* processes that are asked */
#define NAP 1000000u /* ns between two questions */

struct others {
	unsigned n;
	struct gm_node_address address[MOST];
	struct gm_node_link link[MOST];
	struct gm_control control[MOST];
};

static _Atomic uint64_t total;

static void address_add(void *arg, const struct gm_node_address *address)
{
	struct others *others = arg;
	if (others->n < MOST)
		others->address[others->n++] = *address;
}

static bool control_ask(const struct gm_node_link *link, enum gm_node_kind kind,
			struct gm_control *control)
{
	struct gm_node_message reply;
	if (gm_node_ask(link, kind, "", 0, &reply) != GM_NODE_OK)
		return false;
	bool good = reply.size == sizeof *control;
	if (good)
		memcpy(control, reply.data, sizeof *control);
	gm_node_close_all(&reply);
	return good;
}

/* All begin at once; those that do not answer are forgotten. */
static void others_ask(struct others *others)
{
	unsigned asked = 0;
	for (unsigned i = 0; i < others->n; i++) {
		struct gm_node_link *link = &others->link[asked];
		if (gm_node_connect(&others->address[i], GM_OTHERS_PATIENCE, link) != GM_NODE_OK)
			continue;
		if (control_ask(link, GM_NODE_GIVE, &others->control[asked]))
			asked++;
		else
			gm_node_disconnect(link);
	}
	others->n = asked;
}

static uint64_t other_await(const struct gm_node_link *link, const struct gm_control *first,
			    uint64_t end)
{
	struct gm_control now = *first;
	while (now.done < first->asked) {
		if (gm_clock_ns() >= end)
			return 0;
		gm_sys_nap(NAP);
		if (!control_ask(link, GM_NODE_RESIDENCY, &now))
			return 0;
	}
	return now.given - first->given;
}

uint64_t gm_others_reclaim(unsigned ordinal)
{
	uint64_t given = 0, end = gm_clock_ns() + GM_OTHERS_PATIENCE;
	if (!atomic_load_explicit(&gm_door_used, memory_order_relaxed))
		return 0;
	struct others *others = calloc(1, sizeof *others);
	if (!others)
		return 0;
	gm_node_each(gm_shim_devices[ordinal].uuid, address_add, others);
	others_ask(others);
	for (unsigned i = 0; i < others->n; i++) {
		given += other_await(&others->link[i], &others->control[i], end);
		gm_node_disconnect(&others->link[i]);
	}
	free(others);
	atomic_fetch_add(&total, given);
	return given;
}

uint64_t gm_others_given(void)
{
	return atomic_load(&total);
}
