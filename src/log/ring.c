/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/debug.h"

#define PLACES_MOST 65536

/* The slot at which gm_log_poll is requested to prepare the next segment: seven eighths. */
static uint32_t alarm_slot(const struct gm_segment *segment)
{
	return segment->slots - segment->slots / 8;
}

/* Slots whose pages are faulted in together, once writers are within half of that. */
#define TOUCH 4096u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void gm_ring_touch(struct gm_writer *w)
{
	struct gm_segment *segment = &w->segments[w->now];
	uint32_t from = atomic_load_explicit(&segment->touched, memory_order_relaxed);
	uint32_t used = gm_segment_used(segment);
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	from = from > used ? from : used;
	uint32_t to = segment->slots - from < TOUCH ? segment->slots : from + TOUCH;
	uint64_t first = segment->slots_offset + (uint64_t)from * GM_SLOT_SIZE;
	uint64_t last = segment->slots_offset + (uint64_t)to * GM_SLOT_SIZE;
	first &= ~(uint64_t)0xffff; /* 64 KiB: no page is larger */
	/* If the kernel has no such call, writers take the faults, and it is not tried again. */
	bool can = !w->ended && !madvise(segment->base + first, last - first, MADV_POPULATE_WRITE);
	atomic_store_explicit(&segment->touched, can ? to : segment->slots, memory_order_relaxed);
}

/* Request the work that is due soon after `slot`, the first of a block, is written. Several blocks
 * in a row may request a spare. */
static __attribute__((noinline)) void due_set_ahead(const struct gm_segment *segment, uint32_t slot)
{
	uint32_t touched = atomic_load_explicit(&segment->touched, memory_order_relaxed), due = 0;
	if (slot - alarm_slot(segment) < 4 * GM_BLOCK)
		due |= GM_DUE_SPARE;
	if (slot + TOUCH / 2 > touched && touched < segment->slots)
		due |= GM_DUE_TOUCH;
	if (GM_UNLIKELY(due & ~atomic_load_explicit(&gm_log_due, memory_order_relaxed)))
		atomic_fetch_or_explicit(&gm_log_due, due, memory_order_relaxed);
}

static struct gm_segment *segment_other(struct gm_writer *w)
{
	return &w->segments[!w->now];
}

uint64_t gm_ring_records(const struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	return w->records + gm_segment_records(&w->segments[0], NULL) +
	       gm_segment_records(&w->segments[1], NULL);
}

/* The counter is that of the process's own log. */
static void records_count(const struct gm_writer *w)
{
	if (w == &gm_writer)
		gm_counter_set(0, GM_C_log_records, gm_ring_records(w));
}

/* Make `segment` the segment of `sequence`. Its place in the file may be that of the oldest
 * segment, whose records are then dropped. 0 or an errno. */
static int segment_make(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence)
{
	static const uint64_t nothing;
	uint32_t place = (uint32_t)((sequence - 1) % w->places);
	uint64_t offset = place * w->head.size;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	int error = gm_file_reserve(&w->file, offset + w->head.size);
	if (!error)
		error = gm_writer_hold(w, segment, offset);
	if (!error && w->file.memory && sequence > w->places)
		error = gm_file_write(&w->file, &nothing, sizeof nothing,
				      offset + offsetof(struct gm_segment_head, sequence));
	if (error)
		return error;
	gm_writer_drop(w, w->records_at[place]);
	w->dropped += w->records_at[place];
	w->records_at[place] = 0;
	gm_writer_describe(w, segment, sequence);
	return 0;
}

int gm_ring_open(struct gm_writer *w, uint64_t limit)
{
	struct gm_segment *first = &w->segments[0];
	uint64_t places = limit / GM_SEGMENT_EVENTS;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	w->places = places < 2 ? 2 : places > PLACES_MOST ? PLACES_MOST : (uint32_t)places;
	w->records_at = calloc(w->places, sizeof *w->records_at);
	w->now = 0;
	if (!w->records_at)
		return ENOMEM;
	int error = segment_make(w, first, 1);
	if (!error)
		error = gm_writer_share_counters(w);
	if (error)
		return error;
	gm_segment_head(first)->live_known = w == &gm_writer; /* no block is live yet */
	gm_writer_show(w, first, 1);
	atomic_store(&w->current, first);
	return 0;
}

/* Add the records of the previous segment to the totals, and write a `memory` one to the file.
 * False: a writer is inside. */
