/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

/* Of these `string` is the number of a stack, of which the small log has none. */
static const uint32_t kinds_with_stack =
	BIT(GM_RECORD_OUT_OF_MEMORY) | BIT(GM_RECORD_HELD) | BIT(GM_RECORD_TENSOR_REFUSED);

_Atomic uint32_t gm_log_wanted;

static struct gm_log_config opened;	 /* what gm_log_open got */
static uint32_t small_kept, ring_kept;	 /* kinds of the small log, of a log of events; 0: none */
static _Atomic(struct gm_writer *) ring; /* the writer of events; NULL: none */
static _Atomic uint64_t ring_began;	 /* of a recording: no event of it is older */
static bool closed;			 /* by gm_log_close; under the lock */

static uint32_t kinds_of_events(const struct gm_knobs *knobs)
{
	uint32_t kinds = kinds_always;
	for (unsigned i = 0; i < sizeof kinds_of_word / sizeof *kinds_of_word; i++)
		if (knobs->log_events.set >> i & 1)
			kinds |= kinds_of_word[i];
	return kinds | kinds_events;
}

bool gm_log_name(const struct gm_writer *w, char *name, size_t n)
{
	const char *fallback = gm_knob_table[GM_KNOB_ID_log_name].fallback;
	const struct gm_file_words words = gm_about_words(&w->about);
	return gm_file_name(name, n, gm_knob_get()->log_name.text, fallback, &words);
}

void gm_log_describe(struct gm_writer *w)
{
	gm_about_gather(&w->about);
	gm_about_write(&w->about, &opened);
}

static void head_fill(struct gm_writer *w)
{
	w->head = (struct gm_segment_head){
		.magic = GM_FORMAT_MAGIC,
		.version = GM_FORMAT_VERSION,
		.slot_size = GM_SLOT_SIZE,
		.size = w->level == GM_LEVEL_SMALL ? GM_SEGMENT_SMALL : GM_SEGMENT_EVENTS,
		.level = w->level,
		.kept = w->level == GM_LEVEL_SMALL ? small_kept : ring_kept,
		.pid = (uint32_t)w->about.pid,
		.rank = w->about.rank,
		.driver_version = opened.driver_version,
		.start = gm_clock_ns(),
		.start_wall = gm_clock_wall_ns(),
	};
	w->n_devices = opened.n_devices;
	w->flushed = 0;
}

/* Write a `memory` log to its file. Also done at its start: a process killed soon leaves a log. */
static void file_flush(struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (w->file.fd < 0 || !w->file.memory)
		return;
	if (w->level == GM_LEVEL_SMALL)
		gm_small_flush(w);
	else
		gm_ring_flush(w);
}

int gm_log_make(struct gm_writer *w, const char *name)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (closed)
		return ECANCELED;
	snprintf(w->file.path, sizeof w->file.path, "%s", name); /* for the message of a failure */
	head_fill(w);
	const struct gm_segment_head head = gm_writer_head(w, 0);
	int error = gm_file_create(&w->file, name, &head, sizeof head);
	if (error)
		return error;
	error = w->level == GM_LEVEL_SMALL ? gm_small_open(w)
					   : gm_ring_open(w, gm_knob_get()->log_limit.bytes);
	if (error)
		gm_file_remove(&w->file);
	else
		file_flush(w);
	return error;
}

void gm_log_route(struct gm_writer *w)
{
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (closed)
		return;
	if (w)
		gm_strings_limit(STRINGS_EVENTS);
	atomic_store(&ring_began, w == &gm_recording ? w->head.start : 0);
	atomic_store(&ring, w);
	atomic_store(&gm_log_wanted, small_kept | (w ? ring_kept : 0));
}

/* 0 or an errno. */
static int log_begin(struct gm_writer *w)
{
	static char name[PATH_MAX];
	const bool named = gm_log_name(w, name, sizeof name);
	gm_lock_take(&gm_writer_lock);
	int error = named ? gm_log_make(w, name) : ENAMETOOLONG;
	if (!error)
		gm_log_route(w->level == GM_LEVEL_EVENTS ? w : NULL);
	gm_lock_release(&gm_writer_lock);
	return error;
}

