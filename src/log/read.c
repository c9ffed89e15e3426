/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "log/load.h"

__attribute__((format(printf, 3, 4))) static bool read_fail(char *why, size_t n, const char *format,
							    ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, n, format, args);
	va_end(args);
	return false;
}

/* Add the rows of parts to the counters; invalid rows and counters are skipped. */
static void parts_add(struct gm_log_file *file, const struct gm_parts *parts)
{
	for (uint32_t i = 0; i < GM_PART_ROWS && i < parts->rows; i++) {
		uint64_t row = parts->of[i].row;
		if (!row || row > GM_PAGE_ROWS)
			continue;
		for (unsigned place = 0; place < GM_PART_PLACES; place++) {
			unsigned counter = parts->counter[row != 1][place];
			if (counter && counter <= GM_COUNTER_COUNT)
				file->counters[row - 1][counter - 1] += parts->of[i].part[place];
		}
	}
}

bool gm_load_page(struct gm_log_file *file, uint64_t offset, struct gm_page_head *head)
{
	struct gm_parts parts;
	if (gm_load_bytes(file, head, sizeof *head, offset) < sizeof *head ||
	    memcmp(head->magic, GM_PAGE_MAGIC, sizeof head->magic) ||
	    (head->version != GM_PAGE_WHOLE && head->version != GM_PAGE_SPLIT) ||
	    head->counters > head->stride)
		return false;
	uint64_t size = sizeof *head + (uint64_t)head->stride * head->rows * sizeof(uint64_t);
	if (!head->stride || !head->rows || head->rows > GM_PAGE_ROOM || size > GM_PAGE_ROOM ||
	    offset + size > file->size)
		return false;
	bool split = head->version == GM_PAGE_SPLIT;
	if (split &&
	    gm_load_bytes(file, &parts, sizeof parts, offset + GM_PAGE_ROOM) < sizeof parts)
		return false;
	uint32_t n = head->counters < GM_COUNTER_COUNT ? head->counters : GM_COUNTER_COUNT;
	for (uint32_t row = 0; row < head->rows && row < GM_PAGE_ROWS; row++)
		gm_load_bytes(file, file->counters[row], n * sizeof(uint64_t),
			      offset + sizeof *head +
				      (uint64_t)row * head->stride * sizeof(uint64_t));
	if (split)
		parts_add(file, &parts);
	return true;
}

