/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/lend.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/msg.h"
#include "context/poll.h"
#include "knob/knob.h"
#include "log/count.h"
#include "pool/vacant.h"
#include "shim/block/network.h"
#include "shim/call.h"
#include "shim/context/capture.h"
#include "shim/memory/device.h"
#include "shim/torch/border.h"
#include "shim/torch/origin.h"

#define ALLOCATOR "_ZN3c104cuda20CUDACachingAllocator9allocatorE"

enum {
	TAKEN = 64,    /* units that are vacated in a row */
	BETWEEN = 128, /* frees between two fences, once memory is lent */
	ALLOCATE = 2,  /* the slot of c10::Allocator::allocate in its table */
};
#define BEYOND ((size_t)1 << 62) /* PyTorch refuses such a request before it takes a lock */

atomic_bool gm_lend_on;
static struct gm_border borders[GM_COUNTER_DEVICES];
static bool always; /* GPUMEM_LEND=always */

static void borders_open(void)
{
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++) {
		memset(&borders[i], 0, sizeof borders[i]);
		gm_lock_init(&borders[i].lock, GM_LOCK_RANK_TABLE);
		pthread_cond_init(&borders[i].moved, NULL);
	}
}

void gm_lend_start(void)
{
	const struct gm_knobs *knobs = gm_knob_get();
	const char *hook = getenv("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"), *why = NULL;
	if (knobs->lend.choice == GM_LEND_OFF)
		return;
	if (knobs->mode.choice != GM_MODE_POOL)
		why = "GPUMEM_MODE=trace only watches";
	else if (knobs->ipc.choice == GM_IPC_NATIVE)
		why = "GPUMEM_IPC=native leaves segments to the driver";
	else if (!gm_fence_ops(&gm_shim_driver)->record)
		why = "the driver is older than 12.5";
	else if (!gm_poll_captures_are_counted())
		why = "the driver may begin captures that gpumem does not know";
	else if (hook && strcmp(hook, "0") != 0)
		why = "NCCL registers segments (TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK)";
	if (why) {
		gm_msg(GM_MSG_WARN, "GPUMEM_LEND has no effect: %s", why);
		return;
	}
	always = knobs->lend.choice == GM_LEND_ALWAYS;
	borders_open();
	atomic_store(&gm_lend_on, true);
}

void gm_lend_pool_config(unsigned ordinal, struct gm_pool_config *config)
{
	(void)ordinal;
	config->short_handles = gm_lend_is_on();
}

static struct gm_border *border_of(unsigned ordinal)
{
	return &borders[ordinal];
}

/* --- taking unused memory --- */

/* Make at least `bytes` of unused chunks idle that need no wait. Returns the bytes. */
static uint64_t unused_take(unsigned ordinal, struct gm_border *border, uint64_t bytes)
{
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	struct gm_unit *units[TAKEN];
	bool vacant[TAKEN];
	uint64_t got = 0;
	size_t n = 1;
	while (got < bytes && n) {
		gm_lock_take(&border->lock);
		n = border->off ? 0 : gm_segments_take(&border->set, bytes - got, units, TAKEN);
		gm_lock_release(&border->lock);
		for (size_t i = 0; i < n; i++) {
			got += gm_pool_vacate(pool, units[i]->base, units[i]->size);
			vacant[i] = gm_pool_is_vacant(pool, units[i]->base);
		}
		gm_lock_take(&border->lock);
		for (size_t i = 0; i < n; i++)
			gm_segments_gone(&border->set, units[i], vacant[i]);
		if (n)
			atomic_store(&border->lends, true);
		pthread_cond_broadcast(&border->moved);
		gm_lock_release(&border->lock);
	}
	gm_counter_add(ordinal, GM_C_lend_bytes, got);
	return got;
}

/* While a capture is open no fence is possible, and libraries may know memory by its address. */
static bool memory_may_be_taken(void)
{
	return gm_border_fences_are_possible() && gm_shim_may_remap(NULL);
}

