/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/writer.h"
#include "log/count.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/msg.h"

struct gm_writer gm_writer = {.lock = GM_LOCK_INIT(GM_LOCK_RANK_LOG), .file = {.fd = -1}};

void gm_writer_drop(uint64_t records)
{
	gm_counter_add(0, GM_C_log_dropped_records, records);
}

int gm_writer_hold(struct gm_writer *w, struct gm_segment *segment, uint64_t offset)
{
	uint64_t size = w->head.size;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (!w->file.memory) {
		if (segment->base)
			munmap(segment->base, size);
		segment->base = gm_file_map(&w->file, offset, size);
	} else if (!segment->base) {
		void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
		segment->base = base == MAP_FAILED ? NULL : base;
	}
	if (!segment->base)
		return errno;
	segment->offset = offset;
	segment->size = size;
	return 0;
}

struct gm_segment_head gm_writer_head(const struct gm_writer *w, uint64_t offset)
{
	struct gm_segment_head head = w->head;
	uint32_t at = GM_PAGE_OFFSET;
	if (offset == 0) {
		head.live_offset = at;
		at += sizeof(struct gm_counter_live);
	}
	if (w->level == GM_LEVEL_EVENTS) {
		head.checkpoint_offset = at;
		at += GM_PAGE_ROOM;
	}
	head.slots_offset = at;
	head.text_offset = GM_TEXT_OFFSET;
	head.text_size = w->about.size;
	return head;
}

void gm_writer_describe(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence)
{
	struct gm_segment_head *to = gm_segment_head(segment);
	const struct gm_segment_head head = gm_writer_head(w, segment->offset);
	uint32_t at = head.slots_offset;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	segment->slots_offset = at;
	segment->slots = (uint32_t)((segment->size - at) / GM_SLOT_SIZE);
	segment->written = 0;
	atomic_store(&segment->touched, 0);
	atomic_store(&segment->next, 0);
	atomic_store(&segment->sequence, sequence);
	__atomic_store_n(&to->sequence, 0, __ATOMIC_SEQ_CST);
	if (sequence > w->places || (w->file.memory && sequence > 2)) /* else it is fresh */
		memset(segment->base + at, 0, segment->size - at);
	memcpy(segment->base + GM_TEXT_OFFSET, w->about.text, sizeof w->about.text);
	*to = head;
}

void gm_writer_show(struct gm_writer *w, struct gm_segment *segment, uint64_t sequence)
{
	struct gm_segment_head *head = gm_segment_head(segment);
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	head->begun = gm_clock_ns();
	head->dropped = w->dropped;
	if (head->checkpoint_offset) {
		struct gm_counter_page *checkpoint =
			(struct gm_counter_page *)(segment->base + head->checkpoint_offset);
		checkpoint->head = *gm_counters_head();
		checkpoint->head.version = GM_PAGE_WHOLE;
		gm_counters_copy(checkpoint);
	}
	if (w->front) {
		gm_counters_head()->sequence = sequence;
		gm_counters_head()->length = w->file.length;
		gm_counters_head()->last = head->begun;
	}
	__atomic_store_n(&head->sequence, sequence, __ATOMIC_RELEASE);
}

int gm_writer_share_counters(struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->file.memory)
		return 0;
	w->front = gm_file_map(&w->file, 0, GM_FRONT_SIZE);
	if (!w->front)
		return errno;
	struct gm_counter_live *live = (struct gm_counter_live *)(w->front + GM_PAGE_OFFSET);
	gm_counters_describe(&live->page.head, GM_PAGE_SPLIT);
	gm_counters_move(live);
	return 0;
}

int gm_writer_flush(struct gm_writer *w, struct gm_segment *segment, uint32_t from, uint32_t to)
{
	const struct gm_segment_head *head = gm_segment_head(segment);
	uint64_t at = segment->offset + segment->slots_offset + (uint64_t)from * GM_SLOT_SIZE;
	uint32_t checkpoint = head->checkpoint_offset;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	/* The first flush of a segment overwrites all slots of the one that had its place
	 * before. */
	uint32_t end = head->sequence > w->places && !from ? segment->slots : to;
	int error = 0;
	if (end > from)
		error = gm_file_write(&w->file, gm_segment_slot(segment, from),
				      (size_t)(end - from) * GM_SLOT_SIZE, at);
	if (!error && checkpoint)
		error = gm_file_write(&w->file, segment->base + checkpoint, GM_PAGE_ROOM,
				      segment->offset + checkpoint);
	if (!error)
		error = gm_file_write(&w->file, segment->base, GM_PAGE_OFFSET, segment->offset);
	if (error)
		gm_writer_end(w, error);
	else
		segment->written = to;
	return error;
}

void gm_writer_flush_page(struct gm_writer *w, bool closed)
{
	static struct gm_counter_page copy; /* not on the program's stack, which may be small */
	const struct gm_segment *now = &w->segments[w->now];
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	gm_counters_copy(&copy);
	gm_counters_describe(&copy.head, GM_PAGE_WHOLE);
	copy.head.start = w->head.start;
	copy.head.last = w->flushed = gm_clock_ns();
	copy.head.closed = closed;
	copy.head.length = w->file.length;
	copy.head.sequence = atomic_load(&now->sequence);
	int error = gm_file_write(&w->file, &copy, sizeof copy, GM_PAGE_OFFSET);
	if (error)
		gm_writer_end(w, error);
}

void gm_writer_finish(struct gm_writer *w, uint64_t length, bool clean)
{
	struct gm_page_head *head = gm_counters_head();
	bool trim = clean && length < w->file.length;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->file.memory) {
		if (trim)
			gm_file_trim(&w->file, length);
		gm_writer_flush_page(w, clean);
		return;
	}
	/* The numbers are final before the log is marked as closed. */
	gm_counters_move(NULL);
	if (!w->front)
		return;
	head->last = gm_clock_ns();
	if (trim)
		head->length = length;
	__atomic_store_n(&head->closed, clean, __ATOMIC_RELEASE);
	if (trim)
		gm_file_trim(&w->file, length);
}

void gm_writer_end(struct gm_writer *w, int error)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->ended)
		return;
	w->ended = true;
	atomic_store(&w->current, NULL);
	gm_msg(GM_MSG_WARN, "log %s: %s; it ends here, the program goes on", w->file.path,
	       strerror(error));
}
