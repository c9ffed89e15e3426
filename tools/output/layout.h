/* SPDX-License-Identifier: BSD-3-Clause */
/* Text output: lines wrapped to a width, tables with columns as wide as needed. All strings are
 * already escaped. Single-threaded. */
#ifndef GM_TOOLS_OUTPUT_LAYOUT_H
#define GM_TOOLS_OUTPUT_LAYOUT_H

#include <stdio.h>

#include "tools/options.h"

/* Columns of a label with the space after it: of commands, of the short summary. */
enum { GM_LAYOUT_LABEL = 14, GM_LAYOUT_LABEL_SHORT = 9 };

/* The severity of a label, shown by colour if the output has colours. */
enum gm_tone { GM_TONE_PLAIN, GM_TONE_WARNING, GM_TONE_ERROR };

/* "label         text": the text begins at column `columns`, on further lines too. */
void gm_layout_line(FILE *out, const struct gm_options *options, unsigned columns,
		    enum gm_tone tone, const char *label, const char *text);

/* Print `text` in lines that begin at column `indent`; the first is already indented. */
void gm_layout_wrap(FILE *out, const char *text, unsigned indent, unsigned width);

/* `cells` has `count` strings, `n` a row; the first row has the titles. `flags`: a set of
 * GM_COLUMN_ for each column. */
void gm_layout_table(FILE *out, const struct gm_options *options, const unsigned *flags, unsigned n,
		     char *const *cells, size_t count);

#endif
