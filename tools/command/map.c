/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat map: the addresses of a device's pool in characters, at a moment. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/log/alive.h"
#include "tools/log/logs.h"
#include "tools/log/pieces.h"
#include "tools/output/emit.h"
#include "tools/output/layout.h"

enum { ROWS_DEFAULT = 24, CELL_LEAST = 64 << 10 };

/* The pool of a device at a moment. */
struct state {
	struct gm_pieces pieces; /* chunks are sorted by address */
	uint64_t mapped, lent, used, small;
};

/* The memory that a character stands for, bytes. */
struct cell {
	uint64_t mapped, lent, used, small;
};

struct grid {
	uint64_t unit; /* bytes of a character */
	unsigned columns;
	uint64_t row; /* bytes */
};

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

/* --- the state --- */

static void state_read(struct state *state, struct gm_log_file *file, unsigned device,
		       uint64_t records)
{
	struct gm_log_entry entry;
	gm_log_read_rewind(file);
	for (; records > 0 && gm_log_read_next(file, &entry); records--)
		gm_pieces_follow(&state->pieces, &entry, device);
	for (size_t i = 0; i < state->pieces.chunks.n; i++)
		*(state->pieces.chunks.at[i].lent ? &state->lent : &state->mapped) +=
			state->pieces.chunks.at[i].size;
	for (size_t i = 0; i < state->pieces.blocks.room; i++) {
		const struct gm_blocks_one *block = &state->pieces.blocks.at[i];
		if (!block->id || block->driver)
			continue;
		state->used += block->held;
		state->small += block->held <= GM_PIECES_SMALL_MOST ? block->held : 0;
	}
}

static void state_free(struct state *state)
{
	gm_pieces_free(&state->pieces);
}

/* --- the grid --- */

/* Call `each` once for each row with a chunk, by address. Returns the number of rows. */
static uint64_t rows_walk(const struct state *state, uint64_t row,
			  void (*each)(void *arg, uint64_t address), void *arg)
{
	uint64_t n = 0, next = 0; /* next: the first address behind the rows so far */
	for (size_t i = 0; i < state->pieces.chunks.n; i++) {
		const struct gm_pieces_chunk *chunk = &state->pieces.chunks.at[i];
		if (!chunk->size || chunk->address > UINT64_MAX - row ||
		    chunk->size - 1 > UINT64_MAX - row - chunk->address)
			continue; /* damaged */
		uint64_t at = chunk->address / row * row, last = chunk->address + chunk->size - 1;
		if (at < next)
			at = next;
		if (at > last)
			continue;
		if (!each)
			n += (last - at) / row + 1;
		for (uint64_t a = at; each && a <= last; a += row, n++)
			each(arg, a);
		next = last / row * row + row;
	}
	return n;
}

/* Columns: the largest power of two that fits. Unit: the smallest that needs at most options->rows
 * rows. */
static struct grid grid_make(const struct state *state, const struct gm_options *options)
{
	const unsigned room = options->width - GM_LAYOUT_LABEL;
	const uint64_t most = options->rows == UINT_MAX ? ROWS_DEFAULT : options->rows;
	struct grid grid = {.unit = CELL_LEAST, .columns = 1};
	while (2 * grid.columns <= room)
		grid.columns *= 2;
	for (;; grid.unit *= 2) {
		grid.row = grid.unit * grid.columns;
		/* Chunks far apart need a row each, at any length of a row. */
		if (grid.row >= (uint64_t)1 << 50 || rows_walk(state, grid.row, NULL, NULL) <= most)
			return grid;
	}
}

/* The rows of one device, by address, and the cells of all rows in one array. */
struct rows {
	const struct grid *grid;
	GM_ARRAY(uint64_t) at; /* addresses */
	struct cell *cells;
};

static void row_add(void *arg, uint64_t address)
{
	struct rows *rows = arg;
	if (!gm_array_push(&rows->at, address))
		memory_exhausted();
}

static struct cell *rows_cell(struct rows *rows, uint64_t address)
{
	const struct grid *grid = rows->grid;
	const uint64_t row = address / grid->row * grid->row;
	size_t low = 0, high = rows->at.n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (rows->at.at[middle] < row)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == rows->at.n || rows->at.at[low] != row)
		return NULL; /* a block outside all known chunks: the log lacks its oldest events */
	return &rows->cells[low * grid->columns + (address - row) / grid->unit];
}