bool gm_log_open(const struct gm_log_config *config)
{
	struct gm_writer *w = &gm_writer;
	const struct gm_knobs *knobs = gm_knob_get();
	const bool small = knobs->log.level.choice == GM_LOG_SMALL;
	int saved = errno;
	gm_sample_start(knobs->log.level.sample);
	if (w->file.fd >= 0)
		return true;
	opened = *config;
	ring_kept = kinds_of_events(knobs);
	if (knobs->log.level.choice == GM_LOG_OFF)
		return true;
	w->level = small ? GM_LEVEL_SMALL : GM_LEVEL_EVENTS;
	small_kept = small ? kinds_always | kinds_small : 0;
	gm_strings_limit(small ? STRINGS_SMALL : STRINGS_EVENTS);
	gm_log_describe(w);
	int error = log_begin(w);
	if (error) {
		const char *name = *w->file.path ? w->file.path : knobs->log_name.text;
		gm_msg(GM_MSG_WARN, "log " GM_MSG_TEXT ": %s; the program goes on without one",
		       GM_MSG_CUT(name), gm_file_error(error));
		*w->file.path = 0;
		small_kept = 0;
	} else if (w->file.crowded) {
		gm_msg(GM_MSG_WARN,
		       "log " GM_MSG_TEXT ": this name, since its name and those with .1 to .999 "
		       "are taken",
		       GM_MSG_CUT(w->file.path));
	}
	errno = saved;
	return !error;
}

/* --- records --- */

static void small_put(const struct gm_record *record, const void *body, size_t length);

/* Write a text to the small log, unless it is there or there is no room. */
static void small_put_string(uint32_t number)
{
	size_t length;
	if (!gm_strings_claim(number, STRINGS_SMALL))
		return;
	const char *text = gm_strings_text(number, &length);
	const struct gm_record record = {.time = gm_clock_ns(),
					 .id = number,
					 .size = length,
					 .thread = gm_thread_id(),
					 .device = 255,
					 .kind = GM_RECORD_STRING};
	small_put(&record, text, length);
}

/* During a recording most texts are only for that. */
static void small_put(const struct gm_record *record, const void *body, size_t length)
{
	struct gm_writer *w = &gm_writer;
	if (gm_record_bit(record->kind) == BIT(GM_RECORD_HEAP_SAMPLE) &&
	    !(record->flags & GM_RECORD_LAST))
		return;
	struct gm_record r = *record;
	if (kinds_with_stack & gm_record_bit(r.kind))
		r.string = atomic_load(&ring) ? 0 : r.string; /* it is in the recording */
	else if (r.string)
		small_put_string(r.string);
	gm_lock_take(&gm_writer_lock);
	const bool kept = gm_small_put(w, &r, body, length);
	gm_lock_release(&gm_writer_lock);
	if (GM_UNLIKELY(!kept))
		gm_writer_drop(w, 1);
}

static bool kind_is_of_checkpoint(uint8_t kind)
{
	return kind == GM_RECORD_LIVE || kind == GM_RECORD_TENSOR_LIVE;
}

/* A record that finds that the recording was ended is none of it. */
static void ring_put(struct gm_writer *w, struct gm_record *record, const void *body, size_t length)
{
	const uint64_t began = atomic_load_explicit(&ring_began, memory_order_relaxed);
	if (record->time <= began && !kind_is_of_checkpoint(record->kind))
		record->time = began + 1; /* a call that began before */
	if (GM_LIKELY(gm_ring_put(w, record, body, length)))
		return;
	if (w == &gm_writer || atomic_load(&w->current) || atomic_load(&w->ended))
		gm_writer_drop(w, 1);
}

static void record_put(const struct gm_record *record, const void *body, size_t length)
{
	struct gm_writer *w = atomic_load_explicit(&ring, memory_order_acquire);
	const uint32_t bit = gm_record_bit(record->kind);
	struct gm_record r = *record;
	if (!r.time)
		r.time = gm_clock_ns();
	r.thread = gm_thread_id();
	if (small_kept & bit)
		small_put(&r, body, length);
	if (w && ring_kept & bit)
		ring_put(w, &r, body, length);
}

void gm_log_put(const struct gm_record *record)
{
	if (!gm_log_wants((enum gm_record_kind)record->kind))
		return;
	struct gm_writer *w = atomic_load_explicit(&ring, memory_order_acquire);
	if (GM_UNLIKELY(!record->time || !record->thread || w != &gm_writer))
		record_put(record, NULL, 0);
	else if (GM_UNLIKELY(!gm_ring_put(w, record, NULL, 0))) /* spares a copy */
		gm_writer_drop(w, 1);
}

