/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two kinds of CSV, distinguished by their first line:
 *   RMM         from rapids-memory-manager's logging_resource_adaptor, in the order of rows
 *   MiniMalloc  one block a row, from `lower` to `upper`, or to `end`, which is the last moment of
 * it; at equal times frees precede allocations. Its columns are in any order, under any of the
 * names that MiniMalloc takes.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/escape.h"
#include "tools/replay/policy.h"
#include "tools/replay/replay.h"

enum { LINE_LONGEST = 500, FIELDS_MOST = 8, SHOWN = 60 };

struct csv {
	struct gm_trace *trace;
	FILE *in;
	char line[LINE_LONGEST + 1];
	char *fields[FIELDS_MOST];
	unsigned n; /* fields of the line; FIELDS_MOST: or more */
	bool ended;
};

/* Read the next line without its newline. False: csv->ended, or a read error. */
static bool csv_next_line(struct csv *csv)
{
	size_t n = 0;
	int c;
	csv->trace->line++;
	while ((c = getc_unlocked(csv->in)) != EOF && c != '\n') {
		if (c == '\0')
			return gm_trace_fail(csv->trace, "a byte that is 0: this is no text");
		if (n == LINE_LONGEST)
			return gm_trace_fail(csv->trace, "longer than %d bytes", LINE_LONGEST);
		csv->line[n++] = (char)c;
	}
	if (ferror(csv->in))
		return gm_trace_fail(csv->trace, "%s", strerror(errno));
	if (n > 0 && csv->line[n - 1] == '\r')
		n--;
	csv->line[n] = '\0';
	csv->ended = c == EOF && n == 0;
	return !csv->ended;
}

/* Read the next line that is not empty and split it; it must have `n` fields. */
static bool csv_next_row(struct csv *csv, unsigned n)
{
	do
		if (!csv_next_line(csv))
			return false;
	while (!*csv->line);
	char *at = csv->line;
	csv->n = 0;
	do
		csv->fields[csv->n++] = strsep(&at, ",");
	while (at && csv->n < FIELDS_MOST);
	if (csv->n != n || at)
		return gm_trace_fail(csv->trace, "%u%s fields, expected %u", csv->n,
				     at ? " or more" : "", n);
	return true;
}

/* Fail with a message about a field. */
static bool csv_fail_field(struct csv *csv, const char *name, const char *text,
			   const char *expected)
{
	return gm_trace_fail(csv->trace, "%s '%.*s%s': expected %s", name, SHOWN, text,
			     strlen(text) > SHOWN ? "..." : "", expected);
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* Parse all of `text` as a number. */
static bool number_parse(const char *text, int base, uint64_t *out)
{
	uint64_t value = 0;
	if (!*text)
		return false;
	for (; *text; text++)
		if (digit_value(*text) >= base ||
		    __builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_value(*text), &value))
			return false;
	*out = value;
	return true;
}

/* --- RMM --- */

/* "1634567890.123456": seconds since 1970, with up to nine digits behind the point; to ns. */
static bool epoch_parse(const char *text, uint64_t *out)
{
	uint64_t seconds = 0, ns = 0, unit = 1000000000;
	const char *point = strchr(text, '.');
	char whole[24];
	const size_t n = point ? (size_t)(point - text) : strlen(text);
	if (n >= sizeof whole)
		return false;
	memcpy(whole, text, n);
	whole[n] = '\0';
	if (!number_parse(whole, 10, &seconds))
		return false;
	for (const char *c = point ? point + 1 : ""; *c; c++) {
		if (*c < '0' || *c > '9' || unit == 1)
			return false;
		unit /= 10;
		ns += (uint64_t)(*c - '0') * unit;
	}
	return !__builtin_mul_overflow(seconds, (uint64_t)1000000000, out) &&
	       !__builtin_add_overflow(*out, ns, out);
}

/* "HH:MM:SS.uuuuuu", or ':' before the last digits; to ns. */
static bool clock_parse(const char *text, uint64_t *out)
{
	static const char shape[] = "00:00:00.000000";
	uint64_t part[4] = {0};
	unsigned at = 0;
	size_t i;
	for (i = 0; shape[i]; i++) {
		if (shape[i] == '0' && text[i] >= '0' && text[i] <= '9')
			part[at] = part[at] * 10 + (uint64_t)(text[i] - '0');
		else if (text[i] == shape[i] || (shape[i] == '.' && text[i] == ':'))
			at++;
		else
			return false;
	}
	*out = (((part[0] * 60 + part[1]) * 60 + part[2]) * 1000000 + part[3]) * 1000;
	return !text[i] && part[0] < 24 && part[1] < 60 && part[2] <= 60;
}

static bool pointer_parse(const char *text, uint64_t *out)
{
	*out = 0;
	return strcmp(text, "(nil)") == 0 ||
	       (strncmp(text, "0x", 2) == 0 && number_parse(text + 2, 16, out));
}

