/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/debug.h"

#define PLACES_MOST 65536

/* Where gm_log_poll is asked to make the next segment ready: seven eighths. */
static uint32_t alarm_slot(const struct gm_segment *segment)
{
	return segment->slots - segment->slots / 8;
}

/* Pages are faulted in this many slots at a time, once writers come within half of that. */
#define TOUCH 4096u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void gm_ring_touch(struct gm_writer *w)
{
	struct gm_segment *segment = &w->segments[w->now];
	uint32_t from = atomic_load_explicit(&segment->touched, memory_order_relaxed);
	uint32_t used = gm_segment_used(segment);
	from = from > used ? from : used;
	uint32_t to = segment->slots - from < TOUCH ? segment->slots : from + TOUCH;
	uint64_t first = segment->slots_offset + (uint64_t)from * GM_SLOT_SIZE;
	uint64_t last = segment->slots_offset + (uint64_t)to * GM_SLOT_SIZE;
	first &= ~(uint64_t)0xffff; /* no page is larger */
	/* Where the kernel cannot, writers take the faults, and it is not tried again. */
	bool can = !w->ended && !madvise(segment->base + first, last - first, MADV_POPULATE_WRITE);
	atomic_store_explicit(&segment->touched, can ? to : segment->slots, memory_order_relaxed);
}

/* What is to be done soon, now that `slot` is written. */
static void look_ahead(struct gm_writer *w, const struct gm_segment *segment, uint32_t slot)
{
	uint32_t touched = atomic_load_explicit(&segment->touched, memory_order_relaxed), ask = 0;
	if (slot - alarm_slot(segment) < 4 * GM_BLOCK)
		ask |= GM_DUE_SPARE;
	if (slot + TOUCH / 2 > touched && touched < segment->slots)
		ask |= GM_DUE_TOUCH;
	if (GM_UNLIKELY(ask & ~atomic_load_explicit(&w->due, memory_order_relaxed)))
		atomic_fetch_or_explicit(&w->due, ask, memory_order_relaxed);
}

static struct gm_segment *other(struct gm_writer *w)
{
	return &w->segments[!w->now];
}

uint64_t gm_ring_records(const struct gm_writer *w)
{
	return w->records + gm_segment_records(&w->segments[0], NULL) +
	       gm_segment_records(&w->segments[1], NULL);
}

/* Make the segment of `sequence` out of `segment`, whose place in the file may have to be taken
 * from the oldest one. 0 or an errno. */
static int make(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence)
{
	static const uint64_t nothing;
	uint32_t place = (uint32_t)((sequence - 1) % w->places);
	uint64_t offset = place * w->head.size;
	int error = gm_file_reserve(&w->file, offset + w->head.size);
	if (!error)
		error = gm_writer_hold(w, segment, offset);
	if (!error && w->file.memory && sequence > w->places)
		error = gm_file_write(&w->file, &nothing, sizeof nothing,
				      offset + offsetof(struct gm_segment_head, sequence));
	if (error)
		return error;
	gm_writer_drop(w->records_at[place]);
	w->dropped += w->records_at[place];
	w->records_at[place] = 0;
	gm_writer_describe(w, segment, sequence);
	return 0;
}

int gm_ring_open(struct gm_writer *w, uint64_t limit)
{
	struct gm_segment *first = &w->segments[0];
	uint64_t places = limit / GM_SEGMENT_EVENTS;
	w->head.size = GM_SEGMENT_EVENTS;
	w->places = places < 2 ? 2 : places > PLACES_MOST ? PLACES_MOST : (uint32_t)places;
	w->records_at = calloc(w->places, sizeof *w->records_at);
	w->now = 0;
	if (!w->records_at)
		return ENOMEM;
	int error = make(w, first, 1);
	if (!error)
		error = gm_writer_share_counters(w);
	if (error)
		return error;
	gm_segment_head(first)->live_known = 1; /* nothing lives yet */
	gm_writer_show(w, first, 1);
	atomic_store(&w->current, first);
	return 0;
}

