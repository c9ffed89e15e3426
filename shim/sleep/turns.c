/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/turns.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "base/thread.h"
#include "log/count.h"
#include "residency/control.h"
#include "residency/door.h"
#include "rpc/rpc.h"
#include "shim/call.h"
#include "shim/idle/demand.h"
#include "shim/memory/device.h"
#include "shim/memory/overhead.h"

#define MOST 64		     /* processes that are asked in a round */
#define PATIENCE 1000000000u /* ns for the replies of a round */
#define GLANCE 20000000u     /* the same for the first round of a wake, which may lack nothing */
#define NAP 1000000u	     /* ns between two looks at the door */
#define TRY_EVERY 100000000u /* ns between two tries although no process has changed */
#define UNKNOWN (UINT64_C(1) << 56) /* bytes, more than any device has */
#define SEEN 65536		    /* more than processes: a process, in gm_turns_found.seen */

/* --- a round --- */

struct peer {
	struct gm_rpc_link link;
	uint64_t nonce;
	struct gm_turn_reply reply;
};
struct round {
	const struct gm_turn *turn;
	unsigned ordinal, n;
	uint64_t since, end;   /* ns: since when this process waits; end of the round */
	bool glances;	       /* it is short, so a process without an answer is asked again */
	uint64_t lacks, needs; /* bytes of elders, and of this wait; 0: unknown */
	uint64_t available;    /* bytes of the device */
	bool known;	       /* `available` is */
	uint64_t own;	       /* idle bytes of this process's pool */
	struct peer of[MOST];
};

static bool peer_send(const struct round *round, struct peer *peer, bool sleep)
{
	struct gm_turn_request q = {.sleep = sleep};
	struct gm_rpc_message message = {.size = sizeof q};
	memcpy(q.gpu, gm_shim_devices[round->ordinal].uuid, sizeof q.gpu);
	memcpy(message.data, &q, sizeof q);
	return gm_rpc_send(&peer->link, GM_RPC_TURN, &message) == GM_RPC_OK;
}

/* Called for each node: all are asked before a reply is read, so that they work at the same time.
 */
static void peer_ask(void *arg, const struct gm_rpc_address *address)
{
	struct round *round = arg;
	uint64_t now = gm_clock_ns();
	if (round->n == MOST || now >= round->end || gm_demand_is_overdue(address->nonce, now))
		return;
	struct peer *peer = &round->of[round->n];
	if (gm_rpc_connect(address, 0, &peer->link) != GM_RPC_OK)
		return;
	peer->nonce = address->nonce;
	if (peer_send(round, peer, false))
		round->n++;
	else
		gm_rpc_disconnect(&peer->link);
}

/* False: a process without GPUMEM_SLEEP, or one that has ended, or gives no answer. */
static bool peer_receive(const struct round *round, struct peer *peer)
{
	struct gm_rpc_message reply;
	peer->link.end = round->end;
	enum gm_rpc_result result = gm_rpc_receive(&peer->link, GM_RPC_TURN, &reply);
	if (result == GM_RPC_SILENT && !round->glances)
		gm_demand_add_overdue(peer->nonce, gm_clock_ns());
	if (result != GM_RPC_OK)
		return false;
	bool good = reply.size == sizeof peer->reply;
	if (good)
		memcpy(&peer->reply, reply.data, sizeof peer->reply);
	gm_rpc_close_all(&reply);
	return good;
}

static void peer_drop(struct round *round, unsigned i)
{
	gm_rpc_disconnect(&round->of[i].link);
	round->of[i] = round->of[--round->n];
}

/* By the oldest wait of each process: another thread of this one may wait longer. */
static bool peer_is_elder(const struct round *round, const struct peer *peer)
{
	uint64_t theirs = peer->reply.waits, ours = round->since;
	return theirs && (theirs < ours || (theirs == ours && peer->nonce < round->turn->nonce));
}

static void found_add(struct gm_turns_found *found, struct round *round, const struct peer *peer)
{
	const struct gm_turn_reply *r = &peer->reply;
	bool elder = peer_is_elder(round, peer);
	bool may =
		r->state == GM_TURN_MOVES || r->state == GM_TURN_BUSY || r->state == GM_TURN_IDLE;
	found->elder |= elder;
	if (elder)
		round->lacks += r->lacks ? r->lacks : UNKNOWN;
	found->moves |= r->state == GM_TURN_MOVES;
	found->stays |= may && r->stay;
	found->may |= may;
	found->bytes += may ? r->bytes : 0;
	found->seen += SEEN + (r->state == GM_TURN_ASLEEP);
}

