/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of coordinates: MatrixMarket, and graphs of the ninth and tenth DIMACS challenge. Words of
 * a head are taken in any case. A line has exactly the fields that its format has.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "programs/common/coordinates.h"

#define MOST_ENTRIES (UINT32_MAX / 2)
#define WORD 64 /* longer words are wrong ones */

struct source {
	FILE *stream;
	int c;		  /* the next character, or EOF */
	uint64_t line;	  /* of it */
	uint64_t entries; /* that the head announces */
	uint64_t room;
	unsigned values;  /* numbers behind an entry; of the tenth challenge, behind a neighbour */
	unsigned weights; /* of a vertex */
	bool symmetric;
};

/* --- characters, words, numbers --- */

static void advance(struct source *f)
{
	f->line += f->c == '\n';
	f->c = getc_unlocked(f->stream);
}

static bool blank(int c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool line_ends(struct source *f)
{
	while (blank(f->c))
		advance(f);
	return f->c == '\n' || f->c == EOF;
}

static void line_skip(struct source *f)
{
	while (f->c != '\n' && f->c != EOF)
		advance(f);
	if (f->c == '\n')
		advance(f);
}

/* To the next line; false: this one has more. */
static bool line_end(struct source *f)
{
	if (!line_ends(f))
		return false;
	line_skip(f);
	return true;
}

/* To a line that says something; false: there is none. `mark`: with which comments begin. */
static bool content_find(struct source *f, int mark)
{
	while (line_ends(f) || f->c == mark) {
		if (f->c == EOF)
			return false;
		line_skip(f);
	}
	return true;
}

/* False: there is none in this line, or it is too long. */
static bool word_read(struct source *f, char word[WORD])
{
	unsigned n = 0;
	if (line_ends(f))
		return false;
	for (; !blank(f->c) && f->c != '\n' && f->c != EOF; advance(f)) {
		if (n == WORD - 1 || f->c == '\0')
			return false;
		word[n++] = (char)f->c;
	}
	word[n] = '\0';
	return true;
}

static bool word_is(struct source *f, const char *wanted)
{
	char word[WORD];
	return word_read(f, word) && strcasecmp(word, wanted) == 0;
}

/* Digits alone. */
static bool number_read(struct source *f, uint64_t *number)
{
	*number = 0;
	if (line_ends(f) || f->c < '0' || f->c > '9')
		return false;
	for (; f->c >= '0' && f->c <= '9'; advance(f)) {
		if (*number > (UINT64_MAX - 9) / 10)
			return false;
		*number = *number * 10 + (uint64_t)(f->c - '0');
	}
	return blank(f->c) || f->c == '\n' || f->c == EOF;
}

/* What it is does not matter, as long as it is a number. */
static bool value_read(struct source *f)
{
	char word[WORD], *end;
	if (!word_read(f, word))
		return false;
	strtod(word, &end);
	return *end == '\0';
}

/* --- entries. Each of these returns what is wrong; NULL: nothing --- */

static const char *const no_entry = "not an entry";
static const char *const no_memory = "no memory";
static const char *const too_large = "too large, or empty";

/* Memory for entries grows with the file, and not by what its head says. Rows without entries count
 * as well, so theirs is by the head. */
static const char *room_make(struct source *f, struct pr_coordinates *out)
{
	uint64_t room = f->room ? 2 * f->room : 4096;
	uint32_t *row = realloc(out->row, room * sizeof *row);
	out->row = row ? row : out->row;
	uint32_t *column = realloc(out->column, room * sizeof *column);
	out->column = column ? column : out->column;
	if (!row || !column)
		return no_memory;
	f->room = room;
	return NULL;
}

/* Numbers from 1 on. */
static const char *entry_add(struct source *f, struct pr_coordinates *out, uint64_t r, uint64_t c)
{
	if (!r || !c || r > out->rows || c > out->rows)
		return no_entry;
	const char *fault = f->room < out->entries + 2 ? room_make(f, out) : NULL;
	if (fault)
		return fault;
	out->row[out->entries] = (uint32_t)r - 1;
	out->column[out->entries++] = (uint32_t)c - 1;
	if (!f->symmetric || r == c)
		return NULL;
	out->row[out->entries] = (uint32_t)c - 1;
	out->column[out->entries++] = (uint32_t)r - 1;
	return NULL;
}

static const char *size_check(const struct source *f, const struct pr_coordinates *out)
{
	bool fits = out->rows && out->rows < UINT32_MAX && f->entries < MOST_ENTRIES;
	return fits ? NULL : too_large;
}

/* An entry a line: `letter`, if any, two numbers, values. */
static const char *entries_read(struct source *f, struct pr_coordinates *out, int mark,
				const char *letter)
{
	for (uint64_t i = 0; i < f->entries; i++) {
		uint64_t r, c;
		if (!content_find(f, mark))
			return "it ends before its last entry";
		if ((letter && !word_is(f, letter)) || !number_read(f, &r) || !number_read(f, &c))
			return no_entry;
		for (unsigned v = 0; v < f->values; v++)
			if (!value_read(f))
				return no_entry;
		if (!line_ends(f))
			return no_entry;
		const char *fault = entry_add(f, out, r, c);
		if (fault)
			return fault;
		line_skip(f);
	}
	return content_find(f, mark) ? "it has more entries than its head says" : NULL;
}

/* --- formats --- */

/* The place of the next word in `names`, of which NULL is the last; -1: it is none of them. */
static int name_read(struct source *f, const char *const *names)
{
	char word[WORD];
	if (word_read(f, word))
		for (int i = 0; names[i]; i++)
			if (strcasecmp(word, names[i]) == 0)
				return i;
	return -1;
}

static const char *market_read(struct source *f, struct pr_coordinates *out)
{
	static const char *const fields[] = {"pattern", "real",	   "double",
					     "integer", "complex", NULL};
	static const unsigned values[] = {0, 1, 1, 1, 2};
	static const char *const kinds[] = {"general", "symmetric", "skew-symmetric", "hermitian",
					    NULL};
	uint64_t columns;
	if (!word_is(f, "%%MatrixMarket"))
		return "not a file of MatrixMarket";
	if (!word_is(f, "matrix") || !word_is(f, "coordinate"))
		return "not a matrix of coordinates";
	int field = name_read(f, fields);
	if (field < 0)
		return "its values are not pattern, real, integer or complex";
	int kind = name_read(f, kinds);
	if (kind < 0)
		return "it is not general, symmetric, skew-symmetric or hermitian";
	if (!line_end(f))
		return "its head has more than five words";
	f->values = values[field];
	f->symmetric = kind > 0;
	if (!content_find(f, '%') || !number_read(f, &out->rows) || !number_read(f, &columns) ||
	    !number_read(f, &f->entries) || !line_ends(f))
		return "its size is missing";
	if (out->rows != columns)
		return "not a square";
	const char *fault = size_check(f, out);
	if (fault)
		return fault;
	line_skip(f);
	return entries_read(f, out, '%', NULL);
}

static const char *ninth_read(struct source *f, struct pr_coordinates *out)
{
	if (!content_find(f, 'c') || !word_is(f, "p") || !word_is(f, "sp") ||
	    !number_read(f, &out->rows) || !number_read(f, &f->entries) || !line_ends(f))
		return "not a graph of DIMACS";
	const char *fault = size_check(f, out);
	if (fault)
		return fault;
	line_skip(f);
	f->values = 1; /* the length */
	return entries_read(f, out, 'c', "a");
}

/* "VERTICES EDGES [FORMAT [WEIGHTS]]" */
static const char *tenth_head(struct source *f, struct pr_coordinates *out)
{
	uint64_t format = 0, weights = 1;
	if (!content_find(f, '%') || !number_read(f, &out->rows) || !number_read(f, &f->entries) ||
	    (!line_ends(f) && !number_read(f, &format)) ||
	    (!line_ends(f) && !number_read(f, &weights)) || !line_ends(f))
		return "not a graph of DIMACS";
	if (format != 0 && format != 1 && format != 10 && format != 11)
		return "its format is not 0, 1, 10 or 11";
	if (weights > 16)
		return "more than 16 weights of a vertex";
	const char *fault = size_check(f, out);
	f->values = format % 10;
	f->weights = format >= 10 ? (unsigned)weights : 0;
	f->entries *= 2; /* each edge, at both of its ends */
	if (!fault)
		line_skip(f);
	return fault;
}

/* A line a vertex, an empty one too: its weights, and its neighbours, each with a weight. */
static const char *tenth_read(struct source *f, struct pr_coordinates *out)
{
	const char *fault = tenth_head(f, out);
	for (uint64_t v = 1; v <= out->rows && !fault; v++) {
		uint64_t to;
		while (f->c == '%')
			line_skip(f);
		if (f->c == EOF)
			return "it ends before its last vertex";
		for (unsigned w = 0; w < f->weights; w++)
			if (!value_read(f))
				return "a weight of the vertex is missing";
		while (!fault && !line_ends(f)) {
			if (!number_read(f, &to) || (f->values && !value_read(f)))
				return "not a neighbour";
			if (out->entries == f->entries)
				return "it has more edges than its head says";
			fault = entry_add(f, out, v, to);
			if (fault == no_entry)
				return "not a neighbour";
		}
		if (!fault)
			line_skip(f);
	}
	if (fault)
		return fault;
	if (content_find(f, '%'))
		return "it has more vertices than its head says";
	return out->entries == f->entries ? NULL : "it has fewer edges than its head says";
}

static const struct {
	const char *end;
	const char *(*read)(struct source *f, struct pr_coordinates *out);
} formats[] = {{".mtx", market_read}, {".gr", ninth_read}, {".graph", tenth_read}};
enum { FORMATS = sizeof formats / sizeof *formats };

/* FORMATS: none. */
static unsigned format_of(const char *name)
{
	size_t length = strlen(name);
	for (unsigned i = 0; i < FORMATS; i++) {
		size_t tail = strlen(formats[i].end);
		if (length > tail && strcasecmp(name + length - tail, formats[i].end) == 0)
			return i;
	}
	return FORMATS;
}

bool pr_reader_knows(const char *name)
{
	return format_of(name) != FORMATS;
}

bool pr_reader_parse(FILE *stream, const char *name, struct pr_coordinates *out, char why[256])
{
	struct source f = {.stream = stream, .line = 1};
	const char *fault;
	*out = (struct pr_coordinates){0};
	advance(&f);
	fault = formats[format_of(name)].read(&f, out);
	if (ferror(stream))
		snprintf(why, 256, "%.180s: it cannot be read", name);
	else if (fault)
		snprintf(why, 256, "%.180s: line %" PRIu64 ": %s", name, f.line, fault);
	if (!fault && !ferror(stream))
		return true;
	const uint64_t rows = out->rows;
	pr_coordinates_free(out);
	errno = EINVAL;
	return fault == no_memory && !ferror(stream) ? pr_why_lacks(rows, 2 * f.room, why) : false;
}

bool pr_reader_read(const char *name, struct pr_coordinates *out, char why[256])
{
	FILE *stream = fopen(name, "r");
	*out = (struct pr_coordinates){0};
	if (!stream) {
		snprintf(why, 256, "%.200s: %s", name, strerror(errno));
		return false;
	}
	bool done = pr_reader_parse(stream, name, out, why);
	const int error = errno;
	fclose(stream);
	errno = error;
	return done;
}