/* Update the rest of the pages at a sample. GM_LOCK_RANK_LOG is held. */
static void pages_update(uint64_t time)
{
	const struct gm_writer *both[] = {&gm_writer, &gm_recording};
	gm_lock_assert_held(GM_LOCK_RANK_LOG);
	if (gm_writer.file.fd >= 0 && gm_writer.level == GM_LEVEL_EVENTS)
		gm_counter_set(0, GM_C_log_records, gm_ring_records(&gm_writer));
	if (gm_writer.front)
		gm_counters_head()->last = time;
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t pause = both[i]->file.memory ? GM_FLUSH_NS : GM_COPY_NS;
		const bool copied = both[i] == &gm_recording || both[i]->file.memory;
		if (both[i]->file.fd >= 0 && copied && time - both[i]->flushed > pause)
			atomic_fetch_or_explicit(&gm_log_due, GM_DUE_FLUSH, memory_order_relaxed);
	}
}

void gm_log_put_sample(const struct gm_record *record, const struct gm_sample *sample)
{
	struct gm_record r = *record;
	r.held = r.kind == GM_RECORD_SAMPLE ? GM_SAMPLE_POOL : sizeof *sample;
	if (!r.time)
		r.time = gm_clock_ns();
	if (r.kind == GM_RECORD_SAMPLE) {
		gm_lock_take(&gm_writer_lock);
		gm_sample_count(r.device, r.time, sample);
		pages_update(r.time);
		gm_lock_release(&gm_writer_lock);
	}
	if (gm_log_wants((enum gm_record_kind)r.kind))
		record_put(&r, sample, r.held);
	if (r.kind == GM_RECORD_OUT_OF_MEMORY)
		atomic_fetch_or_explicit(&gm_log_due, GM_DUE_FLUSH, memory_order_relaxed);
}

void gm_log_put_heap(const struct gm_record *record, const struct gm_heap_sample *sample)
{
	struct gm_heap_sample body = *sample;
	body.length = sizeof body;
	if (gm_log_wants(GM_RECORD_HEAP_SAMPLE))
		record_put(record, &body, sizeof body);
}

void gm_log_put_body(const struct gm_record *record, const void *body, size_t length)
{
	if (gm_log_wants((enum gm_record_kind)record->kind))
		record_put(record, body, length);
}

uint64_t gm_log_sequence(void)
{
	const struct gm_writer *w = atomic_load(&ring);
	const struct gm_segment *segment = w ? atomic_load(&w->current) : NULL;
	return segment ? atomic_load_explicit(&segment->generation, memory_order_relaxed) : 0;
}

static void ring_put_string(struct gm_writer *w, uint32_t number)
{
	size_t length;
	const char *text = gm_strings_text(number, &length);
	struct gm_record record = {.time = gm_clock_ns(),
				   .id = number,
				   .size = length,
				   .thread = gm_thread_id(),
				   .device = 255,
				   .kind = GM_RECORD_STRING};
	ring_put(w, &record, text, length);
}

uint32_t gm_log_string(const char *text)
{
	bool fresh;
	int saved = errno;
	if (!gm_log_wants(GM_RECORD_STRING))
		return 0;
	uint32_t number = gm_strings_number(text, strnlen(text, GM_STRING_MAX), &fresh);
	struct gm_writer *w = atomic_load(&ring);
	if (fresh && w)
		ring_put_string(w, number);
	else if (fresh)
		small_put_string(number);
	errno = saved;
	return number;
}

struct checkpoint {
	struct gm_writer *w;
	uint64_t time; /* of its records; 0: now */
	uint32_t blocks;
};

static void live_put(void *arg, const struct gm_record *live)
{
	struct checkpoint *checkpoint = arg;
	struct gm_record r = *live;
	/* One since the recording began has a record of its own. */
	if (checkpoint->time && r.stack != GM_STACK_BEFORE)
		return;
	r.time = checkpoint->time ? checkpoint->time : gm_clock_ns();
	r.thread = gm_thread_id();
	if (ring_kept & BIT(r.kind))
		ring_put(checkpoint->w, &r, NULL, 0);
	checkpoint->blocks += r.kind == GM_RECORD_LIVE;
}

/* Blocks and tensors alive. */
static uint64_t lives_count(const struct gm_writer *w)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < w->n_devices; i++)
		n += gm_counter_get(i, GM_C_live_blocks) + gm_counter_get(i, GM_C_allocate_driver) -
		     gm_counter_get(i, GM_C_free_driver) + gm_counter_get(i, GM_C_tensor_calls) -
		     gm_counter_get(i, GM_C_tensor_frees);
	return n;
}

