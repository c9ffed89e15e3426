/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What counters and log are told of heaps (gpumem-log(5), Device heaps), and the list of all heaps,
 * whoever made them.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "heap/host.h"
#include "log/count.h"
#include "log/log.h"

/* --- the list --- */

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static pthread_cond_t let_go = PTHREAD_COND_INITIALIZER;
static struct gm_heap_host *all;

struct gm_heap_host *gm_heap_pin_next(struct gm_heap_host *heap, uint64_t key)
{
	gm_lock_take(&lock);
	struct gm_heap_host *next = heap ? heap->next : all;
	while (next && (next->leaving || (key && next->config.context->key != key)))
		next = next->next;
	if (next)
		next->pinned++;
	if (heap && --heap->pinned == 0)
		pthread_cond_broadcast(&let_go);
	gm_lock_release(&lock);
	return next;
}

/* It stays in the list until nobody is at it, who goes on from there. */
static void unlist(struct gm_heap_host *heap)
{
	struct gm_heap_host **at = &all;
	gm_lock_take(&lock);
	heap->leaving = true;
	while (heap->pinned)
		gm_lock_wait(&lock, &let_go);
	while (*at && *at != heap)
		at = &(*at)->next;
	if (*at)
		*at = heap->next;
	gm_lock_release(&lock);
}

void gm_heap_note_forget(void)
{
	all = NULL;
	gm_lock_init(&lock, GM_RANK_TABLE);
	pthread_cond_init(&let_go, NULL);
}

/* --- counters and records --- */

static void count(const struct gm_heap_host *heap, enum gm_counter counter, uint64_t n)
{
	gm_counter_add(heap->config.context->ordinal, counter, n);
}

static void raise_to(const struct gm_heap_host *heap, enum gm_counter peak, uint64_t value)
{
	gm_counter_raise(heap->config.context->ordinal, peak, value);
}

/* Change a gauge, and raise its peak to what it has become. */
static void change(const struct gm_heap_host *heap, enum gm_counter gauge, enum gm_counter peak,
		   uint64_t by)
{
	raise_to(heap, peak, gm_counter_change(heap->config.context->ordinal, gauge, by));
}

static struct gm_record record_of(const struct gm_heap_host *heap, enum gm_record_kind kind)
{
	const struct gm_context *context = heap->config.context;
	return (struct gm_record){
		.context = (uint32_t)context->key,
		.flags = heap->config.own ? GM_RECORD_OWN : 0,
		.device = (uint8_t)context->ordinal,
		.kind = (uint8_t)kind,
	};
}

/* With the lock held. */
static void put_sample(struct gm_heap_host *heap, unsigned flags)
{
	const struct gm_heap_figures *f = &heap->last;
	struct gm_heap_sample *said = &heap->said;
	struct gm_record record = record_of(heap, GM_RECORD_HEAP_SAMPLE);
	said->heap = heap->reserved;
	said->limit = (uint64_t)heap->limit << GM_GRANULE_SHIFT;
	said->own = heap->own;
	said->used = f->used;
	said->grown = heap->grown;
	said->shrunk = heap->shrunk;
	said->refused = heap->refusals;
	said->chunks = (uint32_t)heap->chunks.n;
	record.address = f->live;
	record.size = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	record.held = f->nulls;
	record.id = f->foreign_frees;
	record.flags |= (uint16_t)flags;
	record.string = gm_log_string(gm_heap_policy_name(heap->policy));
	gm_log_put_heap(&record, said);
}

void gm_heap_note_figures(struct gm_heap_host *heap, const struct gm_heap_figures *before)
{
	const struct gm_heap_figures *f = &heap->last;
	if (heap->said.live_peak < f->live)
		heap->said.live_peak = f->live;
	change(heap, GM_C_heap_live, GM_C_heap_live_peak, f->live - before->live);
	count(heap, GM_C_heap_nulls, f->nulls - before->nulls);
	count(heap, GM_C_heap_foreign_frees, f->foreign_frees - before->foreign_frees);
	count(heap, GM_C_heap_samples, 1);
	put_sample(heap, 0);
}

void gm_heap_note_mapped(struct gm_heap_host *heap, int64_t bytes)
{
	uint64_t mapped = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	if (heap->said.mapped_peak < mapped)
		heap->said.mapped_peak = mapped;
	change(heap, GM_C_heap_mapped, GM_C_heap_mapped_peak, (uint64_t)bytes);
}

/* The bin of a growth of so many ns. */
static unsigned bin_of(uint64_t ns)
{
	unsigned bin = 0;
	for (uint64_t most = GM_HEAP_GROWTH_LEAST; bin < GM_HEAP_GROWTH_BINS - 1 && ns > most;
	     most *= 4)
		bin++;
	return bin;
}

static void put_growth(struct gm_heap_host *heap, struct gm_record record, uint64_t ns)
{
	record.held = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	record.duration = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	if (gm_log_wants(GM_RECORD_GROW))
		gm_log_put(&record);
}

void gm_heap_note_growth(struct gm_heap_host *heap, CUdeviceptr address, uint64_t bytes,
			 uint64_t want, uint64_t start)
{
	uint64_t ns = gm_clock_ns() - start;
	unsigned bin = bin_of(ns);
	struct gm_record record = record_of(heap, GM_RECORD_GROW);
	gm_lock_take(&heap->lock);
	heap->said.growth_ns += ns;
	heap->said.growths[bin]++;
	if (heap->said.growth_longest < ns)
		heap->said.growth_longest = ns;
	gm_lock_release(&heap->lock);
	count(heap, GM_C_heap_growths, 1);
	count(heap, GM_C_heap_growth_bytes, bytes);
	count(heap, GM_C_heap_growth_ns, ns);
	raise_to(heap, GM_C_heap_growth_longest, ns);
	if (bin < GM_HEAP_GROWTH_BINS - 1)
		count(heap, GM_C_heap_growths_64us + bin, 1);
	record.address = address;
	record.size = bytes;
	record.id = want;
	put_growth(heap, record, ns);
}

void gm_heap_note_refusal(struct gm_heap_host *heap, uint64_t bytes, uint64_t want, uint64_t start,
			  bool limit)
{
	struct gm_record record = record_of(heap, GM_RECORD_GROW);
	gm_lock_take(&heap->lock);
	heap->said.refused_limit += limit;
	gm_lock_release(&heap->lock);
	count(heap, GM_C_heap_refused, 1);
	count(heap, GM_C_heap_refused_limit, limit);
	record.size = bytes;
	record.id = want;
	record.status = CUDA_ERROR_OUT_OF_MEMORY;
	put_growth(heap, record, gm_clock_ns() - start);
}

/* --- a life --- */

void gm_heap_note_made(struct gm_heap_host *heap)
{
	heap->born = gm_clock_ns();
	count(heap, GM_C_heaps, 1);
	gm_lock_take(&lock);
	heap->next = all;
	all = heap;
	gm_lock_release(&lock);
}

bool gm_heap_note_last(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	bool first = !heap->ended;
	heap->ended = true;
	if (first)
		put_sample(heap, GM_RECORD_LAST);
	gm_lock_release(&heap->lock);
	return first;
}

void gm_heap_note_end(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap))
		return;
	unlist(heap);
	if (gm_heap_note_last(heap))
		count(heap, GM_C_heap_live, 0 - heap->last.live);
}
