/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for memory of other processes (shim/sleep/turns.h): the order, the bound, and who is asked.
 * The other processes are a table; linked with --wrap for the calls to them, the naps and the
 * clock, which only these calls advance. */
#include "../../shim/sleep/turns.h"

#include <string.h>
#include <time.h>

#include "../../shim/idle/demand.h"
#include "../../shim/ipc/ipc.h"
#include "../../shim/memory/device.h"
#include "../../shim/memory/overhead.h"
#include "log/count.h"
#include "residency/control.h"
#include "residency/door.h"
#include "rpc/rpc.h"

#include "../tap.h"

#define MIB UINT64_C(1048576)
#define MS UINT64_C(1000000)
enum { MOST = 4 };

struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];
unsigned gm_shim_n_devices = 1;

struct process {
	struct gm_turn_reply reply;
	uint64_t moves; /* ns after the order until it sleeps */
	uint64_t ordered;
	bool refuses; /* started without GPUMEM_SLEEP */
	bool sleeps;  /* the request on its way */
};
static struct process processes[MOST];
static unsigned n_processes, orders, open_links;
static uint64_t now = 1000 * MS, available, away;
static struct gm_rest_wait *wait;

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
void __wrap_gm_sys_nap(uint64_t ns);
int __wrap_gm_rpc_join(const unsigned char gpu[16], struct gm_rpc_address *out);
void __wrap_gm_rpc_each(const unsigned char gpu[16],
			void (*each)(void *arg, const struct gm_rpc_address *address), void *arg);
enum gm_rpc_result __wrap_gm_rpc_connect(const struct gm_rpc_address *to, uint64_t patience,
					 struct gm_rpc_link *link);
enum gm_rpc_result __wrap_gm_rpc_send(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
				      const struct gm_rpc_message *request);
enum gm_rpc_result __wrap_gm_rpc_receive(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
					 struct gm_rpc_message *reply);
void __wrap_gm_rpc_disconnect(struct gm_rpc_link *link);
void __wrap_gm_pool_stats(struct gm_pool *pool, struct gm_pool_stats *out);

int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
	(void)id;
	*out = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
	return 0;
}

void __wrap_gm_sys_nap(uint64_t ns)
{
	now += ns;
}

int __wrap_gm_rpc_join(const unsigned char gpu[16], struct gm_rpc_address *out)
{
	(void)gpu;
	*out = (struct gm_rpc_address){.nonce = 50};
	return 0;
}

void __wrap_gm_rpc_each(const unsigned char gpu[16],
			void (*each)(void *arg, const struct gm_rpc_address *address), void *arg)
{
	(void)gpu;
	for (unsigned i = 0; i < n_processes; i++)
		each(arg, &(struct gm_rpc_address){.pid = i, .nonce = 49 + 2 * i});
}

enum gm_rpc_result __wrap_gm_rpc_connect(const struct gm_rpc_address *to, uint64_t patience,
					 struct gm_rpc_link *link)
{
	(void)patience;
	*link = (struct gm_rpc_link){.fd = (int)to->pid};
	open_links++;
	return GM_RPC_OK;
}

enum gm_rpc_result __wrap_gm_rpc_send(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
				      const struct gm_rpc_message *request)
{
	struct gm_turn_request q;
	memcpy(&q, request->data, sizeof q);
	processes[link->fd].sleeps = q.sleep;
	return kind == GM_RPC_TURN && request->size == sizeof q ? GM_RPC_OK : GM_RPC_UNABLE;
}

static void process_sleep(struct process *p)
{
	p->reply.state = GM_TURN_ASLEEP;
	available += p->reply.bytes;
	p->reply.bytes = 0;
	p->ordered = 0;
}

