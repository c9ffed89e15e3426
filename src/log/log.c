/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/debug.h"
#include "base/msg.h"
#include "base/thread.h"
#include "knob/knob.h"
#include "log/ring.h"
#include "log/sample.h"
#include "log/small.h"
#include "log/strings.h"
#include "log/writer.h"

#define BIT(kind) (1u << (kind))
#define STRINGS_SMALL (32 * GM_KIB)
#define STRINGS_EVENTS (2 * GM_MIB) /* written into each segment, at most 1/8 of it */

/* Kinds of each word of GPUMEM_LOG_EVENTS, in the order of knob.def. */
static const uint32_t kinds_of_word[] = {
	BIT(GM_RECORD_ALLOCATE) | BIT(GM_RECORD_ALLOCATE_FAILED) | BIT(GM_RECORD_STACK) |
		BIT(GM_RECORD_OBJECT),
	BIT(GM_RECORD_FREE),
	BIT(GM_RECORD_COPY),
	BIT(GM_RECORD_MAP) | BIT(GM_RECORD_UNMAP) | BIT(GM_RECORD_REMAP) | BIT(GM_RECORD_DEMOTE) |
		BIT(GM_RECORD_PROMOTE),
	BIT(GM_RECORD_RETIRE),
	BIT(GM_RECORD_GROW) | BIT(GM_RECORD_HEAP_SAMPLE),
	BIT(GM_RECORD_MODULE),
	BIT(GM_RECORD_SAMPLE),
	BIT(GM_RECORD_MARK),
	BIT(GM_RECORD_TENSOR) | BIT(GM_RECORD_TENSOR_FREE) | BIT(GM_RECORD_TENSOR_LIVE),
};

static const uint32_t kinds_always =
	BIT(GM_RECORD_OUT_OF_MEMORY) | BIT(GM_RECORD_TENSOR_REFUSED) | BIT(GM_RECORD_STRING) |
	BIT(GM_RECORD_TAKEOVER) | BIT(GM_RECORD_HELD) | BIT(GM_RECORD_SLEEP) | BIT(GM_RECORD_WAKE) |
	BIT(GM_RECORD_REFUSED) | BIT(GM_RECORD_TABLE);
static const uint32_t kinds_small = BIT(GM_RECORD_SAMPLE) | BIT(GM_RECORD_HEAP_SAMPLE);
static const uint32_t kinds_events = BIT(GM_RECORD_CONTEXT) | BIT(GM_RECORD_LIVE);

_Atomic uint32_t gm_log_wanted;

static uint32_t kinds_wanted(const struct gm_knobs *knobs)
{
	uint32_t kinds = kinds_always;
	if (knobs->log.level.choice == GM_LOG_SMALL)
		return kinds | kinds_small;
	for (unsigned i = 0; i < sizeof kinds_of_word / sizeof *kinds_of_word; i++)
		if (knobs->log_events.set >> i & 1)
			kinds |= kinds_of_word[i];
	return kinds | kinds_events;
}

static int file_make(struct gm_writer *w, const struct gm_knobs *knobs)
{
	static char name[PATH_MAX];
	const char *fallback = gm_knob_table[GM_KNOB_ID_log_name].fallback;
	struct gm_file_words words = gm_about_words(&w->about);
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (!gm_file_name(name, sizeof name, knobs->log_name.text, fallback, &words))
		return ENAMETOOLONG;
	memcpy(w->file.path, name, sizeof name); /* for the message of a failure */
	const struct gm_segment_head head = gm_writer_head(w, 0);
	int error = gm_file_create(&w->file, name, &head, sizeof head);
	if (error)
		return error;
	error = w->level == GM_LEVEL_SMALL ? gm_small_open(w)
					   : gm_ring_open(w, knobs->log_limit.bytes);
	if (error)
		gm_file_remove(&w->file);
	return error;
}

static void head_fill(struct gm_writer *w, const struct gm_log_config *config, uint32_t kinds)
{
	w->head = (struct gm_segment_head){
		.magic = GM_FORMAT_MAGIC,
		.version = GM_FORMAT_VERSION,
		.slot_size = GM_SLOT_SIZE,
		.size = w->level == GM_LEVEL_SMALL ? GM_SEGMENT_SMALL : GM_SEGMENT_EVENTS,
		.level = w->level,
		.kept = kinds,
		.pid = (uint32_t)w->about.pid,
		.rank = w->about.rank,
		.driver_version = config->driver_version,
		.start = gm_clock_ns(),
		.start_wall = gm_clock_wall_ns(),
	};
	w->walk = config->walk;
	w->n_devices = config->n_devices;
	w->flushed = 0;
}

/* Write a `memory` log to its file. Also done at its start: a process killed soon leaves a log. */
static void file_flush(struct gm_writer *w)
{
	if (w->level == GM_LEVEL_SMALL)
		gm_small_flush(w);
	else
		gm_ring_flush(w);
}