static bool rmm_allocate(struct csv *csv, uint64_t pointer, uint64_t size, uint64_t time)
{
	const struct gm_trace_block *there = gm_trace_find(csv->trace, pointer);
	if (!pointer)
		return csv_fail_field(csv, "pointer", csv->fields[3],
				      "the address of what was allocated");
	if (there)
		return gm_trace_fail(csv->trace, "%s is allocated already, in line %llu",
				     csv->fields[3], (unsigned long long)there->line);
	return gm_trace_add(csv->trace, pointer, size, time);
}

static bool rmm_free(struct csv *csv, uint64_t pointer, uint64_t size, uint64_t time)
{
	struct gm_trace_block *there = gm_trace_find(csv->trace, pointer);
	if (!there)
		return gm_trace_fail(csv->trace, "free of %s, which is not allocated",
				     csv->fields[3]);
	if (there->size != size)
		return gm_trace_fail(
			csv->trace, "free of %llu bytes at %s, which has %llu since line %llu",
			(unsigned long long)size, csv->fields[3], (unsigned long long)there->size,
			(unsigned long long)there->line);
	return gm_trace_end(csv->trace, there, time);
}

static bool rmm_row(struct csv *csv, uint64_t time)
{
	char *const *f = csv->fields;
	uint64_t pointer, size;
	if (!pointer_parse(f[3], &pointer))
		return csv_fail_field(csv, "pointer", f[3], "0x and hexadecimal digits, or (nil)");
	if (!number_parse(f[4], 10, &size))
		return csv_fail_field(csv, "size", f[4], "a number of bytes");
	bool allocates = strcmp(f[2], "allocate") == 0;
	if (strcmp(f[2], "allocate failure") == 0) {
		csv->trace->refused++;
		return true;
	}
	if (!allocates && strcmp(f[2], "free") != 0 && strcmp(f[2], "deallocate") != 0)
		return csv_fail_field(csv, "action", f[2],
				      "allocate, free, deallocate or allocate failure");
	if (size == 0) {
		csv->trace->empty += allocates;
		return true;
	}
	return allocates ? rmm_allocate(csv, pointer, size, time)
			 : rmm_free(csv, pointer, size, time);
}

static bool rmm_read(struct csv *csv)
{
	const uint64_t day = (uint64_t)24 * 3600 * 1000000000;
	uint64_t thread, clock, begun = 0, last = 0;
	csv->trace->format = "rmm";
	while (csv_next_row(csv, 6)) {
		if (!number_parse(csv->fields[0], 10, &thread))
			return csv_fail_field(csv, "thread", csv->fields[0], "a number");
		/* Rows of threads may be slightly out of order; half a day back is the next day. */
		if (epoch_parse(csv->fields[1], &clock))
			begun = 0;
		else if (!clock_parse(csv->fields[1], &clock))
			return csv_fail_field(csv, "time", csv->fields[1],
					      "HH:MM:SS.uuuuuu, or seconds since 1970");
		else if (begun + clock + day / 2 < last)
			begun += day;
		last = begun + clock > last ? begun + clock : last;
		if (!rmm_row(csv, last))
			return false;
	}
	return csv->ended;
}

/* --- MiniMalloc --- */

struct row {
	char *id;
	uint64_t lower, upper, size, line;
	UT_hash_handle hh;
};

struct moment {
	uint64_t time;
	size_t row;
	bool allocates;
};

enum column { ID, LOWER, UPPER, SIZE, GAPS, OTHER, COLUMNS };

/* Where the columns are, and how many. */
struct header {
	unsigned at[COLUMNS]; /* FIELDS_MOST: it is missing */
	unsigned n;
	bool upper_is_last; /* "end" */
};

struct rows {
	struct header header;
	struct row *by_id;
	GM_ARRAY(struct row *) at;
	GM_ARRAY(struct moment) moments;
};

static bool rows_add(struct csv *csv, struct rows *rows, struct row *row)
{
	const struct row *there;
	HASH_FIND(hh, rows->by_id, row->id, strlen(row->id), there);
	if (there)
		return gm_trace_fail(csv->trace, "id '%.*s' is there already, in line %llu", SHOWN,
				     row->id, (unsigned long long)there->line);
	struct moment first = {row->lower, rows->at.n - 1, true};
	struct moment last = {row->upper, rows->at.n - 1, false};
	if (!gm_array_push(&rows->moments, first) || !gm_array_push(&rows->moments, last))
		return gm_trace_fail(csv->trace, "out of memory");
	HASH_ADD_KEYPTR(hh, rows->by_id, row->id, strlen(row->id), row);
	return !gm_hash_failed(row) || gm_trace_fail(csv->trace, "out of memory");
}

