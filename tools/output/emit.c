/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output/emit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/size.h"
#include "tools/output/layout.h"
#include "tools/output/pager.h"

static char *size_format_unit(uint64_t bytes, char unit, char *buf, size_t n)
{
	static const char order[] = "BKMG";
	char whole[32];
	unsigned shift = 10 * (unsigned)(strchr(order, unit) - order);
	if (shift == 0) {
		snprintf(buf, n, "%s B", gm_tool_count(bytes, whole, sizeof whole));
		return buf;
	}
	uint64_t tenths =
		(uint64_t)(((unsigned __int128)bytes * 10 + (1ull << shift) / 2) >> shift);
	snprintf(buf, n, "%s.%u %ciB", gm_tool_count(tenths / 10, whole, sizeof whole),
		 (unsigned)(tenths % 10), unit);
	return buf;
}

char *gm_value_format(struct gm_value value, char unit, char *buf, size_t n)
{
	switch (value.kind) {
	case GM_VALUE_NONE:
		snprintf(buf, n, "-");
		break;
	case GM_VALUE_COUNT:
		return gm_tool_count(value.n, buf, n);
	case GM_VALUE_BYTES:
		return unit ? size_format_unit(value.n, unit, buf, n)
			    : gm_size_format(value.n, buf, n);
	case GM_VALUE_RATE:
		gm_size_format(value.n, buf, n);
		strncat(buf, "/s", n - strlen(buf) - 1);
		break;
	case GM_VALUE_NS:
		return gm_time_format(value.n, buf, n);
	case GM_VALUE_PPM:
		snprintf(buf, n, "%.3f", (double)value.n / 1e6);
		break;
	case GM_VALUE_BOOL:
		snprintf(buf, n, "%s", value.n ? "yes" : "no");
		break;
	case GM_VALUE_INT:
		snprintf(buf, n, "%lld", (long long)value.n);
		break;
	case GM_VALUE_TEXT:
		snprintf(buf, n, "%s", value.text ? value.text : "");
		break;
	}
	return buf;
}

/* Length of the UTF-8 sequence at `s`, 0 if it is invalid; *code: its character. */
static unsigned utf8_length(const unsigned char *s, unsigned *code)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	if (n < 2) {
		*code = *s;
		return n;
	}
	*code = *s & (0x7fu >> n);
	for (unsigned i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	bool surrogate = *code >= 0xd800 && *code < 0xe000;
	return *code < least[n] || *code > 0x10ffff || surrogate ? 0 : n;
}

/* Invalid UTF-8 becomes U+FFFD; control characters, C1 included, become \u00XX. In a page < does,
 * too, because HTML ends a <script> at </ and parses it differently after <!--. */
static void json_string(FILE *out, const char *text, bool page)
{
	const unsigned char *s = (const unsigned char *)(text ? text : "");
	putc('"', out);
	while (*s) {
		unsigned code, n = utf8_length(s, &code);
		if (n == 0)
			fputs("\\ufffd", out);
		else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (page && code == '<'))
			fprintf(out, "\\u%04x", code);
		else if (code == '"' || code == '\\')
			fprintf(out, "\\%c", (int)code);
		else
			fwrite(s, 1, n, out);
		s += n ? n : 1;
	}
	putc('"', out);
}

void gm_emit_json_string(FILE *out, const char *text)
{
	json_string(out, text, false);
}

static void json_value(const struct gm_emit *emit, struct gm_value value)
{
	FILE *out = emit->out;
	switch (value.kind) {
	case GM_VALUE_NONE:
		fputs("null", out);
		break;
	case GM_VALUE_COUNT:
	case GM_VALUE_BYTES:
	case GM_VALUE_RATE:
	case GM_VALUE_NS:
		fprintf(out, "%llu", (unsigned long long)value.n);
		break;
	case GM_VALUE_PPM:
		fprintf(out, "%.6g", (double)value.n / 1e6);
		break;
	case GM_VALUE_BOOL:
		fputs(value.n ? "true" : "false", out);
		break;
	case GM_VALUE_INT:
		fprintf(out, "%lld", (long long)value.n);
		break;
	case GM_VALUE_TEXT:
		json_string(out, value.text, emit->page);
		break;
	}
}

static void json_break(const struct gm_emit *emit)
{
	if (!emit->page)
		fprintf(emit->out, "\n%*s", (int)(2 * emit->depth), "");
}

/* Write comma, line break and key before the next value. */
static void json_next(struct gm_emit *emit, const char *key)
{
	if (!emit->first)
		putc(',', emit->out);
	json_break(emit);
	if (key && !(emit->lists >> emit->depth & 1)) {
		json_string(emit->out, key, emit->page);
		fputs(emit->page ? ":" : ": ", emit->out);
	}
	emit->first = false;
}

static void json_open(struct gm_emit *emit, const char *key, bool list)
{
	json_next(emit, key);
	putc(list ? '[' : '{', emit->out);
	emit->depth++;
	emit->lists = (emit->lists & ~(1ull << emit->depth)) | (uint64_t)list << emit->depth;
	emit->first = true;
}

void gm_emit_object(struct gm_emit *emit, const char *key)
{
	if (emit->options->json)
		json_open(emit, key, false);
}

void gm_emit_list(struct gm_emit *emit, const char *key)
{
	if (emit->options->json)
		json_open(emit, key, true);
}

void gm_emit_end(struct gm_emit *emit)
{
	if (!emit->options->json)
		return;
	bool list = emit->lists >> emit->depth & 1;
	emit->depth--;
	if (!emit->first)
		json_break(emit);
	putc(list ? ']' : '}', emit->out);
	emit->first = false;
}

