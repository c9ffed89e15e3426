/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for people: lines wrapped to a width, tables with columns as wide as they need be. All
 * strings are escaped already. */
#ifndef GM_TOOLS_LAYOUT_H
#define GM_TOOLS_LAYOUT_H

#include <stdio.h>

#include "options.h"

enum { GM_LAYOUT_LABEL = 14 }; /* columns of a label with the space behind it */

/* "label         text"; further lines stand under the text. */
void gm_layout_line(FILE *out, const struct gm_options *options, const char *label,
		    const char *text);

/* `cells` holds `count` strings, `n` a row, the first row being the titles; `flags` is one
 * GM_COLUMN_ set a column. */
void gm_layout_table(FILE *out, const struct gm_options *options, const unsigned *flags, unsigned n,
		     char *const *cells, size_t count);

#endif
