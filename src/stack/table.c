/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/table.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "base/hash.h"
#include "base/lock.h"
#include "log/count.h"
#include "log/log.h"
#include "stack/objects.h"

struct stack {
	UT_hash_handle hh;
	_Atomic uint64_t written; /* newest segment with its record */
	uint32_t number;
	/* The key: the same as the first members of struct gm_trace. */
	_Alignas(8) uint32_t n;
	uint32_t flags;
	struct gm_frame frames[];
};
_Static_assert(offsetof(struct stack, frames) - offsetof(struct stack, n) ==
		       offsetof(struct gm_trace, frames),
	       "one key in both");

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_STACK);
static struct stack *table;				   /* by key */
static _Atomic(struct stack *) by_number[GM_TABLE_STACKS]; /* index: number - 1 */
static uint32_t stacks_kept, frames_kept;

/* Stacks by their hint and the other frames. An entry has the hint's serial, and the number. */
enum { KNOWN = 1 << 14, NUMBER_BITS = 17 };
_Static_assert(GM_TABLE_STACKS < 1 << NUMBER_BITS, "a number has so many bits");
static _Atomic uint64_t known[KNOWN];

/* uthash's hash takes 1 us for fifty frames. This one sums products that do not depend on each
 * other. */
static unsigned trace_hash(const struct gm_trace *trace)
{
	const uint64_t odd = 0x9e3779b97f4a7c15u;
	uint64_t hash = trace->n ^ (uint64_t)trace->flags << 32, salt = odd;
	for (uint32_t i = 0; i < trace->n; i++, salt += odd) {
		const struct gm_frame *f = &trace->frames[i];
		hash += (f->place + salt) *
			(((uint64_t)f->object << 32 | f->line) * 2 + (salt << 8 | 1));
	}
	hash ^= hash >> 29;
	hash *= odd;
	return (unsigned)(hash >> 32);
}

static size_t key_size(const struct gm_trace *trace)
{
	return offsetof(struct gm_trace, frames) + trace->n * sizeof trace->frames[0];
}

static struct stack *stack_add(const struct gm_trace *trace, unsigned hash)
{
	size_t key = key_size(trace);
	gm_lock_assert_held(GM_LOCK_RANK_STACK);
	if (stacks_kept >= GM_TABLE_STACKS || frames_kept + trace->n > GM_TABLE_FRAMES)
		return NULL;
	struct stack *stack = calloc(1, offsetof(struct stack, n) + key);
	if (!stack)
		return NULL;
	memcpy(&stack->n, trace, offsetof(struct gm_trace, frames));
	memcpy(stack->frames, trace->frames, key - offsetof(struct gm_trace, frames));
	stack->number = stacks_kept + 1;
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, table, &stack->n, key, hash, stack);
	if (gm_hash_failed(stack)) {
		free(stack);
		return NULL;
	}
	atomic_store_explicit(&by_number[stacks_kept++], stack, memory_order_release);
	frames_kept += trace->n;
	return stack;
}

/* NULL: no room. A stack lives as long as the process. */
static struct stack *stack_of(const struct gm_trace *trace)
{
	struct stack *stack;
	unsigned hash = trace_hash(trace);
	bool fresh = false;
	gm_lock_take(&lock);
	HASH_FIND_BYHASHVALUE(hh, table, &trace->n, key_size(trace), hash, stack);
	if (!stack) {
		stack = stack_add(trace, hash);
		fresh = true;
	}
	gm_lock_release(&lock);
	if (fresh)
		gm_counter_add(0, stack ? GM_C_stacks : GM_C_stacks_lost, 1);
	return stack;
}

uint32_t gm_table_number(const struct gm_trace *trace)
{
	const struct stack *stack = stack_of(trace);
	return stack ? stack->number : 0;
}

static struct stack *stack_numbered(uint32_t number)
{
	if (!number || number > GM_TABLE_STACKS)
		return NULL;
	return atomic_load_explicit(&by_number[number - 1], memory_order_acquire);
}

const struct gm_frame *gm_table_frames(uint32_t number, uint32_t *n)
{
	const struct stack *stack = stack_numbered(number);
	*n = stack ? stack->n : 0;
	return stack ? stack->frames : NULL;
}

/* The lock is not held while records are written. */
static void stack_write(struct stack *stack)
{
	uint64_t sequence = gm_log_sequence();
	if (GM_LIKELY(atomic_load_explicit(&stack->written, memory_order_relaxed) == sequence) ||
	    atomic_exchange_explicit(&stack->written, sequence, memory_order_relaxed) == sequence)
		return;
	struct gm_record record = {.size = stack->n,
				   .held = stack->flags,
				   .id = stack->number,
				   .device = 255,
				   .kind = GM_RECORD_STACK};
	if (stack->n && stack->frames[stack->n - 1].object == GM_FRAME_FORWARD)
		gm_table_write((uint32_t)stack->frames[stack->n - 1].place);
	gm_objects_write(stack->frames, stack->n, sequence);
	gm_log_put_body(&record, stack->frames, stack->n * sizeof *stack->frames);
}

void gm_table_write(uint32_t number)
{
	struct stack *stack = stack_numbered(number);
	if (stack)
		stack_write(stack);
}

static _Atomic uint64_t *known_place(const struct gm_trace *trace, struct gm_table_hint hint)
{
	uint64_t sum = hint.serial * 0x9e3779b97f4a7c15u;
	for (uint32_t i = hint.n; i < trace->n; i++)
		sum += (trace->frames[i].place << 7) + trace->frames[i].line;
	return &known[sum * 0x9e3779b97f4a7c15u >> 50];
}
_Static_assert(KNOWN == 1 << 14, "fourteen bits of the hash");

/* Equal serials mean equal first frames. */
static struct stack *stack_known(const struct gm_trace *trace, struct gm_table_hint hint,
				 uint64_t word)
{
	struct stack *stack = NULL;
	if (word >> NUMBER_BITS == hint.serial)
		stack = stack_numbered((uint32_t)word & ((1u << NUMBER_BITS) - 1));
	return stack && stack->n == trace->n && stack->flags == trace->flags &&
			       !memcmp(stack->frames + hint.n, trace->frames + hint.n,
				       (trace->n - hint.n) * sizeof *trace->frames)
		       ? stack
		       : NULL;
}

uint32_t gm_table_put(const struct gm_trace *trace, struct gm_table_hint hint)
{
	_Atomic uint64_t *place = hint.serial ? known_place(trace, hint) : NULL;
	struct stack *stack = NULL;
	if (place)
		stack = stack_known(trace, hint, atomic_load_explicit(place, memory_order_relaxed));
	if (GM_UNLIKELY(!stack)) {
		stack = stack_of(trace);
		if (place && stack)
			atomic_store_explicit(place, hint.serial << NUMBER_BITS | stack->number,
					      memory_order_relaxed);
	}
	if (stack)
		stack_write(stack);
	return stack ? stack->number : 0;
}

void gm_table_forget(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_STACK);
	table = NULL;
	for (uint32_t i = 0; i < stacks_kept; i++)
		atomic_store_explicit(&by_number[i], NULL, memory_order_relaxed);
	for (uint32_t i = 0; i < KNOWN; i++)
		atomic_store_explicit(&known[i], 0, memory_order_relaxed);
	stacks_kept = frames_kept = 0;
}
