/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of a command: one sequence of calls writes either text or one JSON object. Lines and
 * breaks exist in text only, single values in JSON only, tables in both. Text is escaped for the
 * terminal, JSON strings for JSON. Not thread-safe; one struct an output.
 */
#ifndef GM_TOOLS_OUTPUT_EMIT_H
#define GM_TOOLS_OUTPUT_EMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/array.h"
#include "tools/options.h"
#include "tools/output/layout.h"

enum gm_value_kind {
	GM_VALUE_NONE, /* "-", null */
	GM_VALUE_COUNT,
	GM_VALUE_BYTES,
	GM_VALUE_RATE, /* bytes a second */
	GM_VALUE_NS,
	GM_VALUE_PPM, /* text and JSON: a ratio, 0 to 1 */
	GM_VALUE_BOOL,
	GM_VALUE_INT,
	GM_VALUE_TEXT /* NULL is ""; must be valid until the end of the table */
};

struct gm_value {
	enum gm_value_kind kind;
	uint64_t n;
	const char *text;
};

#define GM_NONE ((struct gm_value){GM_VALUE_NONE, 0, NULL})
#define GM_COUNT(n) ((struct gm_value){GM_VALUE_COUNT, (n), NULL})
#define GM_BYTES(n) ((struct gm_value){GM_VALUE_BYTES, (n), NULL})
#define GM_RATE(n) ((struct gm_value){GM_VALUE_RATE, (n), NULL})
#define GM_NS(n) ((struct gm_value){GM_VALUE_NS, (n), NULL})
#define GM_PPM(n) ((struct gm_value){GM_VALUE_PPM, (n), NULL})
#define GM_BOOL(b) ((struct gm_value){GM_VALUE_BOOL, (b), NULL})
#define GM_INT(i) ((struct gm_value){GM_VALUE_INT, (uint64_t)(int64_t)(i), NULL})
#define GM_TEXT(s) ((struct gm_value){GM_VALUE_TEXT, 0, (s)})

enum gm_column_flag {
	GM_COLUMN_LEFT = 1,  /* aligned left; else right, as numbers are */
	GM_COLUMN_WRAP = 2,  /* wrapped if too wide; the last column only */
	GM_COLUMN_BELOW = 4, /* on separate lines below the row; the last column only */
	/* With both, wrapped where the screen leaves 40 columns for it, below the row otherwise. */
	GM_COLUMN_TEXT_ONLY = 8,
	GM_COLUMN_JSON_ONLY = 16
};

struct gm_column {
	const char *key, *title;
	unsigned flags;
};

struct gm_emit {
	FILE *out;
	const struct gm_options *options;
	unsigned label;	   /* columns of a label; gm_emit_open: GM_LAYOUT_LABEL */
	enum gm_tone tone; /* of the next lines' labels */
	bool page;	   /* JSON within HTML: on one line, and < as \u003c */
	unsigned depth;	   /* of JSON nesting */
	bool first;	   /* nothing written yet at this depth */
	uint64_t lists;	   /* bit d: a list is open at depth d */
	const struct gm_column *columns;
	unsigned n_columns, rows;
	bool keyed;
	bool paging; /* the output is kept in `paged` until gm_emit_close shows it */
	char *paged;
	size_t paged_size;
	GM_ARRAY(char *) cells; /* of the open table, n_columns a row, the titles first */
};

/* JSON begins with "schema": 1. Output to stdout uses the pager if gm_pager_is_wanted. *emit must
 * not move. open_page: JSON with any text is safe in a <script> of HTML; pre: options->json. */
void gm_emit_open(struct gm_emit *emit, FILE *out, const struct gm_options *options);
void gm_emit_open_page(struct gm_emit *emit, FILE *out, const struct gm_options *options);

/* End the output. GM_EXIT_OK, or GM_EXIT_FAILED after a message: the output is incomplete. */
int gm_emit_close(struct gm_emit *emit);

/* JSON only. `key` is NULL inside a list. */
void gm_emit_object(struct gm_emit *emit, const char *key);
void gm_emit_list(struct gm_emit *emit, const char *key);
void gm_emit_end(struct gm_emit *emit);
void gm_emit_value(struct gm_emit *emit, const char *key, struct gm_value value);

/* Text only: "label        text", wrapped to the width; further lines keep the text's column. */
void gm_emit_line(struct gm_emit *emit, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A line by itself, not wrapped. */
void gm_emit_plain(struct gm_emit *emit, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void gm_emit_break(struct gm_emit *emit);

/*
 * A table: rows with one value a column. JSON: a list of objects under `key`; if `keyed`, an object
 * of objects, with a key from each row. Text shows options->rows rows of a list and counts the
 * others; JSON has all rows.
 */
void gm_emit_table(struct gm_emit *emit, const char *key, bool keyed,
		   const struct gm_column *columns, unsigned n);
void gm_emit_row(struct gm_emit *emit, const char *key, const struct gm_value *values);
void gm_emit_table_end(struct gm_emit *emit);

/* Write a JSON string with quotes: control characters escaped, bad UTF-8 as U+FFFD. */
void gm_emit_json_string(FILE *out, const char *text);

/* The text of a value, unescaped: "3.21 GiB", "1,204,331", "-". Returns `buf`. */
char *gm_value_format(struct gm_value value, char unit, char *buf, size_t n);

#endif
