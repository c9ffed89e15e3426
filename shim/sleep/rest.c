/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/rest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex_lock.h"
#include "log/count.h"
#include "residency/control.h"
#include "residency/door.h"
#include "rpc/rpc.h"
#include "shim/call.h"
#include "shim/context/capture.h"
#include "shim/ipc/ipc.h"
#include "shim/memory/device.h"
#include "shim/sleep/moves.h"
#include "shim/sleep/refusal.h"

#define DECLINE UINT64_C(1000000000) /* ns that a refusal stands */
#define OBEY UINT64_C(2000000000)    /* ns until an order that nothing came of is forgotten */

static int (*begin_sleep)(void);
static atomic_bool shares;

static struct gm_futex_lock lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE};
static struct { /* under the lock */
	uint64_t passages,
		since;	   /* of the door, and the time of their last change, as far as seen */
	uint64_t stays;	   /* until this time the process stays awake */
	uint64_t declines; /* until this time: by `refusal` */
	enum gm_refusal refusal;
	uint64_t ordered; /* until this time: to sleep, but not obeyed yet */
	struct gm_rest_wait *waits;
} rest;

/* --- the state --- */

/* ns since the last submission, as far as seen. Under the lock. */
static uint64_t idle_for(uint64_t now)
{
	uint64_t passages = gm_door_passages();
	if (passages != rest.passages || !rest.since) {
		rest.passages = passages;
		rest.since = now;
	}
	return now > rest.since ? now - rest.since : 0;
}

static bool process_shares(uint64_t pinned)
{
	return pinned || atomic_load(&shares) ||
	       atomic_load_explicit(&gm_ipc_open, memory_order_relaxed);
}

/* Under the lock. `away`: bytes of this device. */
static struct gm_rest_waits waits_find(unsigned ordinal, uint64_t away)
{
	struct gm_rest_waits found = {.bytes = away};
	bool known = true;
	for (struct gm_rest_wait *w = rest.waits; w; w = w->next) {
		bool wakes = w->ordinal == GM_REST_ANY;
		if (wakes ? !away : w->ordinal != (int)ordinal)
			continue;
		found.since = found.since && found.since < w->since ? found.since : w->since;
		found.bytes += w->bytes;
		known &= wakes || w->bytes;
	}
	if (!found.since || !known)
		found.bytes = 0;
	return found;
}

/* Under the lock; the members before `state` are set. A process that waits for a wake has its door
 * shut; it sleeps as long as nothing of it is on the device. */
static enum gm_turn_state state_of(const struct gm_turn_reply *r, uint64_t pinned, uint64_t now)
{
	enum gm_door_state door = gm_door_state();
	if (door == GM_DOOR_ASLEEP || !r->bytes)
		return GM_TURN_ASLEEP;
	if (door == GM_DOOR_SHUT || now < rest.ordered)
		return GM_TURN_MOVES;
	if (process_shares(pinned) || now < rest.declines)
		return GM_TURN_NEVER;
	return r->stay || r->idle < GM_REST_IDLE ? GM_TURN_BUSY : GM_TURN_IDLE;
}

static void reply_fill(struct gm_turn_reply *r, unsigned ordinal)
{
	const struct gm_moves_bytes here = gm_moves_bytes(ordinal);
	uint64_t pinned = 0, now = gm_clock_ns();
	struct gm_rest_waits waits;
	r->bytes = here.moves;
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		pinned += gm_moves_bytes(i).stays;
	gm_futex_lock_take(&lock);
	r->idle = idle_for(now);
	r->stay = rest.stays > now ? rest.stays - now : 0;
	waits = waits_find(ordinal, here.away);
	r->waits = waits.since;
	r->lacks = waits.bytes;
	r->state = state_of(r, pinned, now);
	if (r->state == GM_TURN_NEVER)
		r->refusal = process_shares(pinned) ? GM_REFUSAL_SHARED : rest.refusal;
	gm_futex_lock_release(&lock);
}

/* --- the thread gpumem-node --- */

static void order_set(bool ordered)
{
	gm_futex_lock_take(&lock);
	rest.ordered = ordered ? gm_clock_ns() + OBEY : 0;
	gm_futex_lock_release(&lock);
}

static void decline(enum gm_refusal refusal)
{
	gm_futex_lock_take(&lock);
	rest.refusal = refusal;
	rest.declines = gm_clock_ns() + DECLINE;
	gm_futex_lock_release(&lock);
}

static void order_obey(struct gm_turn_reply *r)
{
	order_set(true);
	r->state = GM_TURN_MOVES;
	if (begin_sleep() == 0)
		return;
	decline(GM_REFUSAL_THREAD);
	order_set(false);
	r->state = GM_TURN_NEVER;
	r->refusal = GM_REFUSAL_THREAD;
}

