/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/sleep/sleep_figures.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex_lock.h"
#include "base/msg.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/foreign/physical.h"
#include "shim/foreign/prefetch.h"
#include "shim/memory/device.h"

static struct gm_futex_lock lock = {GM_FUTEX_LOCK_FREE, GM_LOCK_RANK_TABLE};
static enum gm_refusal last; /* under the lock, as the following */
static uint64_t last_ns;
static char refused_for[GM_CONTROL_NAME];

void gm_sleep_outcome(enum gm_refusal refusal, const char *name)
{
	gm_futex_lock_take(&lock);
	snprintf(refused_for, sizeof refused_for, "%s", name);
	last = refusal;
	last_ns = 0;
	gm_futex_lock_release(&lock);
}

static void outcome_time(uint64_t ns)
{
	gm_futex_lock_take(&lock);
	last_ns = ns;
	gm_futex_lock_release(&lock);
}

void gm_sleep_record(enum gm_record_kind kind, enum gm_refusal refusal, const char *name,
		     uint64_t begin, uint64_t bytes)
{
	const uint64_t ns = gm_clock_ns() - begin;
	const bool refused = refusal != GM_REFUSAL_NONE, sleeps = kind == GM_RECORD_SLEEP;
	gm_sleep_outcome(refusal, name);
	outcome_time(ns);
	if (refusal == GM_REFUSAL_AWAY) /* as asked */
		return;
	gm_counter_add(0, refused ? GM_C_sleep_refused : sleeps ? GM_C_sleeps : GM_C_wakes, 1);
	if (!refused)
		gm_counter_add(0, sleeps ? GM_C_sleep_ns : GM_C_wake_ns, ns);
	gm_log_put(&(struct gm_record){.address = refused && !sleeps,
				       .size = bytes,
				       .id = refusal,
				       .duration = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX,
				       .device = 255,
				       .kind = (uint8_t)(refused ? GM_RECORD_REFUSED : kind)});
	if (refused)
		gm_msg(GM_MSG_NOTICE, "%s: %s%s%s", sleeps ? "does not sleep" : "does not wake",
		       gm_refusal_text(refusal), *name ? ": " : "", name);
}

/* The two are read one after the other, so `part` may be the greater. */
static uint64_t less(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

void gm_sleep_figures(struct gm_control *control, bool filed)
{
	gm_futex_lock_take(&lock);
	memcpy(control->refused_for, refused_for, sizeof refused_for);
	control->refusal = last;
	control->ns = last_ns;
	gm_futex_lock_release(&lock);
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		struct gm_pool_stats stats = {0};
		if (pool)
			gm_pool_stats(pool, &stats);
		const uint64_t created = gm_physical_bytes(i).away, away = stats.away + created;
		control->mapped += stats.mapped - stats.vacant + stats.lent + created;
		control->away += away;
		control->filed += filed ? away : 0;
		control->pinned += stats.pinned;
		control->lent += stats.lent;
		control->questions += stats.stand_ins;
		control->driver += gm_counter_get(i, GM_C_foreign_driver);
		control->async += gm_counter_get(i, GM_C_foreign_async);
		control->created += less(gm_counter_get(i, GM_C_foreign_created), created);
		control->array += gm_counter_get(i, GM_C_foreign_array);
		control->managed +=
			less(gm_counter_get(i, GM_C_foreign_managed), gm_prefetch_sent(i));
		control->graph += gm_counter_get(i, GM_C_foreign_graph);
		control->external += gm_counter_get(i, GM_C_foreign_external);
	}
}

void gm_sleep_figures_forget(void)
{
	gm_futex_lock_init(&lock, GM_LOCK_RANK_TABLE);
}
