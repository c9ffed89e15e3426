/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The small log: one segment.
 *
 *     | others: 1/8 of the slots | samples: groups of SAMPLE_SLOTS |
 *
 * Snapshots, strings and the like are appended to the first part. When samples fill the second
 * part, every second one of each device is removed, and from then on every second one is kept: the
 * samples always cover the whole run.
 */
#include "log/small.h"

#include <string.h>

#include "base/clock.h"
#include "log/count.h"

#define SAMPLE_SLOTS 5
_Static_assert(1 + (GM_SAMPLE_POOL + GM_MORE_SIZE - 1) / GM_MORE_SIZE == SAMPLE_SLOTS,
	       "a sample takes five slots");

static struct {
	uint32_t others, others_room;  /* slots */
	uint32_t samples, sample_room; /* groups of SAMPLE_SLOTS */
	unsigned shift;		       /* one of 2^shift samples is kept */
	struct {
		uint64_t seen;
		uint32_t newest; /* 1 + the group of a sample that the next one replaces; 0: none */
	} device[256];
} area;

int gm_small_open(struct gm_writer *w)
{
	struct gm_segment *segment = &w->segments[0];
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	w->places = 1;
	w->now = 0;
	int error = gm_file_reserve(&w->file, w->head.size);
	if (!error)
		error = gm_writer_hold(w, segment, 0);
	if (!error)
		error = gm_writer_share_counters(w);
	if (error)
		return error;
	gm_writer_describe(w, segment, 1);
	memset(&area, 0, sizeof area);
	area.others_room = segment->slots / 8;
	area.sample_room = (segment->slots - area.others_room) / SAMPLE_SLOTS;
	gm_segment_head(segment)->live_known = 1;
	gm_writer_show(w, segment, 1);
	atomic_store(&w->current, segment);
	return 0;
}

static uint32_t group_slot(uint32_t group)
{
	return area.others_room + group * SAMPLE_SLOTS;
}

/* Clear a group's slots, the record's kind first. */
static void group_wipe(struct gm_segment *segment, uint32_t group)
{
	struct gm_record *at = gm_segment_slot(segment, group_slot(group));
	__atomic_store_n(&at->kind, GM_RECORD_NONE, __ATOMIC_SEQ_CST);
	memset(at, 0, SAMPLE_SLOTS * sizeof *at);
}

static void group_move(struct gm_segment *segment, uint32_t from, uint32_t to)
{
	struct gm_record *source = gm_segment_slot(segment, group_slot(from));
	struct gm_record *target = gm_segment_slot(segment, group_slot(to));
	if (from == to)
		return;
	group_wipe(segment, to);
	memcpy(target + 1, source + 1, (SAMPLE_SLOTS - 1) * sizeof *source);
	memcpy(target, source, GM_MORE_SIZE);
	__atomic_store_n(&target->kind, source->kind, __ATOMIC_RELEASE);
}

/* Keep every second sample of each device, and its last one: later samples replace that until one
 * is due to stay. If the process is killed meanwhile, a sample may be in the log twice, but is
 * never missing. */
static void samples_thin(struct gm_segment *segment)
{
	uint32_t last[256] = {0}, kth[256] = {0}, to = 0;
	for (uint32_t i = 0; i < area.samples; i++)
		last[gm_segment_slot(segment, group_slot(i))->device] = i;
	area.shift++;
	for (uint32_t i = 0; i < area.samples; i++) {
		uint8_t device = gm_segment_slot(segment, group_slot(i))->device;
		bool is_last = i == last[device];
		if (kth[device]++ % 2 == 0 && !is_last)
			continue;
		bool stays = area.device[device].seen % (1ull << area.shift) == 0;
		if (is_last)
			area.device[device].newest = stays ? 0 : to + 1;
		group_move(segment, i, to++);
	}
	for (uint32_t i = to; i < area.samples; i++)
		group_wipe(segment, i);
	area.samples = to;
}

static bool sample_put(struct gm_segment *segment, const struct gm_record *record, const void *body,
		       size_t length)
{
	uint32_t *newest = &area.device[record->device].newest;
	if (!*newest && area.samples == area.sample_room)
		samples_thin(segment);
	if (!*newest && area.samples == area.sample_room)
		return false;
	uint32_t group = *newest ? *newest - 1 : area.samples++;
	if (*newest)
		group_wipe(segment, group);
	else
		gm_counter_add(0, GM_C_log_records, 1);
	gm_segment_write(segment, group_slot(group), record, body, length);
	bool stays = ++area.device[record->device].seen % (1ull << area.shift) == 0;
	*newest = stays ? 0 : group + 1;
	return true;
}

/* Records of heaps, of held memory, of sleeping, of refusals and of tables take at most half of the
 * first part: contexts begin and end, and requests fail, without limit, and snapshots need room. */
static bool kind_takes_half(uint8_t kind)
{
	return kind == GM_RECORD_TAKEOVER ||
	       gm_record_bit(kind) == gm_record_bit(GM_RECORD_HEAP_SAMPLE) ||
	       kind == GM_RECORD_TENSOR_REFUSED || kind == GM_RECORD_HELD ||
	       kind == GM_RECORD_SLEEP || kind == GM_RECORD_WAKE || kind == GM_RECORD_REFUSED ||
	       kind == GM_RECORD_TABLE;
}

bool gm_small_put(struct gm_writer *w, const struct gm_record *record, const void *body,
		  size_t length)
{
	struct gm_segment *segment = &w->segments[0];
	uint32_t n = gm_format_slots(length);
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->ended || !atomic_load(&w->current))
		return false;
	if (record->kind == GM_RECORD_SAMPLE)
		return sample_put(segment, record, body, length);
	if (kind_takes_half(record->kind) && area.others + n > area.others_room / 2)
		return true; /* the counters, or the first failures, include it */
	if (area.others_room - area.others < n)
		return false;
	gm_segment_write(segment, area.others, record, body, length);
	area.others += n;
	gm_counter_add(0, GM_C_log_records, 1);
	return true;
}

void gm_small_flush(struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (!w->file.memory || w->ended)
		return;
	gm_writer_flush(w, &w->segments[0], 0, group_slot(area.samples));
	gm_writer_flush_page(w, GM_PAGE_OPEN);
}

void gm_small_close(struct gm_writer *w)
{
	struct gm_segment *segment = &w->segments[0];
	uint32_t end = group_slot(area.samples);
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	atomic_store(&w->current, NULL);
	if (w->file.memory && !w->ended)
		gm_writer_flush(w, segment, 0, end);
	gm_writer_finish(w, segment->slots_offset + (uint64_t)end * GM_SLOT_SIZE, GM_PAGE_CLOSED);
}
