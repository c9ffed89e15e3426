/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output/layout.h"

#include <string.h>

#include "tools/output/emit.h"

/* NUMBER_LEAST: width of columns of numbers, if there is room, to align tables. SENTENCE_LEAST:
 * room in which sentences are readable. */
enum { GAP = 2, COLUMNS_MOST = 32, WRAP_LEAST = 16, NUMBER_LEAST = 9, SENTENCE_LEAST = 40 };

/* Columns on the terminal: bytes that do not continue a UTF-8 sequence. */
static unsigned text_columns(const char *text, size_t n)
{
	unsigned columns = 0;
	for (size_t i = 0; i < n; i++)
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
	return columns;
}

static void tone_put(FILE *out, const struct gm_options *options, enum gm_tone tone,
		     const char *text, size_t n)
{
	static const char *const begins[] = {[GM_TONE_PLAIN] = "\033[1m",
					     [GM_TONE_WARNING] = "\033[1;33m",
					     [GM_TONE_ERROR] = "\033[1;31m"};
	const bool color = options->color && n > 0;
	fprintf(out, "%s%.*s%s", color ? begins[tone] : "", (int)n, text, color ? "\033[0m" : "");
}

static void spaces_put(FILE *out, unsigned n)
{
	fprintf(out, "%*s", (int)n, "");
}

/* Bytes of `text` that fit in `room` columns: up to a space if one fits. */
static size_t text_fit(const char *text, unsigned room)
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

void gm_layout_wrap(FILE *out, const char *text, unsigned indent, unsigned width)
{
	unsigned room = width > indent + WRAP_LEAST ? width - indent : WRAP_LEAST;
	for (;;) {
		size_t n = text_fit(text, room);
		fprintf(out, "%.*s\n", (int)n, text);
		text += n;
		text += strspn(text, " ");
		if (!*text)
			break;
		spaces_put(out, indent);
	}
}

void gm_layout_line(FILE *out, const struct gm_options *options, unsigned columns,
		    enum gm_tone tone, const char *label, const char *text)
{
	unsigned used = text_columns(label, strlen(label));
	tone_put(out, options, tone, label, strlen(label));
	spaces_put(out, used < columns ? columns - used : 1);
	gm_layout_wrap(out, text, columns, options->width);
}

struct table {
	FILE *out;
	const struct gm_options *options;
	unsigned n, flags[COLUMNS_MOST], width[COLUMNS_MOST];
	unsigned spaces; /* written before the next text only, so no line ends in blanks */
};

/* A part of a table wider than the screen: the first column, and columns [from, to). */
struct part {
	unsigned from, to;
};

static void table_put_spaces(struct table *table)
{
	spaces_put(table->out, table->spaces);
	table->spaces = 0;
}

static void table_put_cell(struct table *table, unsigned column, const char *text, bool title)
{
	size_t n = strlen(text);
	unsigned used = text_columns(text, n), pad = 0;
	bool align_left = table->flags[column] & GM_COLUMN_LEFT;
	if (used < table->width[column])
		pad = table->width[column] - used;
	table->spaces += (column > 0 ? GAP : 0) + (align_left ? 0 : pad);
	if (n > 0)
		table_put_spaces(table);
	if (title)
		tone_put(table->out, table->options, GM_TONE_PLAIN, text, n);
	else
		fputs(text, table->out);
	table->spaces += align_left ? pad : 0;
}

static void table_put_row(struct table *table, struct part part, char *const *cells, bool title)
{
	unsigned at = 0;
	for (unsigned i = 0; i < part.to; i = i ? i + 1 : part.from) {
		if (table->flags[i] & GM_COLUMN_BELOW) {
			if (title)
				continue;
			table->spaces = 0;
			fputs("\n    ", table->out);
			gm_layout_wrap(table->out, cells[i], 4, table->options->width);
			return;
		}
		if (table->flags[i] & GM_COLUMN_WRAP && !title) {
			table->spaces += GAP;
			if (*cells[i])
				table_put_spaces(table);
			table->spaces = 0;
			gm_layout_wrap(table->out, cells[i], at + GAP, table->options->width);
			return;
		}
		table_put_cell(table, i, cells[i], title);
		at += table->width[i] + (i > 0 ? GAP : 0);
	}
	table->spaces = 0;
	putc('\n', table->out);
}

/* Decide a last column with both flags: beside the others if sentences have room there. */
static void table_place_last(struct table *table)
{
	unsigned *last = &table->flags[table->n - 1], others = 0;
	for (unsigned i = 0; i + 1 < table->n; i++)
		others += table->width[i] + GAP;
	if (*last & GM_COLUMN_WRAP && *last & GM_COLUMN_BELOW)
		*last &= others + SENTENCE_LEAST <= table->options->width ? ~GM_COLUMN_BELOW
									  : ~GM_COLUMN_WRAP;
}

/* Widen the columns of a table of figures to a common measure, unless it becomes too wide. */
static void table_align(struct table *table)
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

/* End of the columns from `from` that fit beside the first column; at least one. */
static struct part table_part(const struct table *table, unsigned from)
{
	struct part part = {from, from};
	unsigned sum = table->width[0];
	for (; part.to < table->n; part.to++) {
		const unsigned flags = table->flags[part.to];
		if (flags & GM_COLUMN_BELOW)
			continue;
		sum += GAP + (flags & GM_COLUMN_WRAP ? WRAP_LEAST : table->width[part.to]);
		if (sum > table->options->width && part.to > from)
			break;
	}
	return part;
}

void gm_layout_table(FILE *out, const struct gm_options *options, const unsigned *flags, unsigned n,
		     char *const *cells, size_t count)
{
	struct table table = {.out = out, .options = options, .n = n};
	memcpy(table.flags, flags, n * sizeof *flags);
	for (size_t i = 0; i < count; i++) {
		unsigned columns = text_columns(cells[i], strlen(cells[i]));
		if (columns > table.width[i % n])
			table.width[i % n] = columns;
	}
	table_place_last(&table);
	table_align(&table);
	struct part part = {0, 1};
	do {
		part = table_part(&table, part.to);
		for (size_t row = 0; row + n <= count; row += n)
			table_put_row(&table, part, cells + row, row == 0);
	} while (part.to < n);
}