enum part { MAPPED, LENT, USED, SMALL };

static void rows_count(struct rows *rows, uint64_t address, uint64_t size, enum part part)
{
	const uint64_t unit = rows->grid->unit;
	while (size > 0) {
		const uint64_t rest = unit - address % unit, n = size < rest ? size : rest;
		struct cell *cell = rows_cell(rows, address);
		if (!cell)
			return;
		uint64_t *const counts[] = {&cell->mapped, &cell->lent, &cell->used, &cell->small};
		*counts[part] += n;
		address += n;
		size -= n;
	}
}

static void rows_make(struct rows *rows, const struct state *state)
{
	rows_walk(state, rows->grid->row, row_add, rows);
	rows->cells = calloc(rows->at.n * rows->grid->columns + 1, sizeof *rows->cells);
	if (!rows->cells)
		memory_exhausted();
	for (size_t i = 0; i < state->pieces.chunks.n; i++) {
		const struct gm_pieces_chunk *chunk = &state->pieces.chunks.at[i];
		rows_count(rows, chunk->address, chunk->size, chunk->lent ? LENT : MAPPED);
	}
	for (size_t i = 0; i < state->pieces.blocks.room; i++) {
		const struct gm_blocks_one *block = &state->pieces.blocks.at[i];
		if (block->id && !block->driver)
			rows_count(rows, block->address, block->held,
				   block->held <= GM_PIECES_SMALL_MOST ? SMALL : USED);
	}
}

static char cell_character(const struct cell *cell)
{
	const uint64_t used = cell->used + cell->small;
	if (cell->lent)
		return 'k';
	if (!cell->mapped)
		return ' ';
	if (!used)
		return '.';
	if (cell->small > cell->used)
		return 's';
	return used >= cell->mapped ? '#' : '+';
}

/* A row in characters, without blanks at its end. Returns `text`. */
static char *row_text(const struct rows *rows, size_t i, char *text)
{
	unsigned n = 0;
	for (unsigned column = 0; column < rows->grid->columns; column++) {
		text[column] = cell_character(&rows->cells[i * rows->grid->columns + column]);
		if (text[column] != ' ')
			n = column + 1;
	}
	text[n] = '\0';
	return text;
}

/* --- output --- */

static char *bytes_text(const struct gm_emit *emit, uint64_t bytes, char *buf, size_t n)
{
	return gm_value_format(GM_BYTES(bytes), emit->options->unit, buf, n);
}

static void rows_show(struct gm_emit *emit, const struct rows *rows)
{
	const struct grid *grid = rows->grid;
	char *text = malloc(grid->columns + 1), label[40], bytes[32];
	if (!text)
		memory_exhausted();
	uint64_t from = rows->at.n ? rows->at.at[0] : 0;
	gm_emit_list(emit, "rows");
	for (size_t i = 0; i < rows->at.n; i++) {
		const uint64_t at = rows->at.at[i];
		if (i > 0 && at - rows->at.at[i - 1] > grid->row) {
			gm_emit_line(emit, "", "%s not mapped; from 0x%" PRIx64,
				     bytes_text(emit, at - rows->at.at[i - 1] - grid->row, bytes,
						sizeof bytes),
				     at);
			from = at;
		}
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "address", GM_COUNT(at));
		gm_emit_value(emit, "cells", GM_TEXT(row_text(rows, i, text)));
		gm_emit_end(emit);
		snprintf(label, sizeof label, "+%s",
			 bytes_text(emit, at - from, bytes, sizeof bytes));
		gm_emit_line(emit, label, "%s", text);
	}
	gm_emit_end(emit);
	free(text);
}

static void state_show(struct gm_emit *emit, const struct state *state)
{
	const struct grid grid = grid_make(state, emit->options);
	struct rows rows = {.grid = &grid};
	char row[32], unit[32];
	rows_make(&rows, state);
	gm_emit_value(emit, "row_bytes", GM_BYTES(grid.row));
	gm_emit_value(emit, "cell_bytes", GM_BYTES(grid.unit));
	if (rows.at.n) /* else all chunks are damaged */
		gm_emit_line(emit, "", "a row is %s, a character %s; from 0x%" PRIx64,
			     bytes_text(emit, grid.row, row, sizeof row),
			     bytes_text(emit, grid.unit, unit, sizeof unit), rows.at.at[0]);
	gm_emit_break(emit);
	rows_show(emit, &rows);
	gm_emit_break(emit);
	gm_emit_line(emit, "", "# in use, + in part, s blocks of up to 64 KiB in slabs, . idle%s",
		     state->lent ? ", k lent to kernels" : "");
	gm_array_free(&rows.at);
	free(rows.cells);
}