static bool row_parse(struct csv *csv, const struct header *header, uint64_t unit, struct row *row)
{
	static const char *const names[] = {[LOWER] = "lower", [UPPER] = "upper", [SIZE] = "size"};
	uint64_t *const numbers[] = {
		[LOWER] = &row->lower, [UPPER] = &row->upper, [SIZE] = &row->size};
	char *const *f = csv->fields;
	for (unsigned i = LOWER; i <= SIZE; i++)
		if (!number_parse(f[header->at[i]], 10, numbers[i]))
			return csv_fail_field(csv, names[i], f[header->at[i]], "a number");
	row->upper += header->upper_is_last && row->upper != UINT64_MAX;
	if (row->upper <= row->lower)
		return gm_trace_fail(csv->trace, "upper %s is not above lower %s",
				     f[header->at[UPPER]], f[header->at[LOWER]]);
	if (header->at[GAPS] != FIELDS_MOST && *f[header->at[GAPS]])
		return csv_fail_field(csv, "gaps", f[header->at[GAPS]],
				      "none: memory cannot have gaps in time");
	if (__builtin_mul_overflow(row->size, unit, &row->size) || row->size > GM_POLICY_LARGEST)
		return gm_trace_fail(csv->trace, "size %s, of %llu bytes: more than any device has",
				     f[header->at[SIZE]], (unsigned long long)unit);
	return true;
}

static bool rows_read(struct csv *csv, uint64_t unit, struct rows *rows)
{
	const struct header *header = &rows->header;
	while (csv_next_row(csv, header->n)) {
		const char *id = csv->fields[header->at[ID]];
		struct row *row = gm_policy_make(sizeof *row + strlen(id) + 1);
		row->id = strcpy((char *)(row + 1), id);
		row->line = csv->trace->line;
		if (!gm_array_push(&rows->at, row)) {
			free(row);
			return gm_trace_fail(csv->trace, "out of memory");
		}
		if (!row_parse(csv, header, unit, row) || !rows_add(csv, rows, row))
			return false;
	}
	return csv->ended;
}

static int moment_compare(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->allocates != y->allocates)
		return x->allocates ? 1 : -1;
	return (x->row > y->row) - (x->row < y->row);
}

static bool rows_play(struct gm_trace *trace, const struct rows *rows)
{
	for (size_t i = 0; i < rows->moments.n; i++) {
		const struct moment *m = &rows->moments.at[i];
		uint64_t size = rows->at.at[m->row]->size;
		trace->line = rows->at.at[m->row]->line;
		if (size == 0)
			trace->empty += m->allocates;
		else if (m->allocates ? !gm_trace_add(trace, m->row, size, 0)
				      : !gm_trace_end(trace, gm_trace_find(trace, m->row), 0))
			return false;
	}
	return true;
}

/* A header of MiniMalloc's names, each column once, with all of the first four. */
static bool header_parse(const char *text, struct header *header)
{
	static const struct {
		const char *name;
		enum column column;
	} names[] = {{"id", ID},       {"buffer", ID},	 {"buffer_id", ID}, {"lower", LOWER},
		     {"begin", LOWER}, {"start", LOWER}, {"upper", UPPER},  {"end", UPPER},
		     {"size", SIZE},   {"gaps", GAPS},	 {"offset", OTHER}, {"alignment", OTHER}};
	char copy[LINE_LONGEST + 1], *at = strcpy(copy, text);
	for (unsigned i = 0; i < COLUMNS; i++)
		header->at[i] = FIELDS_MOST;
	header->n = 0;
	while (at) {
		const char *word = strsep(&at, ",");
		unsigned i = 0;
		while (i < sizeof names / sizeof *names && strcmp(word, names[i].name) != 0)
			i++;
		if (i == sizeof names / sizeof *names || header->n == FIELDS_MOST)
			return false;
		const enum column column = names[i].column;
		if (column != OTHER && header->at[column] != FIELDS_MOST)
			return false;
		header->at[column] = header->n++;
		header->upper_is_last |= strcmp(word, "end") == 0;
	}
	for (unsigned i = ID; i <= SIZE; i++)
		if (header->at[i] == FIELDS_MOST)
			return false;
	return true;
}

static bool minimalloc_read(struct csv *csv, const struct header *header, uint64_t unit)
{
	struct rows rows = {.header = *header};
	csv->trace->format = "minimalloc";
	bool ok = rows_read(csv, unit, &rows);
	if (ok && rows.moments.n) {
		qsort(rows.moments.at, rows.moments.n, sizeof *rows.moments.at, moment_compare);
		ok = rows_play(csv->trace, &rows);
	}
	HASH_CLEAR(hh, rows.by_id);
	for (size_t i = 0; i < rows.at.n; i++)
		free(rows.at.at[i]);
	gm_array_free(&rows.at);
	gm_array_free(&rows.moments);
	return ok;
}

/* --- either --- */

bool gm_trace_read_csv(struct gm_trace *trace, FILE *in, uint64_t unit)
{
	struct csv csv = {.trace = trace, .in = in};
	struct header columns = {0};
	trace->line = 0;
	if (!csv_next_line(&csv))
		return csv.ended ? gm_trace_fail(trace, "empty") : false;
	size_t mark = strlen(GM_TEXT_MARK);
	const char *header = csv.line + (strncmp(csv.line, GM_TEXT_MARK, mark) ? 0 : mark);
	if (strcmp(header, "Thread,Time,Action,Pointer,Size,Stream") == 0)
		return rmm_read(&csv);
	if (header_parse(header, &columns))
		return minimalloc_read(&csv, &columns, unit);
	return csv_fail_field(&csv, "unknown header", header,
			      "Thread,Time,Action,Pointer,Size,Stream or id,lower,upper,size");
}
