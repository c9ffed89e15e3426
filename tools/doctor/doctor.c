/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat doctor: checks whether gpumem can work here. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/doctor.h"
#include "tools/output/emit.h"
#include "tools/tool.h"

static int checks_show(const struct gm_options *options, const struct gm_doctor *doctor)
{
	static const struct gm_column columns[] = {
		{"state", "state", GM_COLUMN_LEFT},
		{"check", "check", GM_COLUMN_LEFT},
		{"text", "", GM_COLUMN_JSON_ONLY},
		{"remedy", "", GM_COLUMN_JSON_ONLY},
		{NULL, "what",
		 GM_COLUMN_LEFT | GM_COLUMN_WRAP | GM_COLUMN_BELOW | GM_COLUMN_TEXT_ONLY},
	};
	static const char *const states[] = {"ok", "warn", "fail"};
	size_t n[3] = {0};
	struct gm_emit emit;
	gm_emit_open(&emit, stdout, options);
	gm_emit_table(&emit, "checks", false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < doctor->checks.n; i++) {
		const struct gm_doctor_check *check = &doctor->checks.at[i];
		char both[sizeof check->text + sizeof check->remedy + 4];
		snprintf(both, sizeof both, "%s.%s%s", check->text, *check->remedy ? " " : "",
			 check->remedy);
		n[check->state]++;
		gm_emit_row(&emit, NULL,
			    (struct gm_value[]){GM_TEXT(states[check->state]), GM_TEXT(check->name),
						GM_TEXT(check->text), GM_TEXT(check->remedy),
						GM_TEXT(both)});
	}
	gm_emit_table_end(&emit);
	gm_emit_value(&emit, "works", GM_BOOL(n[GM_DOCTOR_FAIL] == 0));
	gm_emit_break(&emit);
	if (n[GM_DOCTOR_FAIL])
		gm_emit_line(&emit, "result", "It cannot work here: %zu check%s failed.",
			     n[GM_DOCTOR_FAIL], n[GM_DOCTOR_FAIL] == 1 ? "" : "s");
	else if (n[GM_DOCTOR_WARN])
		gm_emit_line(&emit, "result", "It works here, with %zu restriction%s.",
			     n[GM_DOCTOR_WARN], n[GM_DOCTOR_WARN] == 1 ? "" : "s");
	else
		gm_emit_line(&emit, "result", "It works here.");
	int status = gm_emit_close(&emit);
	return n[GM_DOCTOR_FAIL] ? GM_EXIT_FAILED : status;
}

int gm_doctor_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct gm_doctor doctor = {.pipe = -1};
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	gm_doctor_here(&doctor);
	gm_doctor_child(&doctor, "driver", options.timeout, gm_doctor_driver);
	gm_doctor_logs(&doctor);
	if (first < argc)
		gm_doctor_command(&doctor, argv[first]);
	int status = checks_show(&options, &doctor);
	gm_array_free(&doctor.checks);
	return status;
}
