/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/process.h"

#include "heap/list.h"

static struct gm_gate gate; /* of all heaps */
static atomic_uint generation;

unsigned gm_heap_generation(void)
{
	return atomic_load(&generation);
}

bool gm_heap_is_ours(const struct gm_heap_host *heap)
{
	return heap->generation == atomic_load(&generation);
}

bool gm_heap_begin_calls(const struct gm_heap_host *heap)
{
	return gm_heap_is_ours(heap) && gm_gate_enter(&gate);
}

void gm_heap_end_calls(void)
{
	gm_gate_leave(&gate);
}

bool gm_heap_is_exiting(void)
{
	return gm_gate_is_closed(&gate);
}

void gm_heap_exit(void)
{
	gm_gate_close(&gate);
}

void gm_heap_forget_all(void)
{
	gm_gate_forget(&gate);
	atomic_fetch_add(&generation, 1);
	atomic_store(&gm_heap_sample_at, UINT64_MAX);
	gm_heap_list_forget();
}