enum gm_rpc_result __wrap_gm_rpc_receive(const struct gm_rpc_link *link, enum gm_rpc_kind kind,
					 struct gm_rpc_message *reply)
{
	struct process *p = &processes[link->fd];
	(void)kind;
	if (p->refuses)
		return GM_RPC_REFUSED;
	if (p->sleeps && p->reply.state == GM_TURN_IDLE) {
		orders++;
		p->ordered = now;
		p->reply.state = GM_TURN_MOVES;
	}
	if (p->ordered && now >= p->ordered + p->moves)
		process_sleep(p);
	memcpy(reply->data, &p->reply, sizeof p->reply);
	reply->size = sizeof p->reply;
	reply->n_fds = 0;
	return GM_RPC_OK;
}

void __wrap_gm_rpc_disconnect(struct gm_rpc_link *link)
{
	(void)link;
	open_links--;
}

void gm_rest_wait_begin(struct gm_rest_wait *w)
{
	wait = w;
}

void gm_rest_wait_end(struct gm_rest_wait *w)
{
	wait = wait == w ? NULL : wait;
}

struct gm_rest_waits gm_rest_waits(unsigned ordinal)
{
	(void)ordinal;
	return (struct gm_rest_waits){.since = wait->since, .bytes = wait->bytes};
}

void __wrap_gm_pool_stats(struct gm_pool *pool, struct gm_pool_stats *out)
{
	(void)pool;
	*out = (struct gm_pool_stats){.away = away};
}

bool gm_demand_is_overdue(uint64_t nonce, uint64_t at)
{
	(void)nonce, (void)at;
	return false;
}

void gm_demand_add_overdue(uint64_t nonce, uint64_t at)
{
	(void)nonce, (void)at;
}

uint64_t gm_demand_reclaim(unsigned ordinal)
{
	return ordinal == 0 ? 7 : 0;
}

bool gm_overhead_read(unsigned ordinal, const struct gm_context *current, uint64_t *out)
{
	(void)ordinal, (void)current;
	*out = available;
	return true;
}

static CUresult wake(uint64_t since)
{
	(void)since;
	return CUDA_SUCCESS;
}

/* The other processes from now on: the states of all, with 60 MiB each. */
static void begin(unsigned n, const enum gm_turn_state *states)
{
	memset(processes, 0, sizeof processes);
	n_processes = n;
	available = 10 * MIB;
	orders = 0;
	now += GM_TURNS_PAUSE;
	for (unsigned i = 0; i < n; i++)
		processes[i] = (struct process){
			.reply = {.state = states[i],
				  .bytes = states[i] == GM_TURN_ASLEEP ? 0 : 60 * MIB,
				  .idle = (1 + i) * 100 * MS},
			.moves = 30 * MS};
}
#define BEGIN(...)                                                                      \
	begin(sizeof((enum gm_turn_state[]){__VA_ARGS__}) / sizeof(enum gm_turn_state), \
	      (enum gm_turn_state[]){__VA_ARGS__})

/* An allocation in the door, which lacks memory: as shim/block/alloc.c. *took: ns. */
static bool allocate(uint64_t bytes, uint64_t *took)
{
	struct gm_turn turn;
	uint64_t began = now;
	bool got = false;
	gm_door_enter();
	if (gm_turns_begin(&turn, 0, bytes, 0)) {
		while (!got && gm_turns_await(&turn, false))
			got = available >= bytes;
		gm_turns_end(&turn);
	}
	TAP_OK(gm_door_is_inside(), "the thread is inside the door again");
	gm_door_leave();
	TAP_IS(open_links, 0, "no link is left open");
	*took = now - began;
	return got;
}

static void who_sleeps(void)
{
	uint64_t took;
	BEGIN(GM_TURN_IDLE, GM_TURN_IDLE, GM_TURN_BUSY);
	TAP_OK(allocate(50 * MIB, &took), "an idle process sleeps for an allocation");
	TAP_OK(orders == 1 && processes[1].reply.state == GM_TURN_ASLEEP,
	       "the one that is idle longest, and no other");
	TAP_OK(took < 100 * MS, "the allocation waits for its move alone");
	BEGIN(GM_TURN_IDLE, GM_TURN_IDLE, GM_TURN_BUSY);
	TAP_OK(allocate(120 * MIB, &took), "two sleep if one is not enough");
	TAP_IS(orders, 2, "one after the other");
	TAP_IS(gm_counter_get(0, GM_C_turns_asked), 3, "the requests are counted");
}

