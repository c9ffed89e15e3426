/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/complete.h"

#include <stdio.h>
#include <string.h>

#include "knob/knob.h"
#include "log/counters.h"
#include "tools/options.h"

/* The kind of the operands of a usage line: the first row with a word of the line. */
static const char *operands_of(const char *arguments)
{
	static const struct {
		const char *word, *operands;
	} kinds[] = {
		{"CSV", "trace"}, {"LOG", "log"},   {"COMMAND", "program"},
		{"OLD", "log"},	  {"FILE", "file"},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strstr(arguments, kinds[i].word))
			return kinds[i].operands;
	return "none";
}

/* The words of a knob, separated by spaces; "-": any text. */
static char *knob_values(const struct gm_knob_info *knob, char *buf, size_t n)
{
	const bool words = knob->type == GM_KNOB_CHOICE || knob->type == GM_KNOB_LIST ||
			   knob->type == GM_KNOB_BYTE || knob->type == GM_KNOB_TIME ||
			   knob->type == GM_KNOB_LEVEL || knob->type == GM_KNOB_TRIM;
	const char *prefix = knob->type == GM_KNOB_LIST ? "@list all none " : "";
	if (knob->type == GM_KNOB_BOOL || knob->type == GM_KNOB_SWITCH)
		snprintf(buf, n, "0 1");
	else if (words && *knob->argument)
		snprintf(buf, n, "%s%s", prefix, knob->argument);
	else
		snprintf(buf, n, "-");
	for (char *p = strchr(buf, '|'); p; p = strchr(p, '|'))
		*p = ' ';
	return buf;
}

int gm_complete_print(const struct gm_command *commands, size_t n)
{
	char values[512];
	for (size_t i = 0; i < n; i++)
		printf("command\t%s\t%s\t%s\n", commands[i].name,
		       operands_of(commands[i].arguments), commands[i].help);
	for (size_t i = 0; i < n; i++)
		gm_options_list(&commands[i]);
	for (unsigned i = 0; i < GM_KNOB_COUNT; i++)
		printf("knob\t%s\t%s\t%s\n", gm_knob_table[i].name,
		       knob_values(&gm_knob_table[i], values, sizeof values),
		       gm_knob_table[i].help);
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		printf("counter\t%s\t%s\n", gm_counter_table[i].name, gm_counter_table[i].help);
	return GM_EXIT_OK;
}
