/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of square matrices, or edges of graphs, as files list them; and compressed rows of them.
 */
#ifndef PR_COORDINATES_H
#define PR_COORDINATES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Entry i is at row[i], column[i], both below `rows`, in any order; one may come twice. */
struct pr_coordinates {
	uint64_t rows, entries;
	uint32_t *row, *column;
};

/* Row r has the columns from start[r] to start[r + 1], in order, each once. */
struct pr_rows {
	uint32_t rows;
	uint32_t *start, *column;
};

/* All of these: false, with *why and nothing to free, if the file is wrong, or, with errno ENOMEM,
 * if the host lacks memory; *why then names no file. The caller frees what is made. */

/* False, with that errno. */
bool pr_why_lacks(uint64_t rows, uint64_t entries, char why[256]);

/* Room for `entries`, of which there are none yet. */
bool pr_coordinates_make(struct pr_coordinates *c, uint64_t entries, char why[256]);
void pr_coordinates_free(struct pr_coordinates *c);

/* --- reader.c: files, whose format is the end of their name --- */

/* *.mtx, a square matrix of coordinates in a file of MatrixMarket, of symmetric ones both halves;
 * *.gr, a graph of the ninth DIMACS challenge: "p sp VERTICES ARCS", "a FROM TO LENGTH";
 * *.graph, one of the tenth: "VERTICES EDGES [FORMAT [WEIGHTS]]", a line a vertex. */
bool pr_reader_knows(const char *name);
/* A fault names the file and the line. */
bool pr_reader_read(const char *name, struct pr_coordinates *out, char why[256]);
/* The same of an open file, whose name pr_reader_knows. */
bool pr_reader_parse(FILE *stream, const char *name, struct pr_coordinates *out, char why[256]);

bool pr_rows_make(const struct pr_coordinates *c, struct pr_rows *out, char why[256]);
void pr_rows_free(struct pr_rows *r);

#endif