/* True if the process that writes the file runs on this host and has it open. */
static bool process_is_running(const struct gm_log_file *file)
{
	char host[256] = "", folder[64], path[400];
	struct gm_fd_identity log;
	struct stat st;
	bool found = false;
	gethostname(host, sizeof host - 1);
	if (file->about.closed || strcmp(host, file->about.host) || !gm_fd_identify(file->fd, &log))
		return false;
	snprintf(folder, sizeof folder, "/proc/%d/fd", file->about.pid);
	DIR *dir = opendir(folder);
	for (struct dirent *entry; !found && dir && (entry = readdir(dir));) {
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		found = !stat(path, &st) && st.st_dev == log.device && st.st_ino == log.inode;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* "UUID in hex, bytes, name" */
static bool device_parse(struct gm_log_file *file, const char *text)
{
	struct gm_log_read_device device = {0};
	for (unsigned i = 0; i < 16; i++) {
		unsigned byte;
		if (strspn(text + 2 * i, "0123456789abcdef") < 2 ||
		    sscanf(text + 2 * i, "%2x", &byte) != 1)
			return true; /* damaged: skip the device */
		device.uuid[i] = (uint8_t)byte;
	}
	char *end;
	device.total = strtoull(text + 32, &end, 10);
	snprintf(device.name, sizeof device.name, "%s", *end == ' ' ? end + 1 : end);
	return gm_array_push(&file->devices, device);
}

static bool pair_parse(struct gm_log_file *file, const char *pair)
{
	struct gm_log_about *about = &file->about;
	const struct {
		const char *key;
		const char **to;
	} texts[] = {
		{"host=", &about->host},       {"program=", &about->program},
		{"command=", &about->command}, {"job=", &about->job},
		{"mode=", &about->mode},
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		size_t n = strlen(texts[i].key);
		if (!strncmp(pair, texts[i].key, n)) {
			*texts[i].to = pair + n;
			return true;
		}
	}
	if (!strncmp(pair, "hook=", 5))
		return gm_array_push(&file->hooks, pair + 5);
	if (!strncmp(pair, "knob=", 5))
		return gm_array_push(&file->knobs, pair + 5);
	if (!strncmp(pair, "device=", 7))
		return device_parse(file, pair + 7);
	return true; /* of a later version of the library */
}

bool gm_load_about(struct gm_log_file *file)
{
	const struct gm_load_segment *newest = &file->segments.at[file->segments.n - 1];
	const struct gm_segment_head *head = &newest->head;
	struct gm_log_about *about = &file->about;
	file->text = calloc(1, (size_t)head->text_size + 1);
	if (!file->text)
		return false;
	gm_load_bytes(file, file->text, head->text_size, newest->offset + head->text_offset);
	for (uint32_t at = 0; at < head->text_size; at += (uint32_t)strlen(file->text + at) + 1)
		if (!pair_parse(file, file->text + at))
			return false;
	about->level = head->level == GM_LEVEL_SMALL ? "small" : "events";
	about->rank = head->rank;
	about->pid = (int)head->pid;
	about->recording = head->level == GM_LEVEL_RECORDING;
	about->driver_version = head->driver_version;
	about->start = head->start;
	about->start_wall = head->start_wall;
	about->n_devices = (unsigned)file->devices.n;
	about->n_hooks = (unsigned)file->hooks.n;
	about->n_knobs = (unsigned)file->knobs.n;
	about->devices = file->devices.at;
	about->hooks = file->hooks.at;
	about->knobs = file->knobs.at;
	file->kept = head->kept;
	return true;
}

/* The length now. It is at least the length that the page gave before, unless the file was cut. */
static uint64_t file_size(const struct gm_log_file *file)
{
	struct stat st;
	return fstat(file->fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* Fill in the rest of `about` from the newest counters, and note missing parts. */
static void about_finish(struct gm_log_file *file)
{
	static const uint32_t needed =
		1u << GM_RECORD_ALLOCATE | 1u << GM_RECORD_FREE | 1u << GM_RECORD_MAP;
	struct gm_log_about *about = &file->about;
	const struct gm_load_segment *first = &file->segments.at[0];
	const struct gm_load_segment *newest = &file->segments.at[file->segments.n - 1];
	uint64_t counted = file->counters[0][GM_C_log_dropped_records];
	uint64_t n = newest->head.sequence - first->head.sequence + 1;
	about->dropped = counted > newest->head.dropped ? counted : newest->head.dropped;
	about->end = file->page_known ? file->page.last : newest->head.begun;
	if (file->last > about->end)
		about->end = file->last;
	if (about->end < about->start)
		about->end = about->start;
	if (!file->page_known)
		gm_load_damage(file, "its counters cannot be read");
	else if (file_size(file) < file->page.length)
		gm_load_damage(file, "it was cut: %llu of %llu bytes are there",
			       (unsigned long long)file->size,
			       (unsigned long long)file->page.length);
	else if (newest->head.sequence < file->sequence || n != file->segments.n)
		gm_load_damage(file, "segments are missing");
	about->complete = !*file->damage && !about->dropped && first->head.sequence == 1 &&
			  newest->head.level == GM_LEVEL_EVENTS &&
			  (file->kept & needed) == needed && !(about->closed && about->torn);
	about->running = process_is_running(file);
	about->since = first->head.sequence == 1 ? about->start : first->head.begun;
	about->since_known =
		(first->head.sequence == 1 && !about->recording) || first->head.live_known;
	about->kept = file->kept;
}

/* Check the head of the first segment. False: `why` has the reason. */
static bool head_check(struct gm_log_file *file, char *why, size_t n)
{
	struct gm_segment_head head;
	if (gm_load_bytes(file, &head, sizeof head, 0) < sizeof head.magic ||
	    memcmp(head.magic, GM_FORMAT_MAGIC, sizeof head.magic))
		return read_fail(why, n, "not a gpumem log");
	if (file->size < sizeof head)
		return read_fail(why, n, "segment 1 at 0x0: cut within its head");
	if (head.version < GM_FORMAT_OLDEST || head.version > GM_FORMAT_VERSION)
		return read_fail(why, n, "version %u of the format, this gpumemstat reads %d to %d",
				 head.version, GM_FORMAT_OLDEST, GM_FORMAT_VERSION);
	if (head.size < GM_SEGMENT_SMALL || head.size > 4 * GM_SEGMENT_EVENTS ||
	    head.size & (head.size - 1))
		return read_fail(why, n, "segment 1 at 0x0: its sizes are wrong");
	file->segment_size = head.size;
	file->version = head.version;
	return true;
}

static bool file_load(struct gm_log_file *file, char *why, size_t n)
{
	struct gm_page_head checkpoint;
	if (!head_check(file, why, n))
		return false;
	/* Before the records: a log that is closed now does not change while it is read. */
	file->page_known = gm_load_page(file, GM_PAGE_OFFSET, &file->page);
	file->about.ended_known = file->page_known;
	file->about.closed = file->page_known && file->page.closed == GM_PAGE_CLOSED;
	file->about.ended = file->page_known && file->page.closed == GM_PAGE_ENDED;
	file->sequence = file->page.sequence;
	file->size = file_size(file);
	if (!gm_load_segments(file))
		return read_fail(why, n, "out of memory");
	if (!file->segments.n)
		return read_fail(why, n, "%s",
				 *file->damage ? file->damage
					       : "no segment is complete: its process was killed "
						 "as it began, or is just beginning");
	const struct gm_load_segment *newest = &file->segments.at[file->segments.n - 1];
	if (!file->page_known && newest->head.checkpoint_offset)
		gm_load_page(file, newest->offset + newest->head.checkpoint_offset, &checkpoint);
	if (!gm_load_about(file) || !gm_load_index(file))
		return read_fail(why, n, "out of memory");
	/* Again after the records: counters are at least as new as the events that were read. */
	if (!file->about.closed && !file->about.ended && file->page_known)
		gm_load_page(file, GM_PAGE_OFFSET, &file->page);
	about_finish(file);
	return true;
}

/* Closed once read: a command may hold many logs, and descriptors are few. */
static void file_close(struct gm_log_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

static bool file_open(struct gm_log_file *file, const char *path, char *why, size_t n)
{
	struct stat st;
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file->fd < 0)
		return read_fail(why, n, "%s", errno == ENOENT ? "no such file" : strerror(errno));
	if (fstat(file->fd, &st) || !S_ISREG(st.st_mode))
		return read_fail(why, n, "%s, not a gpumem log",
				 S_ISDIR(st.st_mode) ? "a folder" : "a pipe or a device");
	if (!st.st_size)
		return read_fail(why, n,
				 "empty: no gpumem log, or its process was killed as it began");
	file->size = (uint64_t)st.st_size;
	file->path = strdup(path);
	if (!file->path)
		return read_fail(why, n, "out of memory");
	return true;
}

bool gm_log_read_open(const char *path, struct gm_log_file **out, char *why, size_t n)
{
	struct gm_log_file *file = calloc(1, sizeof *file);
	if (!file)
		return read_fail(why, n, "out of memory");
	struct gm_log_about *about = &file->about;
	about->host = about->program = about->command = about->job = about->mode = "";
	about->level = "";
	about->damage = file->damage;
	about->rank = -1;
	if (!file_open(file, path, why, n) || !file_load(file, why, n)) {
		gm_log_read_close(file);
		return false;
	}
	file_close(file);
	about->path = file->path;
	*out = file;
	return true;
}

void gm_log_read_close(struct gm_log_file *file)
{
	if (!file)
		return;
	for (size_t i = 0; i < file->segments.n; i++)
		free(file->segments.at[i].slots);
	gm_load_things_free(&file->strings);
	gm_load_things_free(&file->stacks);
	gm_load_things_free(&file->objects);
	gm_array_free(&file->segments);
	gm_array_free(&file->keys.of);
	for (size_t i = 0; i < file->windows.n; i++)
		gm_array_free(&file->windows.at[i].of);
	gm_array_free(&file->windows);
	gm_array_free(&file->devices);
	gm_array_free(&file->hooks);
	gm_array_free(&file->knobs);
	free(file->text);
	free(file->path);
	file_close(file);
	free(file);
}

const struct gm_log_about *gm_log_read_about(const struct gm_log_file *file)
{
	return &file->about;
}

const uint64_t *gm_log_read_counters(const struct gm_log_file *file, unsigned device)
{
	return file->counters[1 + (device < GM_COUNTER_DEVICES ? device : GM_COUNTER_DEVICES - 1)];
}

uint64_t gm_log_read_counter(const struct gm_log_file *file, unsigned device,
			     enum gm_counter counter)
{
	if (gm_counter_table[counter].scope == GM_SCOPE_PROCESS)
		return file->counters[0][counter];
	return gm_log_read_counters(file, device)[counter];
}

const char *gm_log_read_string(const struct gm_log_file *file, uint32_t number)
{
	return gm_load_thing(&file->strings, number);
}

const struct gm_log_stack *gm_log_read_stack(const struct gm_log_file *file, uint32_t number)
{
	return gm_load_thing(&file->stacks, number);
}

const struct gm_log_object *gm_log_read_object(const struct gm_log_file *file, uint32_t number)
{
	return gm_load_thing(&file->objects, number);
}

bool gm_log_read_next(struct gm_log_file *file, struct gm_log_entry *out)
{
	const struct gm_load_key *key = NULL;
	if (file->passed)
		key = gm_load_pass_next(file);
	else if (file->keys.at < file->keys.of.n)
		key = &file->keys.of.at[file->keys.at++];
	if (!key)
		return false;
	const struct gm_load_segment *segment = &file->segments.at[key->segment];
	out->record = segment->slots[key->slot];
	out->segment = key->segment;
	out->sample = NULL;
	out->heap = NULL;
	if (out->record.kind == GM_RECORD_HEAP_SAMPLE) {
		gm_load_heap(segment, key->slot, &file->heap);
		out->heap = &file->heap;
	}
	if (gm_load_has_sample(&out->record)) {
		gm_load_sample(segment, key->slot, &file->sample);
		out->sample = &file->sample;
	}
	return true;
}

void gm_log_read_rewind(struct gm_log_file *file)
{
	file->keys.at = 0;
	if (file->passed)
		gm_load_pass_begin(file);
}
