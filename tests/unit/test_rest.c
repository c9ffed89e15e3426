/* SPDX-License-Identifier: BSD-3-Clause */
/* May the process sleep for another one (shim/sleep/rest.h): the replies, with a clock that only
 * the test advances. The door is the real one. Linked with --wrap for the clock and nodes. */
#include "../../shim/sleep/rest.h"

#include <string.h>
#include <time.h>

#include "../../shim/call.h"
#include "../../shim/context/capture.h"
#include "../../shim/ipc/ipc.h"
#include "../../shim/memory/device.h"
#include "../../shim/sleep/moves.h"
#include "../../shim/sleep/refusal.h"
#include "log/count.h"
#include "residency/control.h"
#include "residency/door.h"
#include "rpc/rpc.h"

#include "../tap.h"

#define MIB UINT64_C(1048576)
#define MS UINT64_C(1000000)

struct gm_shim_device gm_shim_devices[GM_COUNTER_DEVICES];
unsigned gm_shim_n_devices = 2;
_Atomic(enum gm_shim_state) gm_shim_state = GM_SHIM_ACTIVE;
struct gm_driver gm_shim_driver;
atomic_size_t gm_ipc_open;

static uint64_t now = 1000 * MS;
static gm_rpc_answer *answer;
static struct gm_pool_stats stats;
static bool captures;
static enum gm_refusal refuses;
static unsigned orders;
static int order_error;

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
void __wrap_gm_rpc_serve(enum gm_rpc_kind kind, gm_rpc_answer *to);

int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
	(void)id;
	*out = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
	return 0;
}

void __wrap_gm_rpc_serve(enum gm_rpc_kind kind, gm_rpc_answer *to)
{
	answer = kind == GM_RPC_TURN ? to : answer;
}

/* Each device with a pool has the same. */
struct gm_moves_bytes gm_moves_bytes(unsigned ordinal)
{
	const uint64_t has = stats.mapped - stats.vacant + stats.lent,
		       rest = stats.away + stats.pinned;
	if (!gm_shim_pool_if_any(ordinal))
		return (struct gm_moves_bytes){0};
	return (struct gm_moves_bytes){
		.moves = has > rest ? has - rest : 0,
		.away = stats.away,
		.stays = stats.pinned,
	};
}

bool gm_capture_any(void)
{
	return captures;
}

enum gm_refusal gm_refusal_find(bool ordered, char *name, size_t size)
{
	(void)ordered;
	snprintf(name, size, "%s", "");
	return refuses;
}

static int order_begin(void)
{
	orders++;
	return order_error;
}

static CUresult wake(uint64_t since)
{
	(void)since;
	return CUDA_SUCCESS;
}

static struct gm_turn_reply ask(uint64_t sleep)
{
	struct gm_rpc_message message = {.size = 0};
	struct gm_turn_request q = {.sleep = sleep};
	struct gm_turn_reply r = {.state = 99};
	memcpy(q.gpu, gm_shim_devices[0].uuid, sizeof q.gpu);
	if (answer(GM_RPC_TURN, &q, sizeof q, &message) == GM_RPC_OK && message.size == sizeof r)
		memcpy(&r, message.data, sizeof r);
	return r;
}

static void submit(void)
{
	gm_door_enter();
	gm_door_leave();
}

/* Idle for 50 ms, as far as the process has seen. */
static void settle(void)
{
	ask(0);
	now += GM_REST_IDLE;
}

static void idleness(void)
{
	submit();
	TAP_IS(ask(0).state, GM_TURN_BUSY, "a process that has just submitted work is busy");
	now += GM_REST_IDLE - 1;
	TAP_IS(ask(1).state, GM_TURN_BUSY, "a process is busy for 50 ms, also if it shall sleep");
	now += 1;
	TAP_IS(ask(0).state, GM_TURN_IDLE, "a process is idle after 50 ms");
	TAP_IS(ask(0).bytes, 100 * MIB, "the reply has the bytes that its sleep would return");
	submit();
	TAP_IS(ask(0).state, GM_TURN_BUSY, "a submission makes it busy again");
	TAP_IS(orders, 0, "a process was not put to sleep before it is idle");
	settle();
	TAP_IS(ask(1).state, GM_TURN_MOVES, "an idle process obeys");
	TAP_IS(orders, 1, "the other thread is told to sleep");
	TAP_IS(ask(1).state, GM_TURN_MOVES, "a process that was told falls asleep");
	TAP_IS(orders, 1, "the other thread is not told to sleep again");
}

static void other_thread(void)
{
	TAP_OK(gm_rest_may_sleep(), "an idle process may sleep");
	gm_rest_slept(GM_REFUSAL_NONE);
	TAP_IS(gm_counter_get(0, GM_C_turns_slept), 1, "the sleep is counted");
	settle();
	ask(1);
	captures = true;
	TAP_OK(!gm_rest_may_sleep(), "an open capture keeps a process awake");
	captures = false;
	TAP_IS(ask(0).state, GM_TURN_BUSY, "a process with an open capture counts as busy");
	settle();
	ask(1);
	gm_door_enter();
	TAP_OK(!gm_rest_may_sleep(), "a submission since the request keeps a process awake");
	gm_door_leave();
	settle();
	ask(1);
	refuses = GM_REFUSAL_COMMUNICATOR;
	TAP_OK(!gm_rest_may_sleep(), "a reason not to sleep keeps a process awake");
	TAP_IS(ask(0).state, GM_TURN_NEVER, "the reply says that a process never sleeps");
	TAP_IS(ask(0).refusal, GM_REFUSAL_COMMUNICATOR,
	       "the reply has the reason why a process never sleeps");
	refuses = GM_REFUSAL_NONE;
	now += 1000 * MS;
	TAP_IS(ask(0).state, GM_TURN_IDLE, "a process may be asked again a second later");
	order_error = 11;
	TAP_IS(ask(1).state, GM_TURN_NEVER, "a process without the other thread cannot sleep");
	order_error = 0;
	now += 1000 * MS;
	ask(1);
	gm_rest_slept(GM_REFUSAL_HOST_MEMORY);
	TAP_IS(ask(0).state, GM_TURN_NEVER, "a sleep without host memory is refused for a while");
	now += 1000 * MS;
	ask(1);
	now += 2000 * MS;
	TAP_IS(ask(0).state, GM_TURN_IDLE, "a request that nothing came of is forgotten");
}

