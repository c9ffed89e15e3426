/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS_MOST 65536

void gm_load_damage(struct gm_log_file *file, const char *format, ...)
{
	va_list args;
	if (*file->damage)
		return;
	va_start(args, format);
	vsnprintf(file->damage, sizeof file->damage, format, args);
	va_end(args);
}

size_t gm_load_bytes(const struct gm_log_file *file, void *to, size_t n, uint64_t offset)
{
	size_t done = 0, there = 0;
	if (offset < file->size)
		there = file->size - offset < n ? (size_t)(file->size - offset) : n;
	while (done < there) {
		ssize_t more =
			pread(file->fd, (char *)to + done, there - done, (off_t)(offset + done));
		if (more < 0 && errno == EINTR)
			continue;
		if (more <= 0)
			break;
		done += (size_t)more;
	}
	memset((char *)to + done, 0, n - done);
	return done;
}

/* The first fault of a head; NULL: it is valid. */
static const char *head_fault(const struct gm_log_file *file, const struct gm_segment_head *head)
{
	uint64_t before_slots = head->slots_offset;
	if (memcmp(head->magic, GM_FORMAT_MAGIC, sizeof head->magic) ||
	    head->version != file->version)
		return "this is no head";
	if (head->slot_size != GM_SLOT_SIZE || head->size != file->segment_size ||
	    before_slots % GM_SLOT_SIZE || before_slots >= head->size)
		return "its sizes are wrong";
	if (head->text_offset < sizeof *head ||
	    (uint64_t)head->text_offset + head->text_size > before_slots)
		return "its description is out of bounds";
	if (head->checkpoint_offset &&
	    (uint64_t)head->checkpoint_offset + GM_PAGE_ROOM > before_slots)
		return "its checkpoint is out of bounds";
	return NULL;
}

/* Read the slots twice and keep a kind only if the first reading had it already: else the other
 * fields, read before the kind was stored, may be older. `kinds` NULL: the log is closed, read
 * once. */
static void slots_read(const struct gm_log_file *file, struct gm_record *slots, uint32_t n,
		       uint64_t offset, uint8_t *kinds)
{
	if (!kinds) {
		gm_load_bytes(file, slots, (size_t)n * GM_SLOT_SIZE, offset);
		return;
	}
	gm_load_bytes(file, slots, (size_t)n * GM_SLOT_SIZE, offset);
	for (uint32_t i = 0; i < n; i++)
		kinds[i] = slots[i].kind;
	gm_load_bytes(file, slots, (size_t)n * GM_SLOT_SIZE, offset);
	for (uint32_t i = 0; i < n; i++)
		if (kinds[i] != slots[i].kind)
			slots[i].kind = GM_RECORD_NONE;
}

/* Read the slots of a segment. False: host memory is short. n is 0 if the segment was reused
 * meanwhile. */
static bool slots_load(const struct gm_log_file *file, struct gm_load_segment *segment)
{
	static const struct gm_record nothing;
	uint64_t from = segment->offset + segment->head.slots_offset;
	uint64_t end = segment->offset + file->segment_size;
	uint64_t bytes = from < file->size ? (end < file->size ? end : file->size) - from : 0;
	uint32_t n = (uint32_t)(bytes / GM_SLOT_SIZE);
	struct gm_segment_head after;
	if (!n)
		return true;
	segment->slots = malloc((size_t)n * GM_SLOT_SIZE);
	uint8_t *kinds = file->about.closed ? NULL : malloc(n);
	if (!segment->slots || (!kinds && !file->about.closed)) {
		free(kinds);
		return false;
	}
	slots_read(file, segment->slots, n, from, kinds);
	free(kinds);
	gm_load_bytes(file, &after, sizeof after, segment->offset);
	while (n && !memcmp(&segment->slots[n - 1], &nothing, sizeof nothing))
		n--;
	segment->n = after.sequence == segment->head.sequence ? n : 0;
	struct gm_record *less = realloc(segment->slots, (size_t)(n ? n : 1) * GM_SLOT_SIZE);
	segment->slots = less ? less : segment->slots;
	return true;
}

static int segment_compare(const void *a, const void *b)
{
	const struct gm_load_segment *x = a, *y = b;
	return (x->head.sequence > y->head.sequence) - (x->head.sequence < y->head.sequence);
}

