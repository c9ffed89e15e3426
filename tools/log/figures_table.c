/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "tools/log/figures.h"

const char *gm_figures_fate(uint64_t fate)
{
	static const char *const fates[] = {
		[GM_TABLE_PASSED] = "the driver's own",
		[GM_TABLE_WRAPPED] = "a copy",
		[GM_TABLE_REFUSED] = "modes off",
		[GM_TABLE_ALARMED] = "modes off at a call",
	};
	return fate < sizeof fates / sizeof *fates ? fates[fate] : "?";
}

/* A function has a record at its first call, and one with all calls at the end. What became of the
 * table is the same for all, and grows. */
bool gm_figures_add_table(struct gm_figures *f, const struct gm_record *r)
{
	const char *name = gm_log_read_string(f->file, r->string);
	struct gm_figures_table table = {.name = name ? name : "?",
					 .bytes = r->size,
					 .fate = r->address,
					 .calls = r->held,
					 .entry = r->id};
	for (size_t i = 0; i < f->tables.n; i++) {
		struct gm_figures_table *known = &f->tables.at[i];
		if (strcmp(known->name, table.name) != 0)
			continue;
		table.fate = known->fate = table.fate > known->fate ? table.fate : known->fate;
		if (known->entry != table.entry)
			continue;
		known->calls = table.calls > known->calls ? table.calls : known->calls;
		return true;
	}
	return gm_array_push(&f->tables, table);
}