/* Is there an unused unit, which work of the GPU may still use? */
static bool unused_any(struct gm_border *border)
{
	gm_lock_take(&border->lock);
	const bool any = border->set.first != NULL && !border->off;
	gm_lock_release(&border->lock);
	return any;
}

/* A call of the program gets here several times before it fails; it waits once. */
static bool block_wait(struct gm_border *border)
{
	static GM_TLS uint64_t rest; /* until this time the thread does not wait again */
	if (gm_clock_ns() < rest)
		return false;
	const bool passed = gm_border_wait(border, GM_LEND_WAIT_BLOCK);
	rest = passed ? 0 : gm_clock_ns() + GM_LEND_REST;
	return passed;
}

/* The same; for what is missing then, wait. */
static uint64_t memory_take(unsigned ordinal, struct gm_border *border, uint64_t bytes, bool waits)
{
	if (!memory_may_be_taken())
		return 0;
	gm_border_poll(border);
	uint64_t got = unused_take(ordinal, border, bytes);
	if (got < bytes && waits && unused_any(border) && block_wait(border))
		got += unused_take(ordinal, border, bytes - got);
	return got;
}

uint64_t gm_lend_reclaim(unsigned ordinal, uint64_t bytes)
{
	if (!gm_lend_is_on() || !bytes || !gm_shim_pool_if_any(ordinal))
		return 0;
	const uint64_t lack =
		bytes == UINT64_MAX ? bytes : gm_pool_lack(gm_shim_pool_if_any(ordinal), bytes);
	const uint64_t got = memory_take(ordinal, border_of(ordinal), lack, true);
	gm_counter_add(ordinal, GM_C_lend_calls, got > 0);
	return got;
}

/* --- memory for a tensor --- */

/* A hand-out in progress. */
struct hand_out {
	unsigned ordinal;
	struct gm_border *border;
	struct gm_pool *pool;
	uint64_t missing; /* bytes of its units that have no memory yet */
	bool all;	  /* lending ends: memory of the host without a limit */
};

static bool unit_host(const struct hand_out *h, const struct gm_unit *unit)
{
	struct gm_border *border = h->border;
	const uint64_t most = gm_shim_devices[h->ordinal].total / GM_LEND_HOST_PART;
	gm_lock_take(&border->lock);
	const bool may = h->all || border->set.hosted + unit->size <= most;
	gm_lock_release(&border->lock);
	if (!may || gm_pool_occupy_host(h->pool, unit->base, unit->size) != CUDA_SUCCESS)
		return false;
	GM_MSG_ONCE(GM_MSG_WARN,
		    "GPUMEM_LEND: device %u has no memory for a tensor, which is in memory of the "
		    "host; its kernels are slow",
		    h->ordinal);
	return true;
}

static void unit_came(struct hand_out *h, struct gm_unit *unit, enum gm_unit_came how)
{
	gm_lock_take(&h->border->lock);
	gm_segments_came(&h->border->set, unit, how);
	pthread_cond_broadcast(&h->border->moved);
	gm_lock_release(&h->border->lock);
	h->missing -= unit->size;
	gm_counter_add(h->ordinal, GM_C_lend_returned, how != GM_UNIT_STAYED_AWAY);
}

/* Idle memory for the units that are COMING, as far as there is any. */
static void units_fill(struct hand_out *h, struct gm_unit *units, uint32_t n)
{
	for (uint32_t i = 0; i < n && h->missing; i++) {
		if (units[i].state != GM_UNIT_COMING) /* changed by this thread alone */
			continue;
		if (gm_pool_occupy(h->pool, units[i].base, units[i].size) == CUDA_SUCCESS)
			unit_came(h, &units[i], GM_UNIT_CAME);
	}
}

/* The first unit from number *next on that is COMING and has the size; *next is then behind it.
 * NULL: there is none. */
static struct gm_unit *unit_match(struct gm_unit *units, uint32_t n, uint32_t *next, uint64_t size)
{
	for (uint32_t i = *next; i < n; i++)
		if (units[i].state == GM_UNIT_COMING && units[i].size == size) {
			*next = i + 1;
			return &units[i];
		}
	return NULL;
}