static bool segment_load(struct gm_log_file *file, uint64_t i)
{
	struct gm_load_segment segment = {.offset = i * file->segment_size};
	size_t n = gm_load_bytes(file, &segment.head, sizeof segment.head, segment.offset);
	static const struct gm_segment_head unused;
	if (!memcmp(&segment.head, &unused, sizeof unused))
		return true;
	const char *fault =
		n < sizeof segment.head ? "cut within its head" : head_fault(file, &segment.head);
	if (fault) {
		gm_load_damage(file, "segment %llu at 0x%llx: %s", (unsigned long long)i + 1,
			       (unsigned long long)segment.offset, fault);
		return true;
	}
	if (!segment.head.sequence) /* being prepared */
		return true;
	if ((!file->passed && !slots_load(file, &segment)) ||
	    !gm_array_push(&file->segments, segment)) {
		free(segment.slots);
		return false;
	}
	return true;
}

static gm_log_read_tell *progress_tell;

void gm_log_read_progress(gm_log_read_tell *tell)
{
	progress_tell = tell;
}

/* Report that `done` of `all` segments of a long log were read. */
static void progress_report(const struct gm_log_file *file, uint64_t done, uint64_t all)
{
	if (progress_tell && all > GM_LOAD_HELD)
		progress_tell(file->path, done * file->segment_size, all * file->segment_size);
}

bool gm_load_segments(struct gm_log_file *file)
{
	uint64_t n = (file->size + file->segment_size - 1) / file->segment_size;
	file->passed = (file->about.closed || file->about.ended) && n > GM_LOAD_HELD;
	if (n > SEGMENTS_MOST)
		gm_load_damage(file, "more than %d segments", SEGMENTS_MOST);
	for (uint64_t i = 0; i < n && i < SEGMENTS_MOST; i++)
		if (!segment_load(file, i))
			return false;
		else if (!file->passed)
			progress_report(file, i + 1, n);
	if (file->segments.n)
		qsort(file->segments.at, file->segments.n, sizeof *file->segments.at,
		      segment_compare);
	return true;
}

bool gm_load_body(const struct gm_load_segment *segment, uint32_t slot, void *to, size_t length)
{
	uint32_t n = gm_format_slots(length) - 1;
	char *out = to;
	if (segment->n - slot - 1 < n)
		return false;
	for (uint32_t i = 1; i <= n; i++) {
		size_t part = length < GM_MORE_SIZE ? length : GM_MORE_SIZE;
		if (segment->slots[slot + i].kind != GM_RECORD_MORE)
			return false;
		memcpy(out, &segment->slots[slot + i], part);
		out += part;
		length -= part;
	}
	return true;
}

static bool kind_is_known(uint8_t kind)
{
	switch (kind) {
#define GM_KIND(value, name, help) case value:
		GM_RECORD_KINDS(GM_KIND)
#undef GM_KIND
		return true;
	default:
		return false;
	}
}

bool gm_load_has_sample(const struct gm_record *record)
{
	return record->kind == GM_RECORD_SAMPLE || record->kind == GM_RECORD_OUT_OF_MEMORY;
}

bool gm_load_sample(const struct gm_load_segment *segment, uint32_t slot, struct gm_sample *out)
{
	uint64_t length = segment->slots[slot].held;
	memset(out, 0, sizeof *out);
	if (length == 0) /* of a version that did not record the length */
		length = GM_SAMPLE_SHORT;
	if (length > sizeof *out) /* of a later version of the library */
		length = sizeof *out;
	return length >= GM_SAMPLE_SHORT && gm_load_body(segment, slot, out, length);
}

bool gm_load_heap(const struct gm_load_segment *segment, uint32_t slot, struct gm_heap_sample *out)
{
	uint32_t length;
	memset(out, 0, sizeof *out);
	if (!gm_load_body(segment, slot, &length, sizeof length))
		return false;
	if (length > sizeof *out) /* of a later version of the library */
		length = sizeof *out;
	return length >= sizeof length && gm_load_body(segment, slot, out, length);
}

