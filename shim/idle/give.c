/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/idle/give.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/worker.h"
#include "knob/knob.h"
#include "log/count.h"
#include "log/log.h"
#include "pool/knobs.h"
#include "residency/control.h"
#include "rpc/rpc.h"
#include "shim/call.h"
#include "shim/log/samples.h"
#include "shim/memory/device.h"

static struct gm_worker worker;
static struct gm_gate gate;
static _Atomic uint64_t asked, done, given;

/* --- the thread --- */

/* Idle memory of all pools; `drain`: retired memory, too, which may wait for the GPU. */
static void pools_give(bool drain)
{
	if (!gm_gate_enter(&gate))
		return;
	for (unsigned i = 0; i < gm_shim_n_devices && !gm_gate_is_closed(&gate); i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		uint64_t bytes = pool ? gm_pool_give_back(pool, 0, drain) : 0;
		if (!bytes)
			continue;
		atomic_fetch_add(&given, bytes);
		gm_counter_add(i, GM_C_given_calls, 1);
		gm_counter_add(i, GM_C_given_bytes, bytes);
	}
	gm_samples_write(gm_clock_ns(), false);
	gm_log_poll();
	gm_gate_leave(&gate);
}

/* False: the thread ends, or another thread was started. */
static bool give_stay(void)
{
	if (atomic_load(&done) != atomic_load(&asked))
		return true;
	gm_worker_end(&worker);
	return atomic_load(&done) != atomic_load(&asked) && gm_worker_claim(&worker);
}

static void give_run(void *unused)
{
	(void)unused;
	gm_shim_inside = 1;
	do {
		uint64_t number = atomic_load(&asked);
		pools_give(false);
		atomic_store(&done, number); /* the other process does not wait for our GPU work */
		pools_give(true);
	} while (give_stay());
	gm_shim_inside = 0; /* exit handlers of the program may follow */
}

/* --- requests of other processes, on the thread gpumem-node --- */

static enum gm_rpc_result given_reply(struct gm_rpc_message *reply)
{
	const struct gm_given now = {.done = atomic_load(&done),
				     .asked = atomic_load(&asked),
				     .given = atomic_load(&given)};
	memcpy(reply->data, &now, sizeof now);
	reply->size = sizeof now;
	return GM_RPC_OK;
}

static enum gm_rpc_result give_answer(enum gm_rpc_kind kind, const void *bytes, size_t size,
				      struct gm_rpc_message *reply)
{
	(void)kind;
	(void)bytes;
	if (size || !gm_shim_active() || gm_gate_is_closed(&gate))
		return GM_RPC_REFUSED;
	/* Replied first: the thread may be faster, and `given` is the total before this request. */
	atomic_fetch_add(&asked, 1);
	given_reply(reply);
	if (gm_worker_start(&worker, "gpumem-give", give_run, NULL)) {
		gm_worker_end(&worker);
		return GM_RPC_REFUSED;
	}
	return GM_RPC_OK;
}

static enum gm_rpc_result given_answer(enum gm_rpc_kind kind, const void *bytes, size_t size,
				       struct gm_rpc_message *reply)
{
	(void)kind;
	(void)bytes;
	return size ? GM_RPC_REFUSED : given_reply(reply);
}

/* --- the life --- */

void gm_give_start(void)
{
	if (gm_knob_get()->mode.choice != GM_MODE_POOL)
		return;
	gm_rpc_serve(GM_RPC_GIVE, give_answer);
	gm_rpc_serve(GM_RPC_GIVEN, given_answer);
}

static void give_join(unsigned ordinal)
{
	struct gm_rpc_address ignored;
	if (!gm_rpc_user_is_known())
		return;
	int error = gm_rpc_join(gm_shim_devices[ordinal].uuid, &ignored);
	if (error && error != ESHUTDOWN) /* that: the process exits */
		GM_MSG_ONCE(GM_MSG_NOTICE,
			    "other processes cannot ask this one for idle memory: %s",
			    strerror(error));
}

void gm_give_pool_ready(unsigned ordinal)
{
	const struct gm_knobs *knobs = gm_knob_get();
	if (knobs->trim_after.trim.after == UINT64_MAX ||
	    gm_pool_knob_bytes(knobs->trim_after.trim.keep, gm_shim_devices[ordinal].total))
		give_join(ordinal);
}

void gm_give_join(void)
{
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		if (gm_shim_pool_if_any(i))
			give_join(i);
}

uint64_t gm_give_total(void)
{
	return atomic_load(&given);
}

void gm_give_exit(void)
{
	gm_gate_close(&gate);
}

void gm_give_forget(void)
{
	gm_worker_forget(&worker);
	gm_gate_forget(&gate);
	atomic_store(&asked, 0);
	atomic_store(&done, 0);
	atomic_store(&given, 0);
}
