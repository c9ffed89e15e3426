/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/sequence.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "log/log.h"
#include "shim/call.h"
#include "shim/torch/behind.h"
#include "stack/stack.h"

#define NEXT "_ZN2at15sequence_number17get_and_incrementEv"

/* A std::shared_ptr<Node> is returned in memory, as this structure is. */
struct node_returned {
	const char *node;
	char *control;
	void *more;
};
typedef uint64_t number_fn(void);
typedef struct node_returned node_fn(void);

__attribute__((visibility("default"))) number_fn gm_sequence_next __asm__(NEXT);

static struct gm_behind next_behind = {.symbol = NEXT, .own = (const void *)gm_sequence_next};
static struct gm_behind thread_behind = {.symbol = "_ZN2at14RecordFunction15currentThreadIdEv",
					 .own = (const void *)gm_sequence_next};
static struct gm_behind node_behind = {.symbol = "_ZN5torch8autograd16get_current_nodeEv",
				       .own = (const void *)gm_sequence_next};

/* --- the table --- */

/* A row is one word: the thread's number, the node's, and the stack's, the lowest bits of each.
 * Zero: empty. */
enum { ROWS = 1 << 16, STACK_BITS = 17, NODE_BITS = 31 };
static _Atomic(_Atomic uint64_t *) rows;

static uint64_t key_make(uint64_t thread, uint64_t node)
{
	return thread << (NODE_BITS + STACK_BITS) | (node & ((UINT64_C(1) << NODE_BITS) - 1))
							    << STACK_BITS;
}

/* Successive nodes of a thread have successive rows. The factor, odd, keeps threads apart. */
static _Atomic uint64_t *row_of(uint64_t thread, uint64_t node)
{
	_Atomic uint64_t *all = atomic_load_explicit(&rows, memory_order_acquire);
	return all ? &all[(node + thread * 40503) % ROWS] : NULL;
}

/* The first node makes the table; without host memory there is none. */
static void rows_make(void)
{
	_Atomic uint64_t *none = NULL, *all;
	if (atomic_load_explicit(&rows, memory_order_relaxed))
		return;
	all = calloc(ROWS, sizeof *all);
	if (!atomic_compare_exchange_strong(&rows, &none, all))
		free(all);
}

static void row_write(uint64_t thread, uint64_t node, uint32_t stack)
{
	rows_make();
	_Atomic uint64_t *row = row_of(thread, node);
	if (row)
		atomic_store_explicit(row, key_make(thread, node) | stack, memory_order_relaxed);
}

static uint32_t row_read(uint64_t thread, uint64_t node)
{
	const uint64_t stack_mask = (UINT64_C(1) << STACK_BITS) - 1;
	const _Atomic uint64_t *row = row_of(thread, node);
	const uint64_t word = row ? atomic_load_explicit(row, memory_order_relaxed) : 0;
	return (word & ~stack_mask) == key_make(thread, node) ? (uint32_t)(word & stack_mask) : 0;
}

/* --- forward --- */

/* at::RecordFunction's number of the calling thread, from 1; 0: unknown. */
static uint64_t thread_number(const void *caller)
{
	static GM_TLS uint64_t number;
	if (!number) {
		number_fn *ask = (number_fn *)gm_behind_find(&thread_behind, caller);
		number = ask ? ask() : 0;
	}
	return number;
}

static void node_remember(uint64_t node, const void *caller)
{
	const uint64_t thread = thread_number(caller);
	const uint32_t stack = thread ? gm_stack_capture_python() : 0;
	if (stack)
		row_write(thread, node, stack);
}

/* Without PyTorch's own definition the numbers are of this one. */
static uint64_t number_next(const void *caller)
{
	static GM_TLS uint64_t last;
	number_fn *next = (number_fn *)gm_behind_find(&next_behind, caller);
	return next ? next() : last++;
}

uint64_t gm_sequence_next(void)
{
	const void *caller = __builtin_return_address(0);
	const uint64_t number = number_next(caller);
	if (gm_log_wants(GM_RECORD_TENSOR) && gm_stacks_are_on() && gm_shim_enter()) {
		node_remember(number, caller);
		gm_shim_leave();
	}
	return number;
}

/* --- backward --- */

/* In a Node, and in the counts of a std::shared_ptr. */
enum { SEQUENCE = 24, THREAD = 48, USES = 8 };

/* The engine holds another reference to the node that it runs, so ours is never the last. */
static void node_give_back(const struct node_returned *node)
{
	if (node->control)
		atomic_fetch_sub((_Atomic int *)(void *)(node->control + USES), 1);
}

uint32_t gm_sequence_stack(const void *caller)
{
	uint64_t number, thread;
	if (!atomic_load_explicit(&rows, memory_order_relaxed))
		return 0;
	node_fn *ask = (node_fn *)gm_behind_find(&node_behind, caller);
	if (!ask)
		return 0;
	const struct node_returned node = ask();
	if (!node.node)
		return 0;
	memcpy(&number, node.node + SEQUENCE, sizeof number);
	memcpy(&thread, node.node + THREAD, sizeof thread);
	node_give_back(&node);
	return row_read(thread, number);
}

void gm_sequence_forget(void)
{
	_Atomic uint64_t *all = atomic_load(&rows);
	for (size_t i = 0; all && i < ROWS; i++)
		atomic_store_explicit(&all[i], 0, memory_order_relaxed);
}