static void at_once(void)
{
	uint64_t took;
	BEGIN(GM_TURN_ASLEEP, GM_TURN_NEVER);
	TAP_OK(!allocate(50 * MIB, &took) && took < 50 * MS, "nobody can sleep: fails at once");
	begin(0, NULL);
	TAP_OK(!allocate(50 * MIB, &took) && took == 0, "there is nobody: fails at once");
	BEGIN(GM_TURN_IDLE, GM_TURN_BUSY);
	TAP_OK(!allocate(131 * MIB, &took) && took < 50 * MS && orders == 0,
	       "all have too little: nobody sleeps in vain");
	processes[0].refuses = processes[1].refuses = true;
	TAP_OK(!allocate(50 * MIB, &took) && took == 0,
	       "a process without GPUMEM_SLEEP is not there");
}

static bool is_about(uint64_t took, uint64_t bound)
{
	return took >= bound && took < bound + bound / 50;
}

static void bounds(void)
{
	uint64_t took;
	BEGIN(GM_TURN_BUSY);
	TAP_OK(!allocate(50 * MIB, &took) && is_about(took, GM_TURNS_PATIENCE),
	       "a process that stays busy is waited for 10 s");
	TAP_OK(gm_counter_get(0, GM_C_turns_wait_ns) >= GM_TURNS_PATIENCE, "the time is counted");
	now += GM_TURNS_PAUSE;
	processes[0].reply.stay = 1;
	TAP_OK(!allocate(50 * MIB, &took) && is_about(took, GM_TURNS_MOST),
	       "the minimum after a wake is not counted, 60 s at most");
	BEGIN(GM_TURN_IDLE);
	processes[0].moves = 12000 * MS;
	TAP_OK(allocate(50 * MIB, &took) && is_about(took, 12000 * MS),
	       "a long move does not count as a wait");
}

/* A program that takes memory until a call fails, beside one that works. */
static void in_vain(void)
{
	uint64_t took;
	struct gm_turn turn;
	BEGIN(GM_TURN_BUSY);
	allocate(50 * MIB, &took);
	TAP_OK(!allocate(50 * MIB, &took) && is_about(took, GM_TURNS_BRIEF),
	       "after a wait in vain the next allocation waits 0.1 s");
	processes[0].reply.state = GM_TURN_IDLE;
	TAP_OK(allocate(50 * MIB, &took), "a brief wait is enough for a process that is idle");
	BEGIN(GM_TURN_BUSY);
	allocate(50 * MIB, &took);
	gm_turns_begin(&turn, GM_REST_ANY, 0, 0);
	TAP_OK(!gm_turns_is_over(&turn, now + GM_TURNS_PATIENCE - 1),
	       "a wake waits as long as ever");
	gm_turns_end(&turn);
	now += GM_TURNS_PAUSE;
	TAP_OK(!allocate(50 * MIB, &took) && is_about(took, GM_TURNS_PATIENCE),
	       "an allocation waits as long as ever a minute later");
}

static void order(void)
{
	uint64_t took;
	struct gm_turn turn;
	BEGIN(GM_TURN_IDLE, GM_TURN_BUSY);
	processes[1].reply.waits = 1;
	TAP_OK(!allocate(5 * MIB, &took) && orders == 0 && is_about(took, GM_TURNS_MOST),
	       "another waits longer: nothing is taken, and nobody is asked to sleep");
	processes[1].reply.waits = now + 5000 * MS;
	TAP_OK(allocate(50 * MIB, &took) && orders == 1,
	       "another wait that began later does not matter");

	BEGIN(GM_TURN_BUSY, GM_TURN_BUSY);
	gm_turns_begin(&turn, GM_REST_ANY, 0, 0);
	processes[0].reply.waits = now; /* its nonce is 49, ours is 50 */
	TAP_OK(!gm_turns_may_take(&turn),
	       "the smaller nonce goes first of two that began together");
	processes[0].reply.waits = 0;
	processes[1].reply.waits = now; /* 51 */
	TAP_OK(!gm_turns_may_take(&turn), "no further request is made for 10 ms");
	now += GM_TURNS_EVERY;
	TAP_OK(gm_turns_may_take(&turn), "the larger nonce waits");
	gm_turns_end(&turn);
}