/* The one that is idle longest; NULL: none is. */
static struct peer *peer_choose(struct round *round)
{
	struct peer *best = NULL;
	for (unsigned i = 0; i < round->n; i++) {
		struct peer *peer = &round->of[i];
		if (peer->reply.state == GM_TURN_IDLE &&
		    (!best || peer->reply.idle > best->reply.idle))
			best = peer;
	}
	return best;
}

/* What the wait needs of the device: for a wake, and a process that sleeps, what is away. */
static void round_measure(struct round *round)
{
	struct gm_pool_stats stats = {0};
	struct gm_pool *pool = gm_shim_pool_if_any(round->ordinal);
	const struct gm_rest_wait *wait = &round->turn->wait;
	if (pool)
		gm_pool_stats(pool, &stats);
	if (wait->ordinal == GM_REST_ANY || wait->bytes)
		round->needs = wait->bytes + stats.away;
	round->own = stats.idle + stats.retired;
	round->known = round->needs && gm_overhead_read(round->ordinal, NULL, &round->available);
}

static void found_judge(struct gm_turns_found *found, const struct round *round)
{
	if (!round->known)
		return;
	found->suffices = round->needs <= round->available;
	if (found->elder && round->needs + round->lacks <= round->available)
		found->elder = false;
}

/* All together have too little: nobody sleeps in vain. */
static bool cannot_suffice(const struct round *round, const struct gm_turns_found *found)
{
	return round->known && !found->moves &&
	       round->needs > round->available + found->bytes + round->own;
}

static void round_order(struct round *round, const struct gm_turns_found *found)
{
	struct peer *peer = found->elder || found->moves ? NULL : peer_choose(round);
	if (!peer || !peer_send(round, peer, true))
		return;
	gm_counter_add(round->ordinal, GM_C_turns_asked, 1);
	peer_receive(round, peer);
}

/* One device. If nobody fell asleep there since the last try, the idlest process shall. */
static void round_make(struct gm_turn *turn, unsigned ordinal, bool first)
{
	struct round *round = calloc(1, sizeof *round);
	struct gm_turns_found found = {0};
	if (!round)
		return;
	round->turn = turn;
	round->ordinal = ordinal;
	round->since = gm_rest_waits(ordinal).since;
	round->glances = turn->wait.ordinal == GM_REST_ANY && first;
	round->end = gm_clock_ns() + (round->glances ? GLANCE : PATIENCE);
	gm_rpc_each(gm_shim_devices[ordinal].uuid, peer_ask, round);
	for (unsigned i = round->n; i-- > 0;) {
		if (peer_receive(round, &round->of[i]))
			found_add(&found, round, &round->of[i]);
		else
			peer_drop(round, i);
	}
	round_measure(round);
	found_judge(&found, round);
	if (cannot_suffice(round, &found))
		found.may = false;
	else if (found.seen == turn->seen_on[ordinal])
		round_order(round, &found);
	turn->seen_on[ordinal] = found.seen;
	while (round->n)
		peer_drop(round, 0);
	free(round);
	turn->found.bytes += found.bytes;
	turn->found.seen += found.seen;
	turn->found.elder |= found.elder;
	turn->found.suffices |= found.suffices;
	turn->found.moves |= found.moves;
	turn->found.stays |= found.stays;
	turn->found.may |= found.may;
}

/* The time in which others move, stay, or wait longer, is not counted. */
static void turn_extend(struct gm_turn *turn, uint64_t now)
{
	if (turn->round && (turn->found.moves || turn->found.stays || turn->found.elder))
		turn->end += now - turn->round;
	turn->end = turn->end < turn->most ? turn->end : turn->most;
}

static bool turn_is_of(const struct gm_turn *turn, unsigned ordinal)
{
	return gm_shim_pool_if_any(ordinal)
		       ? turn->wait.ordinal == GM_REST_ANY || turn->wait.ordinal == (int)ordinal
		       : turn->wait.ordinal == (int)ordinal;
}

static void turn_ask(struct gm_turn *turn)
{
	uint64_t now = gm_clock_ns();
	bool first = !turn->round;
	if (!first && now - turn->round < GM_TURNS_EVERY)
		return;
	turn_extend(turn, now);
	turn->found = (struct gm_turns_found){0};
	turn->round = now;
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		if (turn_is_of(turn, i))
			round_make(turn, i, first);
}

/* --- waits --- */

static _Atomic uint64_t vain_until; /* ns */

static uint64_t patience(int ordinal, uint64_t now)
{
	bool wakes = ordinal == GM_REST_ANY;
	return wakes || now >= atomic_load(&vain_until) ? GM_TURNS_PATIENCE : GM_TURNS_BRIEF;
}

