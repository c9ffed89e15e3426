/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/segment.h"

#include <sched.h>
#include <string.h>

#include "base/debug.h"
#include "base/sys.h"

#define FINISHED ((uint64_t)1 << 16)
#define MOMENT 100000 /* ns */

/* The calling thread's slots in the segment that it last wrote to, and its stripe. */
static GM_TLS struct {
	const struct gm_segment *segment;
	uint64_t generation; /* of the segment when the slots were taken */
	uint32_t next, end;
	uint32_t stripe; /* 1 + its index; 0: none yet */
	bool alone;	 /* no other thread has the stripe */
} mine;

static _Atomic uint32_t stripes_given;

/* The first threads have a stripe each, for good; all others share the rest. */
static void stripe_assign(void)
{
	uint32_t given = atomic_fetch_add_explicit(&stripes_given, 1, memory_order_relaxed);
	mine.alone = given < GM_STRIPES_ALONE;
	mine.stripe = 1 + (mine.alone ? given
				      : GM_STRIPES_ALONE + given % (GM_STRIPES - GM_STRIPES_ALONE));
}

void gm_segment_forget_thread(void)
{
	memset(&mine, 0, sizeof mine);
}

/* Sequentially consistent, as is the store of the current segment: a writer sees that another
 * segment is current, or the thread that drains this one sees the writer. */
void gm_segment_enter(struct gm_segment *segment)
{
	if (GM_UNLIKELY(!mine.stripe))
		stripe_assign();
	atomic_fetch_add(&segment->stripes[mine.stripe - 1].word, 1);
}

/* While a writer is inside a segment that was current, no other thread changes the word of the
 * writer's own stripe. */
void gm_segment_leave(struct gm_segment *segment, unsigned records)
{
	_Atomic uint64_t *word = &segment->stripes[mine.stripe - 1].word;
	const uint64_t change = records * FINISHED - 1;
	if (GM_LIKELY(mine.alone && records))
		atomic_store_explicit(word,
				      atomic_load_explicit(word, memory_order_relaxed) + change,
				      memory_order_release);
	else
		atomic_fetch_add_explicit(word, change, memory_order_release);
}

enum gm_taken gm_segment_take(struct gm_segment *segment, uint32_t n, uint32_t *slot)
{
	uint64_t generation = atomic_load_explicit(&segment->generation, memory_order_relaxed);
	enum gm_taken taken = GM_TAKEN;
	if (GM_UNLIKELY(mine.segment != segment || mine.generation != generation ||
			mine.end - mine.next < n)) {
		uint32_t want = n > GM_BLOCK ? n : GM_BLOCK;
		uint32_t at = atomic_load_explicit(&segment->next, memory_order_relaxed);
		if (at < segment->slots)
			at = atomic_fetch_add_explicit(&segment->next, want, memory_order_relaxed);
		if (at > segment->slots || segment->slots - at < n)
			return GM_TAKEN_NONE;
		mine.segment = segment;
		mine.generation = generation;
		mine.next = at;
		mine.end = at + want < segment->slots ? at + want : segment->slots;
		taken = GM_TAKEN_BLOCK;
	}
	*slot = mine.next;
	mine.next += n;
	return taken;
}

static void slot_write(struct gm_record *to, const void *from, size_t n, uint8_t kind)
{
	_Static_assert(offsetof(struct gm_record, kind) == GM_MORE_SIZE, "the kind is last");
	memcpy(to, from, n);
	atomic_store_explicit((_Atomic uint8_t *)&to->kind, kind, memory_order_release);
}

void gm_segment_write(struct gm_segment *segment, uint32_t slot, const struct gm_record *record,
		      const void *body, size_t length)
{
	struct gm_record *first = gm_segment_slot(segment, slot), *at = first;
	const char *from = body;
	while (length) {
		size_t n = length < GM_MORE_SIZE ? length : GM_MORE_SIZE;
		slot_write(++at, from, n, GM_RECORD_MORE);
		from += n;
		length -= n;
	}
	slot_write(first, record, GM_MORE_SIZE, record->kind);
}

uint64_t gm_segment_records(const struct gm_segment *segment, uint64_t *writers)
{
	uint64_t records = 0, inside = 0;
	for (unsigned i = 0; i < GM_STRIPES; i++) {
		uint64_t word = atomic_load(&segment->stripes[i].word);
		inside += word % FINISHED;
		records += word / FINISHED;
	}
	if (writers)
		*writers = inside;
	return records;
}

/* A thread that read this segment as current long ago may still enter and leave. */
uint64_t gm_segment_forget_records(struct gm_segment *segment)
{
	uint64_t records = 0;
	for (unsigned i = 0; i < GM_STRIPES; i++) {
		_Atomic uint64_t *word = &segment->stripes[i].word;
		const uint64_t finished = atomic_load(word) / FINISHED;
		atomic_fetch_sub(word, finished * FINISHED);
		records += finished;
	}
	return records;
}

/* A writer inside copies 64 bytes at a time; if that takes long, its thread was preempted. */
bool gm_segment_drain(const struct gm_segment *segment, bool patient)
{
	uint64_t writers;
	for (unsigned i = 0; i < (patient ? 1200u : 100u); i++) {
		gm_segment_records(segment, &writers);
		if (!writers)
			return true;
		if (i < 1000)
			sched_yield();
		else
			gm_sys_nap(MOMENT);
	}
	return false;
}

uint32_t gm_segment_used(const struct gm_segment *segment)
{
	uint32_t next = atomic_load_explicit(&segment->next, memory_order_relaxed);
	return next < segment->slots ? next : segment->slots;
}