/* Units that were taken, and the units that get their memory; NULL: none of that size is COMING. */
struct matched {
	size_t n;
	struct gm_unit *from[TAKEN], *to[TAKEN];
	bool moved[TAKEN];
};

static void matched_move(struct hand_out *h, struct matched *m)
{
	CUdeviceptr from[TAKEN], to[TAKEN];
	for (size_t i = 0; i < m->n; i++) {
		from[i] = m->from[i]->base;
		to[i] = m->to[i] ? m->to[i]->base : 0;
	}
	gm_pool_shift(h->pool, from, to, m->n, m->moved);
	for (size_t i = 0; i < m->n; i++)
		if (!m->moved[i])
			gm_pool_vacate(h->pool, from[i], m->from[i]->size);
}

static void matched_end(struct hand_out *h, struct matched *m)
{
	uint64_t taken = 0;
	for (size_t i = 0; i < m->n; i++) {
		const bool vacant = m->moved[i] || gm_pool_is_vacant(h->pool, m->from[i]->base);
		taken += vacant && !m->from[i]->hosted ? m->from[i]->size : 0;
		gm_lock_take(&h->border->lock);
		gm_segments_gone(&h->border->set, m->from[i], vacant);
		atomic_store(&h->border->lends, true);
		pthread_cond_broadcast(&h->border->moved);
		gm_lock_release(&h->border->lock);
		if (m->moved[i])
			unit_came(h, m->to[i], GM_UNIT_CAME);
	}
	gm_counter_add(h->ordinal, GM_C_lend_bytes, taken);
}

/* Memory of unused units for those that are COMING: it moves there at once, without a stay in the
 * pool. What has another size becomes idle. */
static void units_shift(struct hand_out *h, struct gm_unit *units, uint32_t n)
{
	struct matched m = {.n = 1};
	gm_border_poll(h->border);
	while (h->missing && m.n) {
		uint32_t next = 0;
		gm_lock_take(&h->border->lock);
		m.n = h->border->off ? 0
				     : gm_segments_take(&h->border->set, h->missing, m.from, TAKEN);
		gm_lock_release(&h->border->lock);
		for (size_t i = 0; i < m.n; i++)
			m.to[i] = unit_match(units, n, &next, m.from[i]->size);
		matched_move(h, &m);
		matched_end(h, &m);
	}
}

static void units_host(struct hand_out *h, struct gm_unit *units, uint32_t n, bool *all)
{
	for (uint32_t i = 0; i < n && h->missing; i++) {
		if (units[i].state != GM_UNIT_COMING)
			continue;
		*all = (*all || h->all) && unit_host(h, &units[i]);
		unit_came(h, &units[i], *all ? GM_UNIT_CAME_HOSTED : GM_UNIT_STAYED_AWAY);
	}
}

/* Give memory to those of the units that are COMING. False: not to all. */
static bool units_bring(struct hand_out *h, struct gm_unit *units, uint32_t n)
{
	bool all = true;
	for (uint32_t i = 0; i < n; i++) /* memory of the host, which is replaced */
		if (units[i].state == GM_UNIT_COMING)
			gm_pool_vacate(h->pool, units[i].base, units[i].size);
	units_fill(h, units, n);
	for (unsigned turn = 0; turn < 2 && h->missing && !h->all && memory_may_be_taken();
	     turn++) {
		if (turn == 0 || (unused_any(h->border) && gm_border_wait(h->border, GM_LEND_WAIT)))
			units_shift(h, units, n);
		units_fill(h, units, n);
	}
	units_host(h, units, n, &all);
	return all;
}

static bool units_are_moving(const struct gm_unit *units, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (units[i].state == GM_UNIT_LEAVING || units[i].state == GM_UNIT_COMING)
			return true;
	return false;
}