static enum gm_rpc_result turn_answer(enum gm_rpc_kind kind, const void *bytes, size_t size,
				      struct gm_rpc_message *reply)
{
	(void)kind;
	struct gm_turn_request q;
	struct gm_turn_reply r = {0};
	unsigned ordinal = 0;
	if (size != sizeof q || !gm_shim_active())
		return GM_RPC_REFUSED;
	memcpy(&q, bytes, sizeof q);
	while (ordinal < gm_shim_n_devices &&
	       memcmp(q.gpu, gm_shim_devices[ordinal].uuid, sizeof q.gpu) != 0)
		ordinal++;
	if (ordinal == gm_shim_n_devices)
		return GM_RPC_REFUSED;
	reply_fill(&r, ordinal);
	if (q.sleep && r.state == GM_TURN_IDLE)
		order_obey(&r);
	memcpy(reply->data, &r, sizeof r);
	reply->size = sizeof r;
	return GM_RPC_OK;
}

/* --- the thread gpumem-sleep --- */

static bool contexts_are_idle(void)
{
	for (struct gm_context *c = gm_context_newest(); c; c = c->next)
		if (!atomic_load(&c->gone) && !gm_fence_is_idle(&gm_shim_driver, c->key))
			return false;
	return true;
}

bool gm_rest_is(void)
{
	return !gm_capture_any() && contexts_are_idle();
}

static void busy_set(void)
{
	gm_futex_lock_take(&lock);
	rest.since = gm_clock_ns();
	gm_futex_lock_release(&lock);
}

static bool stayed(uint64_t now)
{
	gm_futex_lock_take(&lock);
	bool is = now >= rest.stays && idle_for(now) >= GM_REST_IDLE;
	gm_futex_lock_release(&lock);
	return is;
}

bool gm_rest_may_sleep(void)
{
	char name[GM_CONTROL_NAME];
	uint64_t now = gm_clock_ns();
	enum gm_refusal refusal = gm_refusal_find(false, name, sizeof name);
	bool may = refusal == GM_REFUSAL_NONE;
	if (!may)
		decline(refusal);
	may = may && stayed(now) && gm_door_await(now) && gm_rest_is();
	if (!may) {
		busy_set();
		order_set(false);
	}
	return may;
}

/* Work that came meanwhile is no reason to be asked later; nor is a sleep by an order. */
void gm_rest_slept(enum gm_refusal refusal)
{
	static const bool passes[GM_REFUSALS] = {
		[GM_REFUSAL_CAPTURE] = true,
		[GM_REFUSAL_BUSY] = true,
		[GM_REFUSAL_SUBMISSION] = true,
		[GM_REFUSAL_AWAY] = true,
	};
	if (refusal == GM_REFUSAL_NONE)
		gm_counter_add(0, GM_C_turns_slept, 1);
	else if (!passes[refusal])
		decline(refusal);
	busy_set();
	order_set(false);
}

void gm_rest_woke(uint64_t ns)
{
	uint64_t now = gm_clock_ns();
	gm_futex_lock_take(&lock);
	rest.stays = now + GM_REST_STAY * ns;
	rest.since = now;
	gm_futex_lock_release(&lock);
}

void gm_rest_share(void)
{
	atomic_store_explicit(&shares, true, memory_order_relaxed);
}

/* --- waits --- */

void gm_rest_wait_begin(struct gm_rest_wait *wait)
{
	gm_futex_lock_take(&lock);
	wait->next = rest.waits;
	rest.waits = wait;
	gm_futex_lock_release(&lock);
}

void gm_rest_wait_end(struct gm_rest_wait *wait)
{
	gm_futex_lock_take(&lock);
	struct gm_rest_wait **at = &rest.waits;
	while (*at && *at != wait)
		at = &(*at)->next;
	if (*at)
		*at = wait->next;
	rest.since = gm_clock_ns();
	gm_futex_lock_release(&lock);
}

struct gm_rest_waits gm_rest_waits(unsigned ordinal)
{
	uint64_t away = gm_moves_bytes(ordinal).away;
	gm_futex_lock_take(&lock);
	struct gm_rest_waits waits = waits_find(ordinal, away);
	gm_futex_lock_release(&lock);
	return waits;
}

/* --- the life --- */

void gm_rest_start(int (*sleep)(void))
{
	begin_sleep = sleep;
	gm_rpc_serve(GM_RPC_TURN, turn_answer);
}

void gm_rest_forget(void)
{
	gm_futex_lock_init(&lock, GM_LOCK_RANK_TABLE);
	memset(&rest, 0, sizeof rest);
	atomic_store(&shares, false);
}