static void minimum(void)
{
	gm_rest_woke(70 * MS);
	ask(0);
	now += 5 * 70 * MS - 1;
	TAP_IS(ask(1).state, GM_TURN_BUSY,
	       "a process stays awake for 350 ms after a wake of 70 ms");
	TAP_IS(ask(0).stay, 1, "the reply says how long a process stays awake");
	TAP_OK(!gm_rest_may_sleep(), "the other thread knows that a process stays awake");
	now += 1;
	settle();
	TAP_IS(ask(0).state, GM_TURN_IDLE, "a process may sleep when its minimum is over");
	gm_rest_woke(0);
	TAP_IS(ask(0).state, GM_TURN_BUSY, "a wake is a use");
}

static void waits(void)
{
	struct gm_rest_wait any = {.since = 70, .ordinal = GM_REST_ANY},
			    here = {.since = 50, .bytes = 30, .ordinal = 0},
			    there = {.since = 20, .ordinal = 1};
	TAP_IS(ask(0).waits, 0, "a process that waits for nothing says so");
	gm_rest_wait_begin(&any);
	gm_rest_wait_begin(&there);
	TAP_OK(ask(0).waits == 0 && ask(0).lacks == 0,
	       "a wake waits for no device where nothing is away");
	stats.away = 5;
	TAP_OK(ask(0).waits == 70 && ask(0).lacks == 5,
	       "a wake waits for what is away, not for another device");
	gm_rest_wait_begin(&here);
	TAP_OK(ask(0).waits == 50 && ask(0).lacks == 5 + 30,
	       "the oldest of several waits counts, and all bytes");
	here.bytes = 0;
	TAP_IS(ask(0).lacks, 0, "a wait of unknown size makes the sum unknown");
	stats.away = 0;
	settle();
	TAP_IS(ask(0).state, GM_TURN_IDLE, "a process that waits can be put to sleep");
	gm_rest_wait_end(&any);
	gm_rest_wait_end(&here);
	TAP_IS(ask(0).waits, 0, "a wait that is over does not count");
	TAP_IS(ask(0).state, GM_TURN_BUSY, "a process whose wait is over is busy");
	gm_rest_wait_end(&there);
}

static void asleep(void)
{
	struct gm_rest_wait wait = {.since = 9, .ordinal = GM_REST_ANY};
	gm_door_shut(now + 1);
	TAP_IS(ask(0).state, GM_TURN_MOVES, "while the door is shut memory moves");
	gm_rest_wait_begin(&wait);
	stats.away = stats.mapped;
	TAP_IS(ask(0).state, GM_TURN_ASLEEP,
	       "a process that waits for its wake, with nothing on the device, sleeps");
	stats.away = 0;
	gm_rest_wait_end(&wait);
	gm_door_set(GM_DOOR_ASLEEP);
	TAP_IS(ask(1).state, GM_TURN_ASLEEP, "a process that sleeps is asleep");
	gm_door_set(GM_DOOR_OPEN);
	settle();
}

static void sharing(void)
{
	stats.pinned = 2 * MIB;
	TAP_IS(ask(1).state, GM_TURN_NEVER,
	       "a process with a pinned block never sleeps for others");
	TAP_IS(ask(1).refusal, GM_REFUSAL_SHARED, "the reason of a pinned block is shared memory");
	TAP_IS(ask(0).bytes, 98 * MIB, "a pinned block would stay on the device");
	stats.pinned = 0;
	atomic_store(&gm_ipc_open, 1);
	TAP_IS(ask(1).state, GM_TURN_NEVER,
	       "a process with open memory of another one never sleeps");
	atomic_store(&gm_ipc_open, 0);
	TAP_IS(ask(0).state, GM_TURN_IDLE, "a process that closed such memory is idle");
	gm_rest_share();
	TAP_IS(ask(1).state, GM_TURN_NEVER, "a process that has exported anything never sleeps");
	gm_rest_forget();
	settle();
	TAP_IS(ask(0).state, GM_TURN_IDLE, "a forked child has exported nothing");
}

static void odd_requests(void)
{
	struct gm_rpc_message message = {.size = 0};
	struct gm_turn_request q = {.gpu = {9}};
	TAP_IS(answer(GM_RPC_TURN, &q, sizeof q - 1, &message), GM_RPC_REFUSED,
	       "a short request is refused");
	TAP_IS(answer(GM_RPC_TURN, &q, sizeof q, &message), GM_RPC_REFUSED,
	       "a request for an unknown device is refused");
	atomic_store(&gm_shim_state, GM_SHIM_OFF);
	TAP_IS(ask(0).state, 99, "a process that has no pools any more does not answer");
}

int main(void)
{
	gm_shim_devices[1].uuid[0] = 1;
	gm_shim_devices[0].pool = (struct gm_pool *)&stats;
	stats.mapped = 110 * MIB;
	stats.vacant = 10 * MIB;
	gm_door_begin(wake);
	gm_rest_start(order_begin);
	idleness();
	other_thread();
	minimum();
	waits();
	asleep();
	sharing();
	odd_requests();
	return tap_done();
}