/* Under the lock, released meanwhile: the units get the memory that they need. */
static bool units_provide(struct hand_out *h, struct gm_segment *segment, struct gm_unit *units,
			  uint32_t n)
{
	struct gm_border *border = h->border;
	bool brought = true;
	segment->users++;
	while (units_are_moving(units, n))
		gm_lock_wait(&border->lock, &border->moved);
	h->missing = gm_segments_claim(&border->set, units, n, !border->off);
	if (h->missing) {
		gm_lock_release(&border->lock);
		const uint64_t begin = gm_clock_ns();
		brought = units_bring(h, units, n);
		gm_counter_add(h->ordinal, GM_C_lend_ns, gm_clock_ns() - begin);
		gm_lock_take(&border->lock);
	}
	segment->users--;
	pthread_cond_broadcast(&border->moved);
	return brought;
}

/* Under the lock, released meanwhile: nothing is lent from now on, and all units get memory. */
static void lending_end(struct hand_out *h, const char *why)
{
	struct gm_border *border = h->border;
	if (border->off)
		return;
	border->off = true;
	gm_counter_set(h->ordinal, GM_C_lend_off, 1);
	h->all = true;
	for (struct gm_segment *segment = gm_segments_next(&border->set, 0); segment;) {
		const CUdeviceptr end = segment->base + segment->size;
		units_provide(h, segment, segment->units, segment->n);
		segment = gm_segments_next(&border->set, end);
	}
	gm_lock_release(&border->lock);
	gm_msg(GM_MSG_WARN,
	       "GPUMEM_LEND ends on device %u: PyTorch's cache behaves unexpectedly: %s",
	       h->ordinal, why);
	gm_lock_take(&border->lock);
}

/* Under the lock, released meanwhile. */
static bool tensor_born(struct hand_out *h, CUdeviceptr address, uint64_t bytes, uint64_t sum)
{
	struct gm_border *border = h->border;
	uint32_t n = 0;
	const bool keep = gm_capture_any() || !gm_poll_captures_are_counted();
	const char *why =
		border->off ? NULL : gm_segments_hand_out(&border->set, address, bytes, sum, keep);
	if (why)
		lending_end(h, why);
	struct gm_segment *segment = gm_segments_find(&border->set, address);
	struct gm_unit *units = segment ? gm_segment_units(segment, address, bytes, &n) : NULL;
	const bool brought = !units || units_provide(h, segment, units, n);
	if (!brought && !border->off)
		gm_segments_undo(&border->set, address, bytes);
	return brought;
}

/* Was memory lent, so that a tensor may need some? */
static bool border_lends(const struct gm_border *border)
{
	return always || atomic_load_explicit(&border->lends, memory_order_relaxed);
}

static bool fence_is_due(const struct gm_border *border)
{
	const uint64_t between = always ? 1 : BETWEEN;
	return border_lends(border) && border->set.frees - border->fenced >= between &&
	       border->n_fences < GM_BORDER_FENCES;
}

/* Where memory was lent, memory may move: the program may sleep, and is woken. */
static bool report_born(struct hand_out *h, CUdeviceptr address, uint64_t bytes, uint64_t sum)
{
	struct gm_border *border = h->border;
	const bool gated = border_lends(border) && gm_shim_gate() == CUDA_SUCCESS;
	gm_lock_take(&border->lock);
	const bool brought = tensor_born(h, address, bytes, sum);
	gm_lock_release(&border->lock);
	if (always && gated)
		memory_take(h->ordinal, border, UINT64_MAX, false);
	if (gated)
		gm_door_leave();
	gm_counter_add(h->ordinal, GM_C_lend_refused, !brought);
	return brought;
}

static void report_gone(struct hand_out *h, CUdeviceptr address, uint64_t bytes, uint64_t sum)
{
	struct gm_border *border = h->border;
	const char *why = NULL;
	uint64_t ignored;
	gm_lock_take(&border->lock);
	if (!border->off)
		why = gm_segments_take_back(&border->set, address, bytes, sum);
	const bool due = fence_is_due(border);
	if (why)
		lending_end(h, why);
	gm_lock_release(&border->lock);
	if (due && gm_door_try()) {
		gm_border_fence(border, &ignored);
		gm_door_leave();
	}
}

