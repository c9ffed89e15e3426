/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include <string.h>

#include "emit.h"

/* NUMBER_LEAST: of numbers, where there is room for it, so that tables stand in line. */
enum { GAP = 2, COLUMNS_MOST = 32, WRAP_LEAST = 16, NUMBER_LEAST = 9 };

/* Columns on the terminal: bytes that do not continue a UTF-8 sequence. */
static unsigned columns_of(const char *text, size_t n)
{
	unsigned columns = 0;
	for (size_t i = 0; i < n; i++)
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
	return columns;
}

static void put_bold(FILE *out, const struct gm_options *options, const char *text, size_t n)
{
	const bool bold = options->color && n > 0;
	fprintf(out, "%s%.*s%s", bold ? "\033[1m" : "", (int)n, text, bold ? "\033[0m" : "");
}

static void put_spaces(FILE *out, unsigned n)
{
	fprintf(out, "%*s", (int)n, "");
}

/* How much of `text` fits in `room` columns: up to a space where there is one. */
static size_t fitting(const char *text, unsigned room)
{
	size_t space = 0, i = 0;
	for (unsigned columns = 0; text[i]; i++) {
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
		if (columns > room)
			return space ? space : i;
		if (text[i] == ' ')
			space = i;
	}
	return i;
}

/* Break `text` into lines that begin at column `indent`; the first line is already there. */
static void put_wrapped(FILE *out, const char *text, unsigned indent, unsigned width)
{
	unsigned room = width > indent + WRAP_LEAST ? width - indent : WRAP_LEAST;
	for (;;) {
		size_t n = fitting(text, room);
		fprintf(out, "%.*s\n", (int)n, text);
		text += n;
		text += strspn(text, " ");
		if (!*text)
			break;
		put_spaces(out, indent);
	}
}

void gm_layout_line(FILE *out, const struct gm_options *options, const char *label,
		    const char *text)
{
	unsigned columns = columns_of(label, strlen(label));
	put_bold(out, options, label, strlen(label));
	put_spaces(out, columns < GM_LAYOUT_LABEL ? GM_LAYOUT_LABEL - columns : 1);
	put_wrapped(out, text, GM_LAYOUT_LABEL, options->width);
}

struct table {
	FILE *out;
	const struct gm_options *options;
	const unsigned *flags;
	unsigned n, width[COLUMNS_MOST];
};

static void put_cell(const struct table *table, unsigned column, const char *text, bool title)
{
	size_t n = strlen(text);
	unsigned used = columns_of(text, n), pad = 0;
	bool left = table->flags[column] & GM_COLUMN_LEFT;
	bool last = column + 1 == table->n || table->flags[column + 1] & GM_COLUMN_BELOW;
	if (used < table->width[column])
		pad = table->width[column] - used;
	if (column > 0)
		put_spaces(table->out, GAP);
	if (!left)
		put_spaces(table->out, pad);
	if (title)
		put_bold(table->out, table->options, text, n);
	else
		fputs(text, table->out);
	if (left && !last)
		put_spaces(table->out, pad);
}

static void put_row(const struct table *table, char *const *cells, bool title)
{
	unsigned at = 0;
	for (unsigned i = 0; i < table->n; i++) {
		if (table->flags[i] & GM_COLUMN_BELOW) {
			if (title)
				continue;
			fputs("\n    ", table->out);
			put_wrapped(table->out, cells[i], 4, table->options->width);
			return;
		}
		if (table->flags[i] & GM_COLUMN_WRAP && !title) {
			put_spaces(table->out, GAP);
			put_wrapped(table->out, cells[i], at + GAP, table->options->width);
			return;
		}
		put_cell(table, i, cells[i], title);
		at += table->width[i] + (i > 0 ? GAP : 0);
	}
	putc('\n', table->out);
}

/* Widen the columns of tables of figures to a common measure, or none if that is too much. */
static void line_up(struct table *table)
{
	unsigned wide[COLUMNS_MOST], sum = 0;
	for (unsigned i = 0; i < table->n; i++) {
		const unsigned least = i == 0 ? GM_LAYOUT_LABEL - GAP : NUMBER_LEAST;
		if (table->flags[i] & (GM_COLUMN_WRAP | GM_COLUMN_BELOW))
			return;
		wide[i] = table->width[i] > least ? table->width[i] : least;
		sum += wide[i] + (i > 0 ? GAP : 0);
	}
	if (sum <= table->options->width)
		memcpy(table->width, wide, table->n * sizeof *wide);
}

void gm_layout_table(FILE *out, const struct gm_options *options, const unsigned *flags, unsigned n,
		     char *const *cells, size_t count)
{
	struct table table = {.out = out, .options = options, .flags = flags, .n = n};
	for (size_t i = 0; i < count; i++) {
		unsigned columns = columns_of(cells[i], strlen(cells[i]));
		if (columns > table.width[i % n])
			table.width[i % n] = columns;
	}
	line_up(&table);
	for (size_t row = 0; row + n <= count; row += n)
		put_row(&table, cells + row, row == 0);
}