bool gm_log_open(const struct gm_log_config *config)
{
	struct gm_writer *w = &gm_writer;
	const struct gm_knobs *knobs = gm_knob_get();
	int saved = errno;
	gm_sample_start(knobs->log.level.sample);
	if (knobs->log.level.choice == GM_LOG_OFF || w->file.fd >= 0)
		return true;
	uint32_t kinds = kinds_wanted(knobs);
	w->level = knobs->log.level.choice == GM_LOG_SMALL ? GM_LEVEL_SMALL : GM_LEVEL_EVENTS;
	gm_strings_limit(w->level == GM_LEVEL_SMALL ? STRINGS_SMALL : STRINGS_EVENTS);
	gm_about_gather(&w->about);
	gm_about_write(&w->about, config);
	head_fill(w, config, kinds);
	gm_lock_take(&w->lock);
	int error = file_make(w, knobs);
	if (!error && w->file.memory)
		file_flush(w);
	gm_lock_release(&w->lock);
	if (error) {
		const char *name = *w->file.path ? w->file.path : knobs->log_name.text;
		gm_msg(GM_MSG_WARN, "log " GM_MSG_TEXT ": %s; the program goes on without one",
		       GM_MSG_CUT(name), gm_file_error(error));
		*w->file.path = 0;
	} else {
		atomic_store_explicit(&gm_log_wanted, kinds, memory_order_release);
		if (w->file.crowded)
			gm_msg(GM_MSG_WARN,
			       "log " GM_MSG_TEXT
			       ": this name, since its name and those with .1 to .999 "
			       "are taken",
			       GM_MSG_CUT(w->file.path));
	}
	errno = saved;
	return !error;
}

static void record_put(const struct gm_record *record, const void *body, size_t length)
{
	struct gm_writer *w = &gm_writer;
	struct gm_record r = *record;
	bool kept;
	if (!r.time)
		r.time = gm_clock_ns();
	r.thread = gm_thread_id();
	if (w->level == GM_LEVEL_EVENTS) {
		kept = gm_ring_put(w, &r, body, length);
	} else {
		gm_lock_take(&w->lock);
		kept = gm_small_put(w, &r, body, length);
		gm_lock_release(&w->lock);
	}
	if (GM_UNLIKELY(!kept))
		gm_writer_drop(1);
}

void gm_log_put(const struct gm_record *record)
{
	struct gm_writer *w = &gm_writer;
	if (!gm_log_wants((enum gm_record_kind)record->kind))
		return;
	if (GM_UNLIKELY(!record->time || !record->thread || w->level != GM_LEVEL_EVENTS))
		record_put(record, NULL, 0);
	else if (GM_UNLIKELY(!gm_ring_put(w, record, NULL, 0))) /* spares a copy */
		gm_writer_drop(1);
}

/* Update the rest of the page at a sample. GM_LOCK_RANK_LOG is held. */
static void page_update(struct gm_writer *w, uint64_t time)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->file.fd < 0)
		return;
	if (w->level == GM_LEVEL_EVENTS)
		gm_counter_set(0, GM_C_log_records, gm_ring_records(w));
	if (w->front)
		gm_counters_head()->last = time;
	else if (w->file.memory && time - w->flushed > GM_FLUSH_NS)
		atomic_fetch_or_explicit(&w->due, GM_DUE_FLUSH, memory_order_relaxed);
}

void gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample)
{
	struct gm_writer *w = &gm_writer;
	struct gm_record r = *record;
	r.held = r.kind == GM_RECORD_SAMPLE ? GM_SAMPLE_POOL : sizeof *sample;
	if (!r.time)
		r.time = gm_clock_ns();
	if (r.kind == GM_RECORD_SAMPLE) {
		gm_lock_take(&w->lock);
		gm_sample_count(r.device, r.time, sample);
		page_update(w, r.time);
		gm_lock_release(&w->lock);
	}
	if (gm_log_wants((enum gm_record_kind)r.kind))
		record_put(&r, sample, r.held);
	if (r.kind == GM_RECORD_OUT_OF_MEMORY && w->file.memory)
		atomic_fetch_or_explicit(&w->due, GM_DUE_FLUSH, memory_order_relaxed);
}

void gm_log_put_heap(const struct gm_record *record, const struct gm_heap_sample *sample)
{
	struct gm_heap_sample body = *sample;
	body.length = sizeof body;
	bool kept = gm_writer.level == GM_LEVEL_EVENTS || record->flags & GM_RECORD_LAST;
	if (kept && gm_log_wants(GM_RECORD_HEAP_SAMPLE))
		record_put(record, &body, sizeof body);
}

void gm_log_put_body(const struct gm_record *record, const void *body, size_t length)
{
	if (gm_log_wants((enum gm_record_kind)record->kind))
		record_put(record, body, length);
}