/* Does the record have all of its body? */
static bool body_is_whole(const struct gm_load_segment *segment, uint32_t slot)
{
	const struct gm_record *record = &segment->slots[slot];
	struct gm_sample sample;
	struct gm_heap_sample heap;
	if (gm_load_has_sample(record))
		return gm_load_sample(segment, slot, &sample);
	return record->kind != GM_RECORD_HEAP_SAMPLE || gm_load_heap(segment, slot, &heap);
}

/* Index one slot. `count`: at the first reading, count it, and keep the thing that it defines.
 * False: host memory is short. */
static bool slot_index(struct gm_log_file *file, uint32_t s, uint32_t slot, bool count,
		       struct gm_load_keys *keys)
{
	static const struct gm_record nothing;
	const struct gm_load_segment *segment = &file->segments.at[s];
	const struct gm_record *record = &segment->slots[slot];
	if (record->kind == GM_RECORD_NONE) {
		file->about.torn += count && memcmp(record, &nothing, sizeof nothing) != 0;
		return true;
	}
	if (record->kind == GM_RECORD_MORE)
		return true;
	file->about.records += count;
	if (gm_load_defines(record->kind))
		return !count || gm_load_things_add(file, segment, slot);
	if (!kind_is_known(record->kind)) /* of a later version of the library */
		return true;
	if (!body_is_whole(segment, slot)) {
		file->about.torn += count;
		return true;
	}
	struct gm_load_key key = {record->time, s, slot};
	return gm_array_push(&keys->of, key);
}

static int key_compare(const void *a, const void *b)
{
	const struct gm_load_key *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->segment != y->segment)
		return x->segment < y->segment ? -1 : 1;
	return (x->slot > y->slot) - (x->slot < y->slot);
}

/* A process killed while the small log removed samples may leave one of them twice. */
static void keys_drop_doubles(struct gm_log_file *file, struct gm_load_keys *keys)
{
	size_t to = 0;
	for (size_t i = 0; i < keys->of.n; i++) {
		const struct gm_load_key *key = &keys->of.at[i];
		const struct gm_record *r = &file->segments.at[key->segment].slots[key->slot];
		if (to && r->kind == GM_RECORD_SAMPLE) {
			const struct gm_load_key *last = &keys->of.at[to - 1];
			if (!memcmp(r, &file->segments.at[last->segment].slots[last->slot],
				    sizeof *r))
				continue;
		}
		keys->of.at[to++] = *key;
	}
	keys->of.n = to;
}

static bool segment_index(struct gm_log_file *file, uint32_t s, bool count,
			  struct gm_load_keys *keys)
{
	for (uint32_t slot = 0; slot < file->segments.at[s].n; slot++)
		if (!slot_index(file, s, slot, count, keys))
			return false;
	return true;
}

static void keys_sort(struct gm_log_file *file, struct gm_load_keys *keys)
{
	bool sorted = true;
	for (size_t i = 1; sorted && i < keys->of.n; i++)
		sorted = key_compare(&keys->of.at[i - 1], &keys->of.at[i]) < 0;
	if (!sorted)
		qsort(keys->of.at, keys->of.n, sizeof *keys->of.at, key_compare);
	keys_drop_doubles(file, keys);
}

/* --- passes --- */

static void segment_drop(struct gm_log_file *file, uint32_t s)
{
	free(file->segments.at[s].slots);
	file->segments.at[s].slots = NULL;
	file->segments.at[s].n = 0;
}

/* Count the records of a log that is read in passes, and keep its strings, stacks and objects.
 * False: host memory is short. */
static bool segments_count(struct gm_log_file *file)
{
	struct gm_load_keys keys = {0};
	bool ok = true;
	for (uint32_t s = 0; ok && s < file->segments.n; s++) {
		uint64_t *earliest = &file->segments.at[s].earliest;
		keys.of.n = 0;
		*earliest = UINT64_MAX;
		ok = slots_load(file, &file->segments.at[s]) && segment_index(file, s, true, &keys);
		for (size_t i = 0; i < keys.of.n; i++) {
			const uint64_t time = keys.of.at[i].time;
			file->last = time > file->last ? time : file->last;
			*earliest = time < *earliest ? time : *earliest;
		}
		gm_load_things_unique(file); /* else the things of all segments would add up */
		segment_drop(file, s);
		progress_report(file, s + 1, file->segments.n);
	}
	for (uint32_t s = (uint32_t)file->segments.n; s-- > 1;)
		if (file->segments.at[s].earliest < file->segments.at[s - 1].earliest)
			file->segments.at[s - 1].earliest = file->segments.at[s].earliest;
	gm_array_free(&keys.of);
	return ok;
}

