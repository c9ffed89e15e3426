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

#define MOST 64	     /* most processes asked */
#define NAP 1000000u /* ns between two polls for replies */

struct other {
	struct gm_node_link link;
	enum gm_node_kind awaited; /* kind of the next reply */
	struct gm_control first;   /* reply to GM_NODE_GIVE */
};
struct others {
	unsigned n_addresses, n;
	struct gm_node_address address[MOST];
	struct other of[MOST];
};

static _Atomic uint64_t total;

static void address_add(void *arg, const struct gm_node_address *address)
{
	struct others *others = arg;
	if (others->n_addresses < MOST)
		others->address[others->n_addresses++] = *address;
}

static bool request_send(struct other *other, enum gm_node_kind kind)
{
	const struct gm_node_message request = {.size = 0};
	other->awaited = kind;
	return gm_node_send(&other->link, kind, &request) == GM_NODE_OK;
}

/* Ask all processes before the first reply is read, so that they work at the same time. */
static void others_ask(struct others *others, uint64_t end)
{
	for (unsigned i = 0; i < others->n_addresses; i++) {
		struct other *other = &others->of[others->n];
		uint64_t now = gm_clock_ns();
		if (now >= end)
			return;
		if (gm_node_connect(&others->address[i], end - now, &other->link) != GM_NODE_OK)
			continue;
		other->link.patience = 0;
		if (request_send(other, GM_NODE_GIVE))
			others->n++;
		else
			gm_node_disconnect(&other->link);
	}
}

/* Read the reply, if it has arrived. False: the process has not returned its memory yet. */
static bool other_is_done(struct other *other, uint64_t *given)
{
	struct gm_node_message reply;
	struct gm_control now;
	enum gm_node_result result = gm_node_receive(&other->link, other->awaited, &reply);
	if (result != GM_NODE_OK)
		return result != GM_NODE_SILENT;
	bool good = reply.size == sizeof now;
	if (good)
		memcpy(&now, reply.data, sizeof now);
	gm_node_close_all(&reply);
	if (!good)
		return true;
	if (other->awaited == GM_NODE_GIVE)
		other->first = now;
	if (now.done < other->first.asked)
		return !request_send(other, GM_NODE_RESIDENCY);
	*given += now.given - other->first.given;
	return true;
}

static void other_drop(struct others *others, unsigned i)
{
	gm_node_disconnect(&others->of[i].link);
	others->of[i] = others->of[--others->n];
}

/* Bytes that processes returned until `end`. One that does not reply delays no other. */
static uint64_t others_await(struct others *others, uint64_t end)
{
	uint64_t given = 0;
	while (others->n) {
		for (unsigned i = others->n; i-- > 0;)
			if (other_is_done(&others->of[i], &given))
				other_drop(others, i);
		if (!others->n || gm_clock_ns() >= end)
			break;
		gm_sys_nap(NAP);
	}
	while (others->n)
		other_drop(others, 0);
	return given;
}

uint64_t gm_others_reclaim(unsigned ordinal)
{
	const uint64_t end = gm_clock_ns() + GM_OTHERS_PATIENCE;
	if (!atomic_load_explicit(&gm_door_used, memory_order_relaxed))
		return 0;
	struct others *others = calloc(1, sizeof *others);
	if (!others)
		return 0;
	gm_node_each(gm_shim_devices[ordinal].uuid, address_add, others);
	others_ask(others, end);
	uint64_t given = others_await(others, end);
	free(others);
	atomic_fetch_add(&total, given);
	return given;
}

uint64_t gm_others_given(void)
{
	return atomic_load(&total);
}
