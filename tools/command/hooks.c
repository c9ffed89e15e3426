/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "tools/output/emit.h"

/* The flags of shim/entry/hooks.h, for the flags column of hooks.def. */
enum { RETRY = 1, WAITS = 2, SUBMITS = 4 };

static const struct hook {
	const char *symbol, *help;
	unsigned flags;
} hooks[] = {
#define GM_HOOK(symbol, type, flags, help) {#symbol, help, flags},
#include "driver/hooks.def"
#undef GM_HOOK
};

static const char *const flag_names[] = {
	"-",	   "RETRY",	    "WAITS",	     "RETRY WAITS",
	"SUBMITS", "RETRY SUBMITS", "WAITS SUBMITS", "RETRY WAITS SUBMITS"};

int gm_hooks_main(const struct gm_command *self, int argc, char **argv)
{
	static const struct gm_column columns[] = {
		{"symbol", "symbol", GM_COLUMN_LEFT},
		{"flags", "flags", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"retry", "", GM_COLUMN_JSON_ONLY},
		{"waits", "", GM_COLUMN_JSON_ONLY},
		{"submits", "", GM_COLUMN_JSON_ONLY},
		{"help", "what the hook does", GM_COLUMN_LEFT | GM_COLUMN_WRAP | GM_COLUMN_BELOW},
	};
	struct gm_options options;
	struct gm_emit emit;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (first < argc)
		return gm_tool_extra(self, argv[first]);
	gm_emit_open(&emit, stdout, &options);
	gm_emit_table(&emit, "hooks", false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
		const struct hook *hook = &hooks[i];
		gm_emit_row(&emit, NULL,
			    (struct gm_value[]){
				    GM_TEXT(hook->symbol), GM_TEXT(flag_names[hook->flags]),
				    GM_BOOL((hook->flags & RETRY) != 0),
				    GM_BOOL((hook->flags & WAITS) != 0),
				    GM_BOOL((hook->flags & SUBMITS) != 0), GM_TEXT(hook->help)});
	}
	gm_emit_table_end(&emit);
	return gm_emit_close(&emit);
}
