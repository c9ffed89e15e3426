/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any user can bind names like those of our nodes. Such a name costs one connection that does not
 * wait, and takes no place among the processes asked. One time bounds all steps together.
 */
#include "shim/others.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex_lock.h"
#include "base/sys.h"
#include "log/count.h"
#include "node/node.h"
#include "residency/control.h"
#include "shim/device.h"

#define MOST 64	     /* most processes asked at once, and most that are left out */
#define NAP 1000000u /* ns between two polls for replies */

struct other {
	struct gm_node_link link;
	uint64_t nonce;
	enum gm_node_kind awaited; /* kind of the next reply */
	struct gm_given first;	   /* reply to GM_NODE_GIVE */
	uint64_t given;		   /* bytes returned since, by the last reply */
};
struct others {
	unsigned ordinal; /* of the device */
	uint64_t end;	  /* of the call */
	unsigned n;
	struct other of[MOST];
};

static _Atomic uint64_t total;

/* --- processes that did not answer --- */

static struct gm_futex_lock overdue_lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE};
static struct overdue {
	uint64_t nonce, until;
} overdues[MOST]; /* under the lock */

static bool overdue_is(uint64_t nonce, uint64_t now)
{
	bool is = false;
	gm_futex_lock_take(&overdue_lock);
	for (unsigned i = 0; i < MOST && !is; i++)
		is = overdues[i].nonce == nonce && now < overdues[i].until;
	gm_futex_lock_release(&overdue_lock);
	return is;
}

/* Takes the place of the one that is asked again first. */
static void overdue_add(uint64_t nonce, uint64_t now)
{
	struct overdue *overdue = &overdues[0];
	gm_futex_lock_take(&overdue_lock);
	for (unsigned i = 1; i < MOST; i++)
		if (overdues[i].until < overdue->until)
			overdue = &overdues[i];
	*overdue = (struct overdue){nonce, now + GM_OTHERS_PAUSE};
	gm_futex_lock_release(&overdue_lock);
}

/* --- requests --- */

static bool request_send(struct other *other, enum gm_node_kind kind)
{
	const struct gm_node_message request = {.size = 0};
	other->awaited = kind;
	return gm_node_send(&other->link, kind, &request) == GM_NODE_OK;
}

/* Called for each name in turn. All processes are asked before the first reply is read, so that
 * they work at the same time. A process of ours whose queue of connections is full is skipped: it
 * answers nobody. */
static void other_ask(void *arg, const struct gm_node_address *address)
{
	struct others *others = arg;
	struct other *other = &others->of[others->n];
	uint64_t now = gm_clock_ns();
	if (others->n == MOST || now >= others->end || overdue_is(address->nonce, now) ||
	    gm_node_connect(address, 0, &other->link) != GM_NODE_OK)
		return;
	other->nonce = address->nonce;
	other->given = 0;
	if (request_send(other, GM_NODE_GIVE))
		others->n++;
	else
		gm_node_disconnect(&other->link);
}

/* --- replies --- */

/* Read the reply, if it has arrived. False: the process has not returned all its memory yet. */
static bool other_is_done(struct other *other)
{
	struct gm_node_message reply;
	struct gm_given now;
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
	other->given = now.given - other->first.given;
	return now.done >= other->first.asked || !request_send(other, GM_NODE_GIVEN);
}

/* Returns the bytes that the process has returned. */
static uint64_t other_drop(struct others *others, unsigned i)
{
	uint64_t given = others->of[i].given;
	gm_node_disconnect(&others->of[i].link);
	others->of[i] = others->of[--others->n];
	return given;
}

/* Bytes that processes returned in time. One that does not reply delays no other. */
static uint64_t others_await(struct others *others)
{
	uint64_t given = 0;
	while (others->n) {
		for (unsigned i = others->n; i-- > 0;)
			if (other_is_done(&others->of[i]))
				given += other_drop(others, i);
		if (!others->n || gm_clock_ns() >= others->end)
			break;
		gm_sys_nap(NAP);
	}
	for (; others->n; given += other_drop(others, 0)) {
		if (others->of[0].awaited != GM_NODE_GIVE) /* it is returning its memory */
			continue;
		gm_counter_add(others->ordinal, GM_C_others_overdue, 1);
		overdue_add(others->of[0].nonce, gm_clock_ns());
	}
	return given;
}

uint64_t gm_others_reclaim(unsigned ordinal)
{
	struct others *others = calloc(1, sizeof *others);
	if (!others)
		return 0;
	others->ordinal = ordinal;
	others->end = gm_clock_ns() + GM_OTHERS_PATIENCE;
	gm_node_each(gm_shim_devices[ordinal].uuid, other_ask, others);
	gm_counter_add(ordinal, GM_C_others_asked, others->n);
	uint64_t given = others_await(others);
	gm_counter_add(ordinal, GM_C_others_bytes, given);
	free(others);
	atomic_fetch_add(&total, given);
	return given;
}

uint64_t gm_others_given(void)
{
	return atomic_load(&total);
}

void gm_others_forget(void)
{
	gm_futex_lock_init(&overdue_lock, GM_LOCK_RANK_TABLE);
	memset(overdues, 0, sizeof overdues);
}