static const char *moment_name(const struct gm_figures *f, const struct gm_options *options)
{
	static const char *const names[] = {"peak", "out of memory", "end", ""};
	if (options->at.kind == GM_MOMENT_EXIT && f->about->running)
		return "now";
	return names[options->at.kind];
}

static void figures_show(struct gm_emit *emit, const struct gm_figures *f,
			 const struct state *state, const struct gm_moment *moment)
{
	char when[32], lent[48] = "", text[5][32];
	const uint64_t in_chunks = state->used < state->mapped ? state->used : state->mapped;
	const char *name = moment_name(f, emit->options);
	gm_time_format(gm_figures_at(f, moment->time), when, sizeof when);
	gm_emit_value(emit, "ns", GM_NS(gm_figures_at(f, moment->time)));
	gm_emit_value(emit, "mapped", GM_BYTES(state->mapped));
	gm_emit_value(emit, "handed_out", GM_BYTES(state->used));
	gm_emit_value(emit, "in_slabs", GM_BYTES(state->small));
	gm_emit_value(emit, "lent", GM_BYTES(state->lent));
	if (state->lent)
		snprintf(lent, sizeof lent, "; %s lent to kernels",
			 bytes_text(emit, state->lent, text[4], sizeof *text));
	gm_emit_line(emit, *name ? name : "at", "%s: %s mapped, %s in use (%s in slabs), %s idle%s",
		     when, bytes_text(emit, state->mapped, text[0], sizeof *text),
		     bytes_text(emit, state->used, text[1], sizeof *text),
		     bytes_text(emit, state->small, text[2], sizeof *text),
		     bytes_text(emit, state->mapped - in_chunks, text[3], sizeof *text), lent);
}

static void device_show(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	struct state state = {0};
	struct gm_moment moment;
	char label[32];
	snprintf(label, sizeof label, "device %u", d);
	gm_emit_break(emit);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "ordinal", GM_COUNT(d));
	gm_emit_value(emit, "name", GM_TEXT(f->about->devices[d].name));
	gm_emit_line(emit, label, "%s", f->about->devices[d].name);
	const char *unknown = gm_alive_unknown(f->file, &emit->options->at);
	if (unknown) {
		gm_emit_value(emit, "missing", GM_TEXT(unknown));
		gm_emit_line(emit, "map", "%s", unknown);
	} else if (gm_moment_find(f->file, d, false, &emit->options->at, &moment)) {
		state_read(&state, f->file, d, moment.records);
		figures_show(emit, f, &state, &moment);
		if (!f->about->complete)
			gm_emit_line(emit, "",
				     "the log is not complete: idle memory that was "
				     "mapped before its first record is missing");
		if (state.pieces.chunks.n)
			state_show(emit, &state);
	} else {
		gm_emit_line(emit, "map",
			     emit->options->at.kind == GM_MOMENT_OOM
				     ? "no request to the pool of this device was refused"
				     : "the pool of this device handed out no block");
	}
	state_free(&state);
	gm_emit_end(emit);
}

static void log_show(struct gm_emit *emit, const struct gm_figures *f)
{
	unsigned shown = 0;
	gm_emit_object(emit, NULL);
	gm_logs_head(emit, f);
	gm_emit_list(emit, "devices");
	for (unsigned d = 0; d < f->n_devices; d++) {
		const bool wanted = emit->options->device < 0
					    ? gm_figures_device(f, d, GM_C_map_calls) > 0
					    : (unsigned)emit->options->device == d;
		if (wanted)
			device_show(emit, f, d);
		shown += wanted;
	}
	gm_emit_end(emit);
	if (!shown)
		gm_emit_line(emit, "pool", "never had any memory");
	gm_emit_end(emit);
}

static const char *options_wrong(const struct gm_options *options)
{
	return options->at.range ? "--at: expected a moment, not a range" : NULL;
}

int gm_map_main(const struct gm_command *self, int argc, char **argv)
{
	return gm_logs_main(self, argc, argv, GM_LOGS_EVENTS, options_wrong, log_show);
}