bool gm_turns_begin(struct gm_turn *turn, int ordinal, uint64_t bytes, uint64_t since)
{
	struct gm_rpc_address mine;
	unsigned any = ordinal >= 0 ? (unsigned)ordinal : 0;
	while (ordinal < 0 && any + 1 < gm_shim_n_devices && !gm_shim_pool_if_any(any))
		any++;
	if (!atomic_load_explicit(&gm_door_used, memory_order_relaxed))
		return false;
	uint64_t now = gm_clock_ns();
	since = since ? since : now;
	*turn = (struct gm_turn){.wait = {.since = since, .bytes = bytes, .ordinal = ordinal},
				 .end = since + patience(ordinal, now),
				 .most = since + GM_TURNS_MOST,
				 .pause = TRY_EVERY};
	if (gm_rpc_join(gm_shim_devices[any].uuid, &mine) == 0)
		turn->nonce = mine.nonce;
	gm_thread_hold_cancel(); /* the list of waits has a part of this thread's stack */
	gm_rest_wait_begin(&turn->wait);
	return true;
}

void gm_turns_end(struct gm_turn *turn)
{
	unsigned ordinal = turn->wait.ordinal >= 0 ? (unsigned)turn->wait.ordinal : 0;
	gm_rest_wait_end(&turn->wait);
	gm_thread_let_cancel();
	if (turn->waited)
		gm_counter_add(ordinal, GM_C_turns_wait_ns, gm_clock_ns() - turn->wait.since);
}

/* The first round asks nobody to sleep: the memory may suffice. */
bool gm_turns_may_take(struct gm_turn *turn)
{
	bool first = !turn->round;
	turn_ask(turn);
	turn->waited |= turn->found.elder || (!first && turn->found.may);
	return !turn->found.elder;
}

uint64_t gm_turns_reclaim(const struct gm_turn *turn)
{
	uint64_t given = 0;
	for (unsigned i = 0; i < gm_shim_n_devices && gm_clock_ns() < turn->end; i++)
		if (turn_is_of(turn, i))
			given += gm_demand_reclaim(i);
	return given;
}

/* A try is worth it if another process has less than before, or after a while; one that wakes this
 * process, only if there is enough. */
static bool try_is_due(const struct gm_turn *turn, bool asleep, uint64_t now)
{
	const struct gm_turns_found *found = &turn->found;
	bool again = asleep ? found->suffices : now - turn->tried >= turn->pause;
	return !found->elder && (!turn->tried || found->seen != turn->seen_then || again);
}

static void try_begin(struct gm_turn *turn, uint64_t now)
{
	turn->tried = now;
	turn->seen_then = turn->found.seen;
}

/* Nobody can sleep, nobody waits longer, and the last try came after that was so. */
static bool is_hopeless(const struct gm_turn *turn)
{
	return !turn->found.may && !turn->found.elder &&
	       (!turn->found.seen || (turn->tried && turn->seen_then == turn->found.seen));
}

static bool must_fail(const struct gm_turn *turn, bool stuck, uint64_t now)
{
	return is_hopeless(turn) || gm_turns_is_over(turn, now) || (stuck && turn->found.elder);
}

/* The thread is outside. True: it is inside, and the process awake. */
static bool door_enter(bool *failed)
{
	if (gm_door_try())
		return true;
	if (gm_door_state() != GM_DOOR_ASLEEP) /* it moves */
		return false;
	*failed = gm_door_enter() != CUDA_SUCCESS;
	return !*failed;
}

bool gm_turns_await(struct gm_turn *turn, bool stays)
{
	bool inside = gm_door_is_inside(), outside = inside && !stays && gm_door_step_out();
	bool failed = false;
	for (;; gm_sys_nap(NAP)) {
		turn_ask(turn);
		uint64_t now = gm_clock_ns();
		if (failed || must_fail(turn, inside && !outside, now)) {
			if (gm_turns_is_over(turn, now))
				atomic_store(&vain_until, now + GM_TURNS_PAUSE);
			break;
		}
		turn->waited = true;
		bool asleep = outside && gm_door_state() == GM_DOOR_ASLEEP;
		if (try_is_due(turn, asleep, now) && (!outside || door_enter(&failed))) {
			try_begin(turn, now);
			return true;
		}
	}
	if (outside)
		gm_door_step_in();
	return false;
}

bool gm_turns_retry(unsigned ordinal, uint64_t bytes, uint64_t *since)
{
	struct gm_turn turn;
	if (!gm_turns_begin(&turn, (int)ordinal, bytes, *since))
		return false;
	*since = turn.wait.since;
	/* The call failed just now; a try is worth it only if something has changed by then. */
	turn_ask(&turn);
	try_begin(&turn, turn.round);
	turn.pause = UINT64_MAX;
	bool again = gm_turns_await(&turn, true);
	gm_turns_end(&turn);
	return again;
}