static bool segment_retire(struct gm_writer *w, struct gm_segment *old, bool patient)
{
	uint64_t sequence = atomic_load(&old->sequence);
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (!sequence)
		return true;
	if (!gm_segment_drain(old, patient))
		return false;
	uint32_t records = (uint32_t)gm_segment_forget_records(old);
	w->records += records;
	if (w->file.memory && gm_writer_flush(w, old, 0, gm_segment_used(old))) {
		gm_writer_drop(w, records);
		records = 0;
	}
	w->records_at[(sequence - 1) % w->places] = records;
	atomic_store(&old->sequence, 0);
	return true;
}

/* Prepare the other segment. 0 or an errno; EBUSY: a writer is inside. */
static int segment_prepare(struct gm_writer *w, bool patient)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->ready)
		return 0;
	if (w->ended || !segment_retire(w, segment_other(w), patient))
		return EBUSY;
	int error =
		segment_make(w, segment_other(w), atomic_load(&w->segments[w->now].sequence) + 1);
	w->ready = !error;
	return error;
}

void gm_ring_prepare(struct gm_writer *w)
{
	segment_prepare(w, false); /* the turn reports a failure */
}

/* Make the other segment current in place of `full`. False: records are dropped, for good, or while
 * a writer of the previous segment is still inside. */
static bool segment_turn(struct gm_writer *w, const struct gm_segment *full)
{
	int saved = errno;
	bool ok = true;
	gm_lock_take(&gm_writer_lock);
	if (atomic_load(&w->current) == full) {
		int error = segment_prepare(w, true);
		ok = !error;
		if (error && error != EBUSY)
			gm_writer_end(w, error);
		if (ok) {
			struct gm_segment *next = segment_other(w);
			records_count(w);
			gm_writer_show(w, next, atomic_load(&next->sequence));
			w->now = !w->now;
			w->ready = false;
			atomic_store(&w->current, next);
			atomic_fetch_or(&gm_log_due, GM_DUE_CHECKPOINT);
		}
	}
	gm_lock_release(&gm_writer_lock);
	errno = saved;
	return ok;
}

bool gm_ring_put(struct gm_writer *w, const struct gm_record *record, const void *body,
		 size_t length)
{
	uint32_t slot, n = gm_format_slots(length);
	for (;;) {
		struct gm_segment *segment = atomic_load(&w->current);
		if (GM_UNLIKELY(!segment))
			return false;
		gm_segment_enter(segment);
		bool same = atomic_load(&w->current) == segment;
		enum gm_taken taken = same ? gm_segment_take(segment, n, &slot) : GM_TAKEN_NONE;
		if (GM_LIKELY(taken != GM_TAKEN_NONE)) {
			gm_segment_write(segment, slot, record, body, length);
			if (GM_UNLIKELY(taken == GM_TAKEN_BLOCK))
				due_set_ahead(segment, slot);
			gm_segment_leave(segment, 1);
			return true;
		}
		gm_segment_leave(segment, 0);
		if (same && !segment_turn(w, segment))
			return false;
	}
}

void gm_ring_flush(struct gm_writer *w)
{
	struct gm_segment *now = &w->segments[w->now];
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (!w->file.memory || w->ended)
		return;
	if (!w->ready)
		segment_retire(w, segment_other(w), false);
	if (!gm_writer_flush(w, now, now->written, gm_segment_used(now)))
		gm_writer_flush_page(w, GM_PAGE_OPEN);
}

void gm_ring_close(struct gm_writer *w, enum gm_page_end end)
{
	struct gm_segment *now = &w->segments[w->now];
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	atomic_store(&w->current, NULL);
	bool clean = gm_segment_drain(now, true) && gm_segment_drain(segment_other(w), true);
	uint64_t length = w->file.length;
	records_count(w);
	if (w->file.memory) {
		if (!w->ready)
			segment_retire(w, segment_other(w), true);
		if (gm_writer_flush(w, now, 0, gm_segment_used(now)))
			gm_writer_drop(w, gm_segment_records(now, NULL));
	}
	/* In the first round the current segment is the last in the file, except for a prepared
	 * one. */
	if (atomic_load(&now->sequence) <= w->places)
		length = now->offset + now->slots_offset +
			 (uint64_t)gm_segment_used(now) * GM_SLOT_SIZE;
	gm_writer_finish(w, length, clean ? end : GM_PAGE_OPEN);
}
