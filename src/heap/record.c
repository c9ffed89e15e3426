/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/record.h"

#include "base/clock.h"
#include "heap/chunks/chunks.h"
#include "heap/sites.h"
#include "log/count.h"
#include "log/log.h"

static void counter_add(const struct gm_heap_host *heap, enum gm_counter counter, uint64_t n)
{
	gm_counter_add(heap->config.context->ordinal, counter, n);
}

static void counter_raise(const struct gm_heap_host *heap, enum gm_counter peak, uint64_t value)
{
	gm_counter_raise(heap->config.context->ordinal, peak, value);
}

/* Change a gauge, and raise its peak to the new value. */
static void gauge_change(const struct gm_heap_host *heap, enum gm_counter gauge,
			 enum gm_counter peak, uint64_t by)
{
	counter_raise(heap, peak, gm_counter_change(heap->config.context->ordinal, gauge, by));
}

static struct gm_record record_begin(const struct gm_heap_host *heap, enum gm_record_kind kind)
{
	const struct gm_context *context = heap->config.context;
	return (struct gm_record){
		.context = (uint32_t)context->key,
		.flags = heap->config.own ? GM_RECORD_OWN : 0,
		.device = (uint8_t)context->ordinal,
		.kind = (uint8_t)kind,
	};
}

static void record_put_sample(struct gm_heap_host *heap, unsigned flags)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	const struct gm_heap_figures *f = &heap->last;
	struct gm_heap_sample *sample = &heap->sample;
	struct gm_record record = record_begin(heap, GM_RECORD_HEAP_SAMPLE);
	sample->heap = heap->reserved;
	sample->limit = (uint64_t)heap->limit << GM_GRANULE_SHIFT;
	sample->own = heap->own + atomic_load(&heap->numbered_bytes);
	sample->used = f->used;
	sample->wait_ns = f->wait_ns;
	sample->slack = atomic_load(&heap->slack);
	sample->grown = heap->grown;
	sample->shrunk = heap->shrunk;
	sample->refused = heap->refusals;
	sample->chunks = gm_heap_chunks(heap);
	record.address = f->live;
	record.size = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	record.held = f->nulls;
	record.id = f->foreign_frees;
	record.flags |= (uint16_t)flags;
	record.string = gm_log_string(gm_heap_policy_name(heap->policy));
	gm_log_put_heap(&record, sample);
	if (flags & GM_RECORD_LAST)
		gm_heap_sites_record_last(heap);
	else
		gm_heap_sites_record(heap);
}

void gm_heap_record_figures(struct gm_heap_host *heap, const struct gm_heap_figures *before)
{
	const struct gm_heap_figures *f = &heap->last;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (heap->sample.live_peak < f->live)
		heap->sample.live_peak = f->live;
	gauge_change(heap, GM_C_heap_live, GM_C_heap_live_peak, f->live - before->live);
	gauge_change(heap, GM_C_heap_used, GM_C_heap_used_peak, f->used - before->used);
	counter_add(heap, GM_C_heap_wait_ns, f->wait_ns - before->wait_ns);
	counter_add(heap, GM_C_heap_nulls, f->nulls - before->nulls);
	counter_add(heap, GM_C_heap_foreign_frees, f->foreign_frees - before->foreign_frees);
	counter_add(heap, GM_C_heap_samples, 1);
	record_put_sample(heap, 0);
}

void gm_heap_record_mapped(struct gm_heap_host *heap, int64_t bytes)
{
	uint64_t mapped = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (heap->sample.mapped_peak < mapped)
		heap->sample.mapped_peak = mapped;
	gauge_change(heap, GM_C_heap_mapped, GM_C_heap_mapped_peak, (uint64_t)bytes);
}

/* The bin of a growth of `ns`: each is four times as wide as the one before. */
static unsigned growth_bin(uint64_t ns)
{
	unsigned bin = 0;
	for (uint64_t most = GM_HEAP_GROWTH_LEAST; bin < GM_HEAP_GROWTH_BINS - 1 && ns > most;
	     most *= 4)
		bin++;
	return bin;
}

static void record_put_growth(struct gm_heap_host *heap, struct gm_record record, uint64_t ns)
{
	record.held = (uint64_t)atomic_load(&heap->mapped) << GM_GRANULE_SHIFT;
	record.duration = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	if (!gm_log_wants(GM_RECORD_GROW))
		return;
	record.string = heap->wanting ? gm_log_string(heap->wanting) : 0;
	gm_log_put(&record);
}

void gm_heap_record_growth(struct gm_heap_host *heap, CUdeviceptr address, uint64_t bytes,
			   uint64_t want, uint64_t start)
{
	uint64_t ns = gm_clock_ns() - start;
	unsigned bin = growth_bin(ns);
	struct gm_record record = record_begin(heap, GM_RECORD_GROW);
	gm_lock_take(&heap->lock);
	heap->sample.growth_ns += ns;
	heap->sample.growths[bin]++;
	if (heap->sample.growth_longest < ns)
		heap->sample.growth_longest = ns;
	gm_lock_release(&heap->lock);
	counter_add(heap, GM_C_heap_growths, 1);
	counter_add(heap, GM_C_heap_growth_bytes, bytes);
	counter_add(heap, GM_C_heap_growth_ns, ns);
	counter_raise(heap, GM_C_heap_growth_longest, ns);
	if (bin < GM_HEAP_GROWTH_BINS - 1)
		counter_add(heap, GM_C_heap_growths_64us + bin, 1);
	record.address = address;
	record.size = bytes;
	record.id = want;
	record_put_growth(heap, record, ns);
}

void gm_heap_record_slack(struct gm_heap_host *heap)
{
	counter_add(heap, GM_C_heap_slack_growths, 1);
}

void gm_heap_record_shed(struct gm_heap_host *heap, uint64_t bytes)
{
	counter_add(heap, GM_C_heap_shed, bytes);
}

void gm_heap_record_refusal(struct gm_heap_host *heap, uint64_t bytes, uint64_t want,
			    uint64_t start, bool limit)
{
	struct gm_record record = record_begin(heap, GM_RECORD_GROW);
	gm_lock_take(&heap->lock);
	heap->sample.refused_limit += limit;
	gm_lock_release(&heap->lock);
	counter_add(heap, GM_C_heap_refused, 1);
	counter_add(heap, GM_C_heap_refused_limit, limit);
	record.size = bytes;
	record.id = want;
	record.status = CUDA_ERROR_OUT_OF_MEMORY;
	record_put_growth(heap, record, gm_clock_ns() - start);
}

/* --- a heap's beginning and end --- */

void gm_heap_record_made(struct gm_heap_host *heap)
{
	counter_add(heap, GM_C_heaps, 1);
}

bool gm_heap_record_last(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	bool first = !heap->ended;
	heap->ended = true;
	if (first)
		record_put_sample(heap, GM_RECORD_LAST);
	gm_lock_release(&heap->lock);
	return first;
}

void gm_heap_record_end(struct gm_heap_host *heap)
{
	if (!gm_heap_record_last(heap))
		return;
	counter_add(heap, GM_C_heap_live, 0 - heap->last.live);
	counter_add(heap, GM_C_heap_used, 0 - heap->last.used);
}
