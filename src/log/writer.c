/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/writer.h"
#include "log/count.h"
#include "log/recording.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/msg.h"

struct gm_lock gm_writer_lock = GM_LOCK_INIT(GM_LOCK_RANK_LOG);
_Atomic uint32_t gm_log_due;
struct gm_writer gm_writer = {.file = {.fd = -1}};
struct gm_writer gm_recording = {.file = {.fd = -1}};

/* The live counters are those of gm_writer's log. */
static bool writer_has_copy(const struct gm_writer *w)
{
	return w == &gm_recording;
}

void gm_writer_drop(struct gm_writer *w, uint64_t records)
{
	if (writer_has_copy(w))
		atomic_fetch_add_explicit(&w->lost, records, memory_order_relaxed);
	else
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
	if (w->level != GM_LEVEL_SMALL) {
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
	static uint64_t generations; /* under the lock */
	struct gm_segment_head *to = gm_segment_head(segment);
	const struct gm_segment_head head = gm_writer_head(w, segment->offset);
	uint32_t at = head.slots_offset;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	segment->slots_offset = at;
	segment->slots = (uint32_t)((segment->size - at) / GM_SLOT_SIZE);
	segment->written = 0;
	atomic_store(&segment->touched, 0);
	atomic_store(&segment->next, 0);
	atomic_store(&segment->generation, ++generations);
	atomic_store(&segment->sequence, sequence);
	__atomic_store_n(&to->sequence, 0, __ATOMIC_SEQ_CST);
	if (sequence > w->places || (w->file.memory && sequence > 2)) /* else it is fresh */
		memset(segment->base + at, 0, segment->size - at);
	memcpy(segment->base + GM_TEXT_OFFSET, w->about.text, sizeof w->about.text);
	*to = head;
}

/* The head of the counters in a mapped log. */
static struct gm_page_head *writer_page(const struct gm_writer *w)
{
	return writer_has_copy(w) ? (struct gm_page_head *)(w->front + GM_PAGE_OFFSET)
				  : gm_counters_head();
}

/* A recording counts its own records. */
static void counters_copy(struct gm_writer *w, struct gm_counter_page *to)
{
	gm_counters_copy(to);
	if (!writer_has_copy(w))
		return;
	atomic_store_explicit(&to->value[0][GM_C_log_records],
			      w->records + gm_segment_records(&w->segments[0], NULL) +
				      gm_segment_records(&w->segments[1], NULL),
			      memory_order_relaxed);
	atomic_store_explicit(&to->value[0][GM_C_log_dropped_records],
			      atomic_load_explicit(&w->lost, memory_order_relaxed),
			      memory_order_relaxed);
}

void gm_writer_copy_counters(struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (!writer_has_copy(w) || !w->front)
		return;
	counters_copy(w, (struct gm_counter_page *)(w->front + GM_PAGE_OFFSET));
	writer_page(w)->last = w->flushed = gm_clock_ns();
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
		counters_copy(w, checkpoint);
	}
	if (w->front) {
		struct gm_page_head *page = writer_page(w);
		page->sequence = sequence;
		page->length = w->file.length;
		page->last = head->begun;
	}
	gm_writer_copy_counters(w);
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
	gm_counters_describe(&live->page.head, writer_has_copy(w) ? GM_PAGE_WHOLE : GM_PAGE_SPLIT);
	if (!writer_has_copy(w))
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

void gm_writer_flush_page(struct gm_writer *w, enum gm_page_end end)
{
	static struct gm_counter_page copy; /* not on the program's stack, which may be small */
	const struct gm_segment *now = &w->segments[w->now];
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	counters_copy(w, &copy);
	gm_counters_describe(&copy.head, GM_PAGE_WHOLE);
	copy.head.start = w->head.start;
	copy.head.last = w->flushed = gm_clock_ns();
	copy.head.closed = end;
	copy.head.length = w->file.length;
	copy.head.sequence = atomic_load(&now->sequence);
	int error = gm_file_write(&w->file, &copy, sizeof copy, GM_PAGE_OFFSET);
	if (error)
		gm_writer_end(w, error);
}

void gm_writer_finish(struct gm_writer *w, uint64_t length, enum gm_page_end end)
{
	bool trim = end != GM_PAGE_OPEN && length < w->file.length;
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->file.memory) {
		if (trim)
			gm_file_trim(&w->file, length);
		gm_writer_flush_page(w, end);
		return;
	}
	if (!w->front)
		return;
	struct gm_page_head *head = writer_page(w);
	/* The numbers are final before the log is marked as closed. */
	if (writer_has_copy(w))
		gm_writer_copy_counters(w);
	else
		gm_counters_move(NULL);
	head->last = gm_clock_ns();
	if (trim)
		head->length = length;
	__atomic_store_n(&head->closed, (uint32_t)end, __ATOMIC_RELEASE);
	if (trim)
		gm_file_trim(&w->file, length);
}

void gm_writer_unmap(struct gm_writer *w)
{
	for (unsigned i = 0; i < 2; i++) {
		if (w->segments[i].base)
			munmap(w->segments[i].base, w->head.size);
		w->segments[i].base = NULL;
	}
	if (w->front)
		munmap(w->front, GM_FRONT_SIZE);
	w->front = NULL;
}

void gm_writer_end(struct gm_writer *w, int error)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->ended)
		return;
	atomic_store(&w->ended, error);
	atomic_store(&w->current, NULL);
	if (writer_has_copy(w))
		gm_recording_wake();
	gm_msg(GM_MSG_WARN, "log %s: %s; it ends here, the program goes on", w->file.path,
	       strerror(error));
}