/* The other segment was the current one once: put what it has where it belongs. False while a
 * writer is inside. */
static bool retire(struct gm_writer *w, struct gm_segment *old, bool patient)
{
	uint64_t sequence = atomic_load(&old->sequence);
	if (!sequence)
		return true;
	if (!gm_segment_drain(old, patient))
		return false;
	uint32_t records = (uint32_t)gm_segment_records(old, NULL);
	w->records += records;
	if (w->file.memory && gm_writer_flush(w, old, 0, gm_segment_used(old))) {
		gm_writer_drop(records);
		records = 0;
	}
	w->records_at[(sequence - 1) % w->places] = records;
	atomic_store(&old->sequence, 0);
	for (unsigned i = 0; i < GM_STRIPES; i++)
		atomic_store(&old->stripes[i].word, 0);
	return true;
}

/* 0, or why the other segment is not ready: EBUSY while a writer is inside. */
static int prepare(struct gm_writer *w, bool patient)
{
	if (w->ready)
		return 0;
	if (w->ended || !retire(w, other(w), patient))
		return EBUSY;
	int error = make(w, other(w), atomic_load(&w->segments[w->now].sequence) + 1);
	w->ready = !error;
	return error;
}

void gm_ring_prepare(struct gm_writer *w)
{
	prepare(w, false); /* a failure is decided at the turn */
}

/* Make another segment current in place of `full`. False: records are to be dropped, for good or
 * while a writer of the segment before is still inside. */
static bool turn(struct gm_writer *w, const struct gm_segment *full)
{
	int saved = errno;
	bool ok = true;
	gm_lock_take(&w->lock);
	if (atomic_load(&w->current) == full) {
		int error = prepare(w, true);
		ok = !error;
		if (error && error != EBUSY)
			gm_writer_end(w, error);
		if (ok) {
			struct gm_segment *next = other(w);
			gm_counter_set(0, GM_C_log_records, gm_ring_records(w));
			gm_writer_show(w, next, atomic_load(&next->sequence));
			w->now = !w->now;
			w->ready = false;
			atomic_store(&w->current, next);
			atomic_fetch_or(&w->due, GM_DUE_CHECKPOINT);
		}
	}
	gm_lock_release(&w->lock);
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
		if (GM_LIKELY(same && gm_segment_take(segment, n, &slot))) {
			gm_segment_write(segment, slot, record, body, length);
			look_ahead(w, segment, slot);
			gm_segment_leave(segment, 1);
			return true;
		}
		gm_segment_leave(segment, 0);
		if (same && !turn(w, segment))
			return false;
	}
}

void gm_ring_flush(struct gm_writer *w)
{
	struct gm_segment *now = &w->segments[w->now];
	if (!w->file.memory || w->ended)
		return;
	if (!w->ready)
		retire(w, other(w), false);
	if (!gm_writer_flush(w, now, now->written, gm_segment_used(now)))
		gm_writer_flush_page(w, false);
}

void gm_ring_close(struct gm_writer *w)
{
	struct gm_segment *now = &w->segments[w->now];
	atomic_store(&w->current, NULL);
	bool clean = gm_segment_drain(now, true) && gm_segment_drain(other(w), true);
	uint64_t length = w->file.length;
	gm_counter_set(0, GM_C_log_records, gm_ring_records(w));
	if (w->file.memory) {
		if (!w->ready)
			retire(w, other(w), true);
		if (gm_writer_flush(w, now, 0, gm_segment_used(now)))
			gm_writer_drop(gm_segment_records(now, NULL));
	}
	/* In the first round the current segment is the last in the file, but for a ready one. */
	if (atomic_load(&now->sequence) <= w->places)
		length = now->offset + now->slots_offset +
			 (uint64_t)gm_segment_used(now) * GM_SLOT_SIZE;
	gm_writer_finish(w, length, clean);
}
