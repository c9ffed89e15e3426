/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows the private tables of functions that gpumem does not know, and calls of their functions. */
#include "tools/summary/summary.h"

void gm_summary_tables(struct gm_emit *emit, const struct gm_figures *f)
{
	static const struct gm_column columns[] = {
		{"table", "unknown table", GM_COLUMN_LEFT},
		{"bytes", "bytes", 0},
		{"entry", "function", 0},
		{"calls", "calls", 0},
		{"fate", "handed out", GM_COLUMN_LEFT},
	};
	if (!f->tables.n && !emit->options->json)
		return;
	gm_emit_break(emit);
	gm_emit_table(emit, "tables", false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < f->tables.n; i++) {
		const struct gm_figures_table *t = &f->tables.at[i];
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){GM_TEXT(t->name),
						t->bytes ? GM_COUNT(t->bytes) : GM_NONE,
						t->entry ? GM_COUNT(t->entry) : GM_NONE,
						t->entry ? GM_COUNT(t->calls) : GM_NONE,
						GM_TEXT(gm_figures_fate(t->fate))});
	}
	gm_emit_table_end(emit);
}