/* A process that waits longer, for memory that suffices for both, or with too little. */
static void beside_an_elder(void)
{
	uint64_t took;
	BEGIN(GM_TURN_BUSY);
	processes[0].reply.waits = 1;
	processes[0].reply.lacks = 4 * MIB;
	TAP_OK(allocate(5 * MIB, &took) && took < 50 * MS,
	       "memory that suffices for both is taken");
	processes[0].reply.lacks = 6 * MIB;
	TAP_OK(!allocate(5 * MIB, &took) && is_about(took, GM_TURNS_MOST),
	       "memory that does not is left to who waits longer, whose time is not counted");
}

static void vain_sleeps(void)
{
	uint64_t since = 0;
	struct gm_turn turn;
	BEGIN(GM_TURN_IDLE);
	TAP_OK(!gm_turns_retry(0, 71 * MIB, &since) && orders == 0,
	       "nobody sleeps for a call of the driver that asks for more than there is");
	away = 71 * MIB;
	gm_turns_begin(&turn, GM_REST_ANY, 0, 0);
	gm_turns_may_take(&turn);
	now += GM_TURNS_EVERY;
	TAP_OK(gm_turns_may_take(&turn) && orders == 0,
	       "nobody sleeps for a wake of more than there is");
	away = 70 * MIB;
	now += GM_TURNS_EVERY;
	TAP_OK(gm_turns_may_take(&turn) && orders == 1, "a wake that fits has its sleeper");
	gm_turns_end(&turn);
	away = 0;
}

static void wakes(void)
{
	struct gm_turn turn;
	BEGIN(GM_TURN_IDLE);
	gm_turns_begin(&turn, GM_REST_ANY, 0, 0);
	TAP_OK(gm_turns_may_take(&turn) && orders == 0, "a wake first tries without a request");
	TAP_IS(gm_turns_reclaim(&turn), 7, "other processes return idle memory to a wake");
	now += GM_TURNS_EVERY;
	TAP_OK(gm_turns_may_take(&turn) && orders == 1, "a wake asks a process to sleep at last");
	gm_turns_end(&turn);
}

static void calls_of_the_driver(void)
{
	uint64_t since = 0, began;
	BEGIN(GM_TURN_IDLE);
	began = now;
	gm_door_enter();
	TAP_OK(gm_turns_retry(0, 0, &since) && orders == 1, "a call of the driver is retried");
	TAP_OK(since == began && now > began, "a retry waits from its beginning, after the sleep");
	TAP_OK(!gm_turns_retry(0, 0, &since), "a call is not retried if nothing changes any more");
	BEGIN(GM_TURN_IDLE, GM_TURN_BUSY);
	processes[1].reply.waits = 1;
	began = now, since = 0;
	TAP_OK(!gm_turns_retry(0, 0, &since) && now == began,
	       "a call inside the door fails at once if another waits longer");
	gm_door_leave();
}

int main(void)
{
	struct gm_turn turn;
	gm_shim_devices[0].pool = (struct gm_pool *)&turn;
	TAP_OK(!gm_turns_begin(&turn, 0, 0, 0), "there are no turns without GPUMEM_SLEEP");
	gm_door_begin(wake);
	who_sleeps();
	at_once();
	bounds();
	in_vain();
	order();
	calls_of_the_driver();
	beside_an_elder();
	vain_sleeps();
	wakes();
	return tap_done();
}
