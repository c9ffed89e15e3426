/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any user can bind names like those of our nodes. Such a name costs one connection that does not
 * wait, and takes no place among the processes asked. One time bounds all steps together.
 */
#include "shim/idle/demand.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex_lock.h"
#include "base/sys.h"
#include "log/count.h"
#include "residency/control.h"
#include "rpc/rpc.h"
#include "shim/memory/device.h"

#define MOST 64	     /* processes that are asked at once, and most that are left out */
#define NAP 1000000u /* ns between two polls for replies */

struct other {
	struct gm_rpc_link link;
	uint64_t nonce;
	enum gm_rpc_kind awaited; /* kind of the next reply */
	struct gm_given first;	  /* reply to GM_RPC_GIVE */
	uint64_t given;		  /* bytes returned since, by the last reply */
};
struct others {
	unsigned ordinal; /* of the device */
	uint64_t end;	  /* of the call */
	unsigned asked;	  /* requests */
	uint64_t given;	  /* bytes that processes returned in time */
	unsigned n;
	struct other of[MOST]; /* whose replies are awaited */
};

static _Atomic uint64_t total;

/* --- processes that did not answer --- */

static struct gm_futex_lock overdue_lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE};
static struct overdue {
	uint64_t nonce, until;
} overdues[MOST]; /* under the lock */

bool gm_demand_is_overdue(uint64_t nonce, uint64_t now)
{
	bool is = false;
	gm_futex_lock_take(&overdue_lock);
	for (unsigned i = 0; i < MOST && !is; i++)
		is = overdues[i].nonce == nonce && now < overdues[i].until;
	gm_futex_lock_release(&overdue_lock);
	return is;
}

/* Takes the place of the one that is asked again first. */
void gm_demand_add_overdue(uint64_t nonce, uint64_t now)
{
	struct overdue *overdue = &overdues[0];
	gm_futex_lock_take(&overdue_lock);
	for (unsigned i = 1; i < MOST; i++)
		if (overdues[i].until < overdue->until)
			overdue = &overdues[i];
	*overdue = (struct overdue){nonce, now + GM_DEMAND_PAUSE};
	gm_futex_lock_release(&overdue_lock);
}

/* --- requests --- */

static bool request_send(struct other *other, enum gm_rpc_kind kind)
{
	const struct gm_rpc_message request = {.size = 0};
	other->awaited = kind;
	return gm_rpc_send(&other->link, kind, &request) == GM_RPC_OK;
}

/* --- replies --- */

/* Read the reply, if it has arrived. False: the process has not returned all its memory yet. */
static bool other_is_done(struct other *other)
{
	struct gm_rpc_message reply;
	struct gm_given now;
	enum gm_rpc_result result = gm_rpc_receive(&other->link, other->awaited, &reply);
	if (result != GM_RPC_OK)
		return result != GM_RPC_SILENT;
	bool good = reply.size == sizeof now;
	if (good)
		memcpy(&now, reply.data, sizeof now);
	gm_rpc_close_all(&reply);
	if (!good)
		return true;
	if (other->awaited == GM_RPC_GIVE)
		other->first = now;
	other->given = now.given - other->first.given;
	return now.done >= other->first.asked || !request_send(other, GM_RPC_GIVEN);
}

static void other_drop(struct others *others, unsigned i)
{
	others->given += others->of[i].given;
	gm_rpc_disconnect(&others->of[i].link);
	others->of[i] = others->of[--others->n];
}

/* Read replies until at most `most` are awaited, or the time is over. */
static void others_await(struct others *others, unsigned most)
{
	for (;;) {
		for (unsigned i = others->n; i-- > 0;)
			if (other_is_done(&others->of[i]))
				other_drop(others, i);
		if (others->n <= most || gm_clock_ns() >= others->end)
			return;
		gm_sys_nap(NAP);
	}
}

static bool others_have_place(struct others *others)
{
	if (others->n == MOST)
		others_await(others, MOST - 1);
	return others->n < MOST;
}

/* Called for each name in turn. MOST processes are asked before a reply is read, so that they work
 * at the same time. A process of ours whose queue of connections is full is skipped: it answers
 * nobody. */
static void other_ask(void *arg, const struct gm_rpc_address *address)
{
	struct others *others = arg;
	uint64_t now = gm_clock_ns();
	if (now >= others->end || gm_demand_is_overdue(address->nonce, now) ||
	    !others_have_place(others))
		return;
	struct other *other = &others->of[others->n];
	if (gm_rpc_connect(address, 0, &other->link) != GM_RPC_OK)
		return;
	other->nonce = address->nonce;
	other->given = 0;
	if (!request_send(other, GM_RPC_GIVE)) {
		gm_rpc_disconnect(&other->link);
		return;
	}
	others->n++;
	others->asked++;
}

/* The time is over: leave out those that did not answer. */
static void others_leave_out(struct others *others)
{
	for (; others->n; other_drop(others, 0)) {
		if (others->of[0].awaited != GM_RPC_GIVE) /* it is returning its memory */
			continue;
		gm_counter_add(others->ordinal, GM_C_others_overdue, 1);
		gm_demand_add_overdue(others->of[0].nonce, gm_clock_ns());
	}
}

uint64_t gm_demand_reclaim(unsigned ordinal)
{
	struct others *others = calloc(1, sizeof *others);
	if (!others)
		return 0;
	others->ordinal = ordinal;
	others->end = gm_clock_ns() + GM_DEMAND_PATIENCE;
	gm_rpc_each(gm_shim_devices[ordinal].uuid, other_ask, others);
	others_await(others, 0);
	others_leave_out(others);
	uint64_t given = others->given;
	gm_counter_add(ordinal, GM_C_others_asked, others->asked);
	gm_counter_add(ordinal, GM_C_others_bytes, given);
	free(others);
	atomic_fetch_add(&total, given);
	return given;
}

uint64_t gm_demand_total(void)
{
	return atomic_load(&total);
}

void gm_demand_forget(void)
{
	gm_futex_lock_init(&overdue_lock, GM_LOCK_RANK_TABLE);
	memset(overdues, 0, sizeof overdues);
}