bool gm_lend_report(unsigned ordinal, CUdeviceptr address, int64_t bytes, uint64_t sum)
{
	struct hand_out h = {.ordinal = ordinal,
			     .border = border_of(ordinal),
			     .pool = gm_shim_pool_if_any(ordinal)};
	const unsigned inside = gm_shim_inside;
	bool brought = true;
	gm_shim_inside = 1;
	if (bytes > 0)
		brought = report_born(&h, address, (uint64_t)bytes, sum);
	else
		report_gone(&h, address, (uint64_t)-bytes, sum);
	gm_shim_inside = inside;
	return brought;
}

/* c10::DataPtr, or more: the callee writes it by a hidden pointer. */
struct data_pointer {
	char bytes[64];
};

void gm_lend_refuse(unsigned ordinal)
{
	void **allocator = atomic_load(&border_of(ordinal)->allocator);
	void **table = allocator ? *(void ***)*allocator : NULL;
	if (table)
		((struct data_pointer(*)(void *, size_t))table[ALLOCATE])(*allocator, BEYOND);
}

/* --- blocks --- */

static uint64_t place(void *pool, CUdeviceptr at, CUdeviceptr *base)
{
	return gm_pool_place(pool, at, base);
}

void gm_lend_made(const struct gm_block *block)
{
	struct gm_border *border = border_of(block->ordinal);
	struct gm_pool *pool = gm_shim_pool_if_any(block->ordinal);
	struct gm_object cache;
	uint64_t number;
	if (border->off || block->held % GM_POOL_GRANULE || !gm_origin_is_cache(&cache))
		return;
	void *allocator = gm_object_symbol(&cache, ALLOCATOR);
	struct gm_segment *segment =
		allocator ? gm_segment_make(block->base, block->held, block->context, place, pool)
			  : NULL;
	if (!segment)
		return;
	atomic_store(&border->allocator, allocator);
	gm_lock_take(&border->lock);
	const bool added = gm_segments_add(&border->set, segment);
	border->set.frees++; /* its memory may have been freed by others a moment ago */
	gm_lock_release(&border->lock);
	if (!added)
		gm_segment_drop(segment);
	gm_border_fence(border, &number); /* so that later calls need not wait for it */
}

/* Under the lock, released meanwhile. */
static void segment_remove(struct gm_border *border, struct gm_segment *segment)
{
	while (gm_segment_is_moving(segment))
		gm_lock_wait(&border->lock, &border->moved);
	gm_segments_remove(&border->set, segment);
}

struct gm_lent gm_lend_free_begin(const struct gm_pool *pool, CUdeviceptr address)
{
	struct gm_lent lent = {NULL, 0};
	while (lent.ordinal < gm_shim_n_devices && gm_shim_pool_if_any(lent.ordinal) != pool)
		lent.ordinal++;
	struct gm_border *border = border_of(lent.ordinal);
	gm_lock_take(&border->lock);
	struct gm_segment *segment = gm_segments_find(&border->set, address);
	if (segment && segment->base == address) {
		segment_remove(border, segment);
		lent.segment = segment;
	}
	gm_lock_release(&border->lock);
	return lent;
}

void gm_lend_free_end(struct gm_lent lent, bool freed)
{
	struct gm_border *border = border_of(lent.ordinal);
	if (!lent.segment)
		return;
	if (!freed) {
		gm_lock_take(&border->lock);
		freed = !gm_segments_add(&border->set, lent.segment);
		gm_lock_release(&border->lock);
	}
	if (freed)
		gm_segment_drop(lent.segment);
}

void gm_lend_context_gone(struct gm_context *context)
{
	struct gm_border *border = border_of(context->ordinal);
	if (!gm_lend_is_on())
		return;
	gm_lock_take(&border->lock);
	for (size_t i = border->set.n; i-- > 0;) {
		struct gm_segment *segment = border->set.at[i];
		if (segment->context != context->key)
			continue;
		segment_remove(border, segment);
		gm_segment_drop(segment);
		i = border->set.n; /* others may have left meanwhile */
	}
	gm_lock_release(&border->lock);
}

void gm_lend_forget(void)
{
	if (gm_lend_is_on())
		borders_open();
	atomic_store(&gm_lend_on, false);
}