uint64_t gm_log_sequence(void)
{
	const struct gm_segment *segment = atomic_load(&gm_writer.current);
	return segment ? atomic_load_explicit(&segment->sequence, memory_order_relaxed) : 0;
}

static void string_put(uint32_t number)
{
	size_t length;
	const char *text = gm_strings_text(number, &length);
	struct gm_record record = {
		.id = number, .size = length, .device = 255, .kind = GM_RECORD_STRING};
	record_put(&record, text, length);
}

uint32_t gm_log_string(const char *text)
{
	bool fresh;
	int saved = errno;
	if (!gm_log_wants(GM_RECORD_STRING))
		return 0;
	uint32_t number = gm_strings_number(text, strnlen(text, GM_STRING_MAX), &fresh);
	if (fresh)
		string_put(number);
	errno = saved;
	return number;
}

static void live_put(void *arg, const struct gm_record *live)
{
	uint32_t *n = arg;
	record_put(live, NULL, 0);
	*n += live->kind == GM_RECORD_LIVE;
}

/* Make a new segment readable without the ones before it: write all strings, and the blocks and
 * tensors alive. If these would fill more than half of it, they are left out, else the checkpoint
 * itself would need a new segment, without end. No lock is held: the walk takes its own. */
static void checkpoint_write(struct gm_writer *w)
{
	const struct gm_segment *segment = atomic_load(&w->current);
	uint64_t sequence = segment ? atomic_load(&segment->sequence) : 0;
	uint64_t blocks = 0;
	uint32_t n = 0;
	size_t length;
	for (uint32_t i = 1; sequence && gm_strings_text(i, &length); i++)
		string_put(i);
	for (unsigned i = 0; i < w->n_devices; i++)
		blocks += gm_counter_get(i, GM_C_live_blocks) +
			  gm_counter_get(i, GM_C_tensor_calls) -
			  gm_counter_get(i, GM_C_tensor_frees);
	if (!sequence || !w->walk || blocks > GM_SEGMENT_EVENTS / GM_SLOT_SIZE / 2)
		return;
	w->walk(live_put, &n);
	gm_lock_take(&w->lock);
	if (atomic_load(&w->current) == segment && atomic_load(&segment->sequence) == sequence) {
		gm_segment_head(segment)->live_records = n;
		__atomic_store_n(&gm_segment_head(segment)->live_known, 1, __ATOMIC_RELEASE);
	}
	gm_lock_release(&w->lock);
}

/* Not inlined, so that gm_log_poll is short. */
static __attribute__((noinline)) void due_work(struct gm_writer *w)
{
	int saved = errno;
	uint32_t due = atomic_exchange(&w->due, 0);
	if (due & GM_DUE_CHECKPOINT)
		checkpoint_write(w);
	gm_lock_take(&w->lock);
	if (gm_log_wants(GM_RECORD_STRING)) {
		if (due & GM_DUE_TOUCH)
			gm_ring_touch(w);
		if (due & GM_DUE_SPARE)
			gm_ring_prepare(w);
		if (w->file.memory && (due & (GM_DUE_FLUSH | GM_DUE_CHECKPOINT)))
			file_flush(w);
	}
	gm_lock_release(&w->lock);
	errno = saved;
}

void gm_log_poll(void)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_writer.due, memory_order_relaxed)))
		due_work(&gm_writer);
}

void gm_log_close(void)
{
	struct gm_writer *w = &gm_writer;
	int saved = errno;
	atomic_store(&gm_log_wanted, 0);
	gm_lock_take(&w->lock);
	if (w->file.fd >= 0) {
		if (w->level == GM_LEVEL_SMALL)
			gm_small_close(w);
		else
			gm_ring_close(w);
		gm_file_close(&w->file);
	}
	gm_sample_stop();
	gm_lock_release(&w->lock);
	errno = saved;
}

/*
 * The segments stay mapped in a child until this call (no MADV_DONTFORK): a child that never calls
 * it, because a bare clone made it, would fault in its first hooked call instead of counting
 * wrongly.
 */
void gm_log_forget(void)
{
	struct gm_writer *w = &gm_writer;
	int saved = errno;
	atomic_store(&gm_log_wanted, 0);
	gm_counters_forget();
	for (unsigned i = 0; i < 2; i++)
		if (w->segments[i].base)
			munmap(w->segments[i].base, w->head.size);
	if (w->front)
		munmap(w->front, GM_FRONT_SIZE);
	gm_file_close(&w->file);
	memset(w, 0, sizeof *w); /* records_at leaks: the parent may have been in malloc */
	gm_lock_init(&w->lock, GM_LOCK_RANK_LOG);
	w->file.fd = -1;
	gm_segment_forget_thread();
	gm_strings_forget();
	gm_sample_stop();
	errno = saved;
}

const char *gm_log_path(void)
{
	return *gm_writer.file.path ? gm_writer.file.path : NULL;
}
