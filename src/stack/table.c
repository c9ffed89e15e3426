/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/table.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/lock.h"
#include "log/count.h"
#include "log/log.h"
#include "stack/objects.h"

struct stack {
	UT_hash_handle hh;
	_Atomic uint64_t written; /* newest segment that has its record */
	uint32_t number;
	/* As the first members of struct gm_trace, which are the key. */
	_Alignas(8) uint32_t n;
	uint32_t flags;
	struct gm_frame frames[];
};
_Static_assert(offsetof(struct stack, frames) - offsetof(struct stack, n) ==
		       offsetof(struct gm_trace, frames),
	       "one key in both");

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_STACK);
static struct stack *table;		   /* by key */
static GM_ARRAY(struct stack *) by_number; /* from 0 */
static uint32_t frames_kept;

/* uthash's own takes 1 us for fifty frames. */
static unsigned trace_hash(const struct gm_trace *trace)
{
	uint64_t hash = trace->n ^ (uint64_t)trace->flags << 32;
	for (uint32_t i = 0; i < trace->n; i++) {
		const struct gm_frame *f = &trace->frames[i];
		hash ^= f->place ^ (uint64_t)f->object << 40 ^ (uint64_t)f->line << 20;
		hash *= 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return (unsigned)(hash >> 32 ^ hash);
}

static size_t key_size(const struct gm_trace *trace)
{
	return offsetof(struct gm_trace, frames) + trace->n * sizeof trace->frames[0];
}

static struct stack *stack_add(const struct gm_trace *trace, unsigned hash)
{
	size_t key = key_size(trace);
	gm_lock_assert_held(GM_LOCK_RANK_STACK);
	if (by_number.n >= GM_TABLE_STACKS || frames_kept + trace->n > GM_TABLE_FRAMES ||
	    !gm_array_reserve(&by_number, by_number.n + 1))
		return NULL;
	struct stack *stack = calloc(1, offsetof(struct stack, n) + key);
	if (!stack)
		return NULL;
	memcpy(&stack->n, trace, offsetof(struct gm_trace, frames));
	memcpy(stack->frames, trace->frames, key - offsetof(struct gm_trace, frames));
	stack->number = (uint32_t)by_number.n + 1;
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, table, &stack->n, key, hash, stack);
	if (gm_hash_failed(stack)) {
		free(stack);
		return NULL;
	}
	by_number.at[by_number.n++] = stack;
	frames_kept += trace->n;
	return stack;
}

uint32_t gm_table_number(const struct gm_trace *trace)
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
	return stack ? stack->number : 0;
}

/* A stack lives as long as the process. */
static struct stack *stack_numbered(uint32_t number)
{
	gm_lock_take(&lock);
	struct stack *stack = number && number <= by_number.n ? by_number.at[number - 1] : NULL;
	gm_lock_release(&lock);
	return stack;
}

const struct gm_frame *gm_table_frames(uint32_t number, uint32_t *n)
{
	const struct stack *stack = stack_numbered(number);
	*n = stack ? stack->n : 0;
	return stack ? stack->frames : NULL;
}

/* The lock is not held while records are written. */
void gm_table_write(uint32_t number)
{
	uint64_t sequence = gm_log_sequence();
	struct stack *stack = stack_numbered(number);
	if (!stack ||
	    atomic_exchange_explicit(&stack->written, sequence, memory_order_relaxed) == sequence)
		return;
	struct gm_record record = {.size = stack->n,
				   .held = stack->flags,
				   .id = number,
				   .device = 255,
				   .kind = GM_RECORD_STACK};
	gm_objects_write(stack->frames, stack->n, sequence);
	gm_log_put_body(&record, stack->frames, stack->n * sizeof *stack->frames);
}

void gm_table_forget(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_STACK);
	table = NULL;
	memset(&by_number, 0, sizeof by_number);
	frames_kept = 0;
}