bool gm_load_index(struct gm_log_file *file)
{
	bool ok = true;
	if (file->passed)
		ok = segments_count(file);
	for (uint32_t s = 0; ok && !file->passed && s < file->segments.n; s++)
		ok = segment_index(file, s, true, &file->keys);
	if (!ok)
		return false;
	keys_sort(file, &file->keys);
	if (file->keys.of.n)
		file->last = file->keys.of.at[file->keys.of.n - 1].time;
	if (!gm_load_things_add_before(file))
		return false;
	gm_load_things_unique(file);
	return !file->passed || fstat(file->fd, &file->identity) == 0;
}

static bool file_is_same(const struct gm_log_file *file)
{
	const struct stat *was = &file->identity;
	struct stat is;
	return fstat(file->fd, &is) == 0 && is.st_dev == was->st_dev && is.st_ino == was->st_ino &&
	       is.st_size == was->st_size && is.st_mtim.tv_sec == was->st_mtim.tv_sec &&
	       is.st_mtim.tv_nsec == was->st_mtim.tv_nsec;
}

static void pass_end(struct gm_log_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	for (uint32_t s = 0; s < file->segments.n; s++)
		segment_drop(file, s);
	for (size_t w = 0; w < file->windows.n; w++)
		gm_array_free(&file->windows.at[w].of);
	gm_array_free(&file->windows);
}

void gm_load_pass_begin(struct gm_log_file *file)
{
	pass_end(file);
	file->next_segment = 0;
}

/* Load the next segment. False: host memory is short. */
static bool window_add(struct gm_log_file *file)
{
	const uint32_t s = file->next_segment++;
	struct gm_load_keys window = {0};
	if (slots_load(file, &file->segments.at[s]) && segment_index(file, s, false, &window)) {
		keys_sort(file, &window);
		progress_report(file, s + 1, file->segments.n);
		if (window.of.n == 0)
			segment_drop(file, s);
		if (window.of.n == 0 || gm_array_push(&file->windows, window))
			return true;
	}
	gm_array_free(&window.of);
	gm_load_damage(file, "out of memory");
	return false;
}

/* The window with the earliest record; NULL: all were read. */
static struct gm_load_keys *window_first(const struct gm_log_file *file)
{
	struct gm_load_keys *first = NULL;
	for (size_t w = 0; w < file->windows.n; w++) {
		struct gm_load_keys *window = &file->windows.at[w];
		if (!first || key_compare(&window->of.at[window->at], &first->of.at[first->at]) < 0)
			first = window;
	}
	return first;
}

/* Drop the windows that were read, a call later: the caller has the key of the last record. */
static void windows_drop(struct gm_log_file *file)
{
	for (size_t w = file->windows.n; w-- > 0;) {
		struct gm_load_keys *window = &file->windows.at[w];
		if (window->at < window->of.n)
			continue;
		segment_drop(file, window->of.at[0].segment);
		gm_array_free(&window->of);
		*window = file->windows.at[--file->windows.n];
	}
}

static bool pass_open(struct gm_log_file *file)
{
	file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file_is_same(file))
		return true;
	gm_load_damage(file, "it changed while it was read");
	file->next_segment = (uint32_t)file->segments.n;
	return false;
}

const struct gm_load_key *gm_load_pass_next(struct gm_log_file *file)
{
	struct gm_load_keys *first = NULL;
	bool ok = file->next_segment > 0 || pass_open(file);
	windows_drop(file);
	/* A delayed thread may have left a record some segments behind other records of its time.
	 * Among equal times, records of earlier segments are first. */
	while (ok) {
		first = window_first(file);
		if (file->next_segment == file->segments.n ||
		    (first && first->of.at[first->at].time <=
				      file->segments.at[file->next_segment].earliest))
			break;
		ok = window_add(file);
	}
	if (ok && first)
		return &first->of.at[first->at++];
	pass_end(file);
	return NULL;
}
