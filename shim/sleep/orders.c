/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/orders.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex_lock.h"
#include "base/sys.h"
#include "residency/door.h"
#include "rpc/rpc.h"
#include "shim/call.h"
#include "shim/idle/give.h"
#include "shim/sleep/sleep_figures.h"

#define NAP 1000000u /* ns between two looks for GO */
#define ENDS_HOLD ((unsigned)GM_ORDER_SLEEP | GM_ORDER_WAKE | GM_ORDER_OPEN | GM_ORDER_LET)
#define HOLD_MOST UINT64_C(10000000000)
#define STEP_MOST UINT64_C(100000000)

static struct gm_futex_lock lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE};
/* A request of a tool changes `pending` and `asked` together, under the lock. */
static atomic_uint pending;
static _Atomic uint64_t asked, done, hold_ns, step_ns;
static atomic_bool held;
static uint64_t taken; /* value of `asked`; the thread alone uses it */
static int (*start_thread)(void);
static void (*fill_moves)(struct gm_control *control);

int gm_orders_add(enum gm_order order)
{
	atomic_fetch_or(&pending, order);
	int error = start_thread();
	if (error)
		atomic_fetch_and(&pending, ~(unsigned)order);
	return error;
}

bool gm_orders_pending(void)
{
	return atomic_load(&pending);
}

/* --- the thread --- */

unsigned gm_orders_take(void)
{
	gm_futex_lock_take(&lock);
	unsigned orders = atomic_exchange(&pending, 0);
	taken = atomic_load(&asked);
	gm_futex_lock_release(&lock);
	return orders;
}

void gm_orders_complete(void)
{
	atomic_store(&done, taken);
}

uint64_t gm_orders_hold_ns(void)
{
	return atomic_load(&hold_ns);
}

uint64_t gm_orders_step_ns(void)
{
	return atomic_load(&step_ns);
}

bool gm_orders_end_hold(void)
{
	return atomic_load(&pending) & ENDS_HOLD;
}

/* Take GO or STEP, if nothing else came. *came: any of the orders that a held process obeys. */
static unsigned hold_order_take(unsigned *came)
{
	gm_futex_lock_take(&lock);
	*came = atomic_load(&pending) & (GM_ORDERS_OF_HOLD | ENDS_HOLD);
	unsigned order = *came == GM_ORDER_GO || *came == GM_ORDER_STEP ? *came : 0;
	atomic_fetch_and(&pending, ~order);
	taken = order ? atomic_load(&asked) : taken;
	gm_futex_lock_release(&lock);
	return order;
}

unsigned gm_orders_await(uint64_t end, bool (*is_over)(void))
{
	unsigned came = 0, order = 0;
	gm_sleep_outcome(GM_REFUSAL_NONE, "");
	atomic_store(&held, true);
	gm_orders_complete();
	while (!came && gm_clock_ns() < end && !is_over()) {
		gm_sys_nap(NAP);
		order = hold_order_take(&came);
	}
	atomic_store(&held, false);
	return order;
}

/* --- requests of other processes, on the thread gpumem-node --- */

/* `done` is read first: an order that is done has set the rest. */
static void control_fill(struct gm_control *control)
{
	*control = (struct gm_control){.done = atomic_load(&done), .asked = atomic_load(&asked)};
	control->state = atomic_load(&held) ? GM_CONTROL_HELD : gm_door_state();
	control->given = gm_give_total();
	fill_moves(control);
}

/* `error`: of the start. Without a thread the orders are over: no later thread obeys them. */
static void start_check(int error)
{
	if (!error)
		return;
	atomic_store(&pending, 0);
	gm_sleep_outcome(GM_REFUSAL_THREAD, strerror(error));
	atomic_store(&done, atomic_load(&asked));
}

/* LET takes back what has not begun. */
static void order_add(unsigned order)
{
	gm_futex_lock_take(&lock);
	atomic_fetch_add(&asked, 1);
	if (order == GM_ORDER_LET)
		atomic_fetch_and(&pending, ~GM_ORDERS_OF_HOLD);
	atomic_fetch_or(&pending, order);
	gm_futex_lock_release(&lock);
	start_check(start_thread());
}

/* By kind of request: its order, 0 is none; and the variable for the time that it has, up to
 * `most`. */
static const struct answer {
	unsigned order;
	_Atomic uint64_t *ns;
	uint64_t most;
} answers[GM_RPC_KINDS] = {
	[GM_RPC_RESIDENCY] = {0},
	[GM_RPC_SLEEP] = {GM_ORDER_SLEEP},
	[GM_RPC_WAKE] = {GM_ORDER_WAKE},
	[GM_RPC_HOLD] = {GM_ORDER_HOLD, &hold_ns, HOLD_MOST},
	[GM_RPC_STEP] = {GM_ORDER_STEP, &step_ns, STEP_MOST},
	[GM_RPC_GO] = {GM_ORDER_GO},
	[GM_RPC_LET] = {GM_ORDER_LET},
};

/* Take the time of a request; false: it is none, or too long. */
static bool time_take(const void *bytes, size_t size, const struct answer *a)
{
	struct gm_hold_request request;
	if (size != sizeof request)
		return false;
	memcpy(&request, bytes, sizeof request);
	if (request.ns > a->most)
		return false;
	atomic_store(a->ns, request.ns);
	return true;
}

static enum gm_rpc_result order_answer(enum gm_rpc_kind kind, const void *bytes, size_t size,
				       struct gm_rpc_message *reply)
{
	const struct answer *a = &answers[kind];
	struct gm_control control;
	if (!gm_shim_active() || (a->ns ? !time_take(bytes, size, a) : size != 0))
		return GM_RPC_REFUSED;
	if (a->order)
		order_add(a->order);
	control_fill(&control);
	memcpy(reply->data, &control, sizeof control);
	reply->size = sizeof control;
	return GM_RPC_OK;
}

void gm_orders_begin(int (*start)(void), void (*fill)(struct gm_control *control))
{
	start_thread = start;
	fill_moves = fill;
	static const enum gm_rpc_kind kinds[] = {GM_RPC_SLEEP, GM_RPC_WAKE, GM_RPC_RESIDENCY,
						 GM_RPC_HOLD,  GM_RPC_STEP, GM_RPC_GO,
						 GM_RPC_LET};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		gm_rpc_serve(kinds[i], order_answer);
}

void gm_orders_forget(void)
{
	gm_futex_lock_init(&lock, GM_LOCK_RANK_TABLE);
	atomic_store(&pending, 0);
	atomic_store(&held, false);
}