void gm_emit_value(struct gm_emit *emit, const char *key, struct gm_value value)
{
	if (!emit->options->json)
		return;
	json_next(emit, key);
	json_value(emit, value);
}

/* Keep the output until the end: its length decides about the pager. */
static void output_keep(struct gm_emit *emit)
{
	FILE *stream = open_memstream(&emit->paged, &emit->paged_size);
	if (!stream)
		return;
	emit->out = stream;
	emit->paging = true;
}

static void output_show(struct gm_emit *emit)
{
	if (fclose(emit->out) == 0)
		gm_pager_show(emit->paged, emit->paged_size);
	else
		gm_tool_error("out of memory");
	free(emit->paged);
	emit->paging = false;
	emit->out = stdout;
}

static void json_begin(struct gm_emit *emit)
{
	putc('{', emit->out);
	emit->depth = 1;
	gm_emit_value(emit, "schema", GM_COUNT(1));
	gm_emit_value(emit, "version", GM_TEXT(PACKAGE_VERSION));
}

void gm_emit_open(struct gm_emit *emit, FILE *out, const struct gm_options *options)
{
	*emit = (struct gm_emit){
		.out = out, .options = options, .label = GM_LAYOUT_LABEL, .first = true};
	if (out == stdout && !options->no_pager && gm_pager_is_wanted())
		output_keep(emit);
	if (options->json)
		json_begin(emit);
}

void gm_emit_open_page(struct gm_emit *emit, FILE *out, const struct gm_options *options)
{
	*emit = (struct gm_emit){.out = out, .options = options, .page = true, .first = true};
	json_begin(emit);
}

int gm_emit_close(struct gm_emit *emit)
{
	if (emit->options->json)
		fputs(emit->page ? "}" : "\n}\n", emit->out);
	gm_array_free(&emit->cells);
	if (emit->paging)
		output_show(emit);
	return gm_tool_flush();
}

void gm_emit_line(struct gm_emit *emit, const char *label, const char *format, ...)
{
	char text[4096], escaped[4 * sizeof text];
	va_list args;
	if (emit->options->json)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	gm_escape(text, escaped, sizeof escaped);
	gm_layout_line(emit->out, emit->options, emit->label, emit->tone, label, escaped);
}

void gm_emit_plain(struct gm_emit *emit, const char *format, ...)
{
	char *text = NULL, *escaped;
	va_list args;
	if (emit->options->json)
		return;
	va_start(args, format);
	int n = vasprintf(&text, format, args);
	va_end(args);
	escaped = n < 0 ? NULL : malloc(4 * (size_t)n + 1);
	if (!escaped) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	gm_escape(text, escaped, 4 * (size_t)n + 1);
	fprintf(emit->out, "%s\n", escaped);
	free(escaped);
	free(text);
}

void gm_emit_break(struct gm_emit *emit)
{
	if (!emit->options->json)
		putc('\n', emit->out);
}

/* Keep the cells of a text table, escaped, until its end: then the column widths are known. */
static void cell_keep(struct gm_emit *emit, const char *text)
{
	size_t n = 4 * strlen(text) + 1;
	char *cell = malloc(n);
	if (cell)
		gm_escape(text, cell, n);
	if (!cell || !gm_array_push(&emit->cells, cell)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
}

void gm_emit_table(struct gm_emit *emit, const char *key, bool keyed,
		   const struct gm_column *columns, unsigned n)
{
	emit->columns = columns;
	emit->n_columns = n;
	emit->keyed = keyed;
	emit->rows = 0;
	if (emit->options->json) {
		json_open(emit, key, !keyed);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		if (!(columns[i].flags & GM_COLUMN_JSON_ONLY))
			cell_keep(emit, columns[i].title);
}

void gm_emit_row(struct gm_emit *emit, const char *key, const struct gm_value *values)
{
	emit->rows++;
	if (emit->options->json) {
		json_open(emit, key, false);
		for (unsigned i = 0; i < emit->n_columns; i++)
			if (!(emit->columns[i].flags & GM_COLUMN_TEXT_ONLY))
				gm_emit_value(emit, emit->columns[i].key, values[i]);
		gm_emit_end(emit);
		return;
	}
	if (!emit->keyed && emit->rows > emit->options->rows)
		return;
	for (unsigned i = 0; i < emit->n_columns; i++) {
		char number[64];
		if (emit->columns[i].flags & GM_COLUMN_JSON_ONLY)
			continue;
		if (values[i].kind == GM_VALUE_TEXT)
			cell_keep(emit, values[i].text ? values[i].text : "");
		else
			cell_keep(emit, gm_value_format(values[i], emit->options->unit, number,
							sizeof number));
	}
}

void gm_emit_table_end(struct gm_emit *emit)
{
	if (emit->options->json) {
		gm_emit_end(emit);
		return;
	}
	unsigned flags[32], n = 0;
	for (unsigned i = 0; i < emit->n_columns && n < 32; i++)
		if (!(emit->columns[i].flags & GM_COLUMN_JSON_ONLY))
			flags[n++] = emit->columns[i].flags;
	gm_layout_table(emit->out, emit->options, flags, n, emit->cells.at, emit->cells.n);
	for (size_t i = 0; i < emit->cells.n; i++)
		free(emit->cells.at[i]);
	emit->cells.n = 0;
	if (!emit->keyed && emit->rows > emit->options->rows)
		fprintf(emit->out, "... and %u more\n", emit->rows - emit->options->rows);
}