/* If strings and lives would fill more than half of the segment, lives are left out, else the
 * checkpoint itself would need a new segment, without end. No lock is held: the walk takes its
 * own. */
void gm_log_checkpoint(struct gm_writer *w, uint64_t time)
{
	const struct gm_segment *segment = atomic_load(&w->current);
	const uint64_t generation = segment ? atomic_load(&segment->generation) : 0;
	struct checkpoint checkpoint = {.w = w, .time = time};
	size_t length;
	for (uint32_t i = 1; generation && gm_strings_text(i, &length); i++)
		ring_put_string(w, i);
	if (!generation || !opened.walk || lives_count(w) > GM_SEGMENT_EVENTS / GM_SLOT_SIZE / 2)
		return;
	opened.walk(live_put, &checkpoint);
	gm_lock_take(&gm_writer_lock);
	if (atomic_load(&w->current) == segment &&
	    atomic_load(&segment->generation) == generation) {
		gm_segment_head(segment)->live_records = checkpoint.blocks;
		__atomic_store_n(&gm_segment_head(segment)->live_known, 1, __ATOMIC_RELEASE);
	}
	gm_lock_release(&gm_writer_lock);
}

/* Bring the copies of the counters in files up to date, and write `memory` logs. */
static void files_flush(void)
{
	file_flush(&gm_writer);
	file_flush(&gm_recording);
	gm_writer_copy_counters(&gm_recording);
}

void gm_log_work(void)
{
	int saved = errno;
	uint32_t due = atomic_exchange(&gm_log_due, 0);
	struct gm_writer *w = atomic_load(&ring);
	if (w && due & GM_DUE_CHECKPOINT)
		gm_log_checkpoint(w, 0);
	gm_lock_take(&gm_writer_lock);
	w = atomic_load(&ring); /* again: a recording may have ended meanwhile */
	if (gm_log_wants(GM_RECORD_STRING)) {
		if (w && due & GM_DUE_TOUCH)
			gm_ring_touch(w);
		if (w && due & GM_DUE_SPARE)
			gm_ring_prepare(w);
		if (due & (GM_DUE_FLUSH | GM_DUE_CHECKPOINT))
			files_flush();
	}
	gm_lock_release(&gm_writer_lock);
	errno = saved;
}

void gm_log_close(void)
{
	struct gm_writer *w = &gm_writer;
	int saved = errno;
	atomic_store(&gm_log_wanted, 0);
	gm_lock_take(&gm_writer_lock);
	closed = true;
	atomic_store(&gm_log_wanted, 0); /* a recording may have begun meanwhile */
	if (gm_recording.file.fd >= 0) {
		gm_ring_close(&gm_recording, GM_PAGE_CLOSED);
		gm_file_close(&gm_recording.file);
	}
	if (w->file.fd >= 0) {
		if (w->level == GM_LEVEL_SMALL)
			gm_small_close(w);
		else
			gm_ring_close(w, GM_PAGE_CLOSED);
		gm_file_close(&w->file);
	}
	gm_sample_stop();
	gm_lock_release(&gm_writer_lock);
	errno = saved;
}

static void writer_forget(struct gm_writer *w)
{
	gm_writer_unmap(w);
	gm_file_close(&w->file);
	memset(w, 0, sizeof *w); /* records_at leaks: the parent may have been in malloc */
	w->file.fd = -1;
}

/*
 * The segments stay mapped in a child until this call (no MADV_DONTFORK): a child that never calls
 * it, because a bare clone made it, would fault in its first hooked call instead of counting
 * wrongly.
 */
void gm_log_forget(void)
{
	int saved = errno;
	atomic_store(&gm_log_wanted, 0);
	gm_counters_forget();
	writer_forget(&gm_writer);
	writer_forget(&gm_recording);
	gm_lock_init(&gm_writer_lock, GM_LOCK_RANK_LOG);
	atomic_store(&gm_log_due, 0);
	atomic_store(&ring, NULL);
	atomic_store(&ring_began, 0);
	small_kept = 0;
	closed = false;
	gm_segment_forget_thread();
	gm_strings_forget();
	gm_sample_stop();
	errno = saved;
}

const char *gm_log_path(void)
{
	if (atomic_load_explicit(&ring, memory_order_acquire) == &gm_recording)
		return gm_recording.file.path;
	return *gm_writer.file.path ? gm_writer.file.path : NULL;
}
