/* SPDX-License-Identifier: BSD-3-Clause */
/* The main of all programs. */
#include "program.h"

#include <ctype.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 24, HELP = 256 + ROWS_MOST };

struct pr_asked pr_asked;

static const struct pr_option shared[] = {
	{"repeat", 0, PR_NUMBER, "N", "1", &pr_asked.repeat, 1, 1000000, NULL, "runs of each"},
	{"untimed", 0, PR_FLAG, NULL, NULL, &pr_asked.untimed, 0, 0, NULL,
	 "print only what is the same in every run"},
	{"verify", 0, PR_FLAG, NULL, NULL, &pr_asked.verify, 0, 0, NULL,
	 "compare with the CPU's result; status 1 if one differs"},
};

/* The program's rows, then those of all. Returns how many. */
static unsigned rows_collect(struct pr_option row[ROWS_MOST])
{
	unsigned rows = 0, others = sizeof shared / sizeof *shared - pr_program.verifies;
	for (const struct pr_option *o = pr_program.options; o->name; o++)
		if (rows + others < ROWS_MOST)
			row[rows++] = *o;
		else
			pr_fail(1, "more than %u options", ROWS_MOST - others);
	memcpy(row + rows, shared, others * sizeof *row);
	return rows + others;
}

/* Behind the name of an option: words to column 98, and more lines where they do not fit. */
static void help_text(const struct pr_option *row)
{
	int column = 24;
	char text[512], *rest = text;
	snprintf(text, sizeof text, "%s%s%s%s", row->help, row->standard ? " (" : "",
		 row->standard ? row->standard : "", row->standard ? ")" : "");
	for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
		int length = (int)strlen(word);
		if (column + length > 98) {
			printf("\n%23s", "");
			column = 24;
		}
		printf(" %s", word);
		column += length + 1;
	}
	putchar('\n');
}

static void help_print(const struct pr_option *row, unsigned rows)
{
	printf("Usage: %s [OPTION]...\n%s: %s\n\n", pr_program.name, pr_program.name,
	       pr_program.about);
	for (unsigned i = 0; i < rows; i++) {
		char letter[] = "-x, ", option[64];
		letter[1] = row[i].letter;
		snprintf(option, sizeof option, "  %4s--%s%s%s", row[i].letter ? letter : "",
			 row[i].name, row[i].value ? "=" : "", row[i].value ? row[i].value : "");
		printf("%-23s", option);
		help_text(&row[i]);
	}
	printf("      --help            print this\n\n"
	       "A LIST has up to %d values with commas. k, M, G, T are powers of 1000, Ki, Mi, Gi, "
	       "Ti of 1024.\n"
	       "Each run prints a line of key=value. doc/programs.md says what they mean.\n",
	       PR_VALUES);
	if (pr_program.help)
		pr_program.help();
	exit(fflush(stdout) ? 1 : 0);
}

static void all_set(const struct pr_option *row)
{
	struct pr_list *list = row->out;
	for (list->count = 0; list->count < row->most; list->count++)
		list->value[list->count] = list->count;
}

static void option_set(const struct pr_option *row, char *text)
{
	unsigned names = (unsigned)row->most;
	switch (row->kind) {
	case PR_NUMBER:
		*(uint64_t *)row->out = pr_number(row->name, text, row->least, row->most);
		break;
	case PR_NUMBERS:
		pr_numbers(row->name, text, row->least, row->most, row->names ? *row->names : NULL,
			   row->out);
		break;
	case PR_NAME:
		*(uint64_t *)row->out = pr_name(row->name, text, row->names, names);
		break;
	case PR_NAMES:
		if (row->standard && strcmp(row->standard, "all") == 0 && strcmp(text, "all") == 0)
			all_set(row);
		else
			pr_names(row->name, text, row->names, names, row->out);
		break;
	case PR_TEXT:
		*(const char **)row->out = text;
		break;
	case PR_FLAG:
		*(bool *)row->out = true;
		break;
	}
}

static void standard_set(const struct pr_option *row)
{
	static char text[ROWS_MOST][128]; /* a list is cut up where it is read */
	static unsigned used;
	bool words = strchr(row->standard, ' ') || !isdigit((unsigned char)*row->standard);
	if (row->kind == PR_NUMBER && words)
		return;
	snprintf(text[used], sizeof text[used], "%s", row->standard);
	option_set(row, text[used++]);
}

static void options_read(int argc, char **argv)
{
	struct pr_option row[ROWS_MOST];
	struct option all[ROWS_MOST + 2] = {{0}};
	char letters[2 * ROWS_MOST + 1] = "";
	unsigned rows = rows_collect(row);
	for (unsigned i = 0, n = 0; i < rows; i++) {
		int argument = row[i].value ? required_argument : no_argument;
		all[i] = (struct option){row[i].name, argument, NULL, 256 + (int)i};
		if (row[i].letter) {
			letters[n++] = row[i].letter;
			letters[n++] = ':';
		}
		if (row[i].standard)
			standard_set(&row[i]);
	}
	all[rows] = (struct option){"help", no_argument, NULL, HELP};
	pr_asked.verify = pr_program.verifies;
	for (int option; (option = getopt_long(argc, argv, letters, all, NULL)) != -1;) {
		unsigned i = 0;
		if (option == HELP)
			help_print(row, rows);
		while (i < rows && option != row[i].letter && option != 256 + (int)i)
			i++;
		if (i == rows)
			exit(2); /* getopt_long has said why */
		option_set(&row[i], optarg);
	}
	if (optind < argc)
		pr_fail(2, "%.40s: takes options alone; --help shows them", argv[optind]);
}

int main(int argc, char **argv)
{
	options_read(argc, argv);
	if (pr_program.check)
		pr_program.check();
	const unsigned wrong = pr_program.run();
	if (fflush(stdout) || ferror(stdout))
		pr_fail(1, "standard output cannot be written");
	return wrong ? 1 : 0;
}

/* --- runs --- */

unsigned pr_each(const struct pr_list *values, unsigned (*run)(void *arg, uint64_t value),
		 void *arg)
{
	unsigned wrong = 0;
	for (unsigned v = 0; v < values->count; v++)
		for (uint64_t i = 0; i < pr_asked.repeat; i++)
			wrong += run(arg, values->value[v]);
	return wrong;
}

void pr_line_verified(bool right)
{
	if (pr_asked.verify)
		printf(" verified=%s", right ? "yes" : "no");
}

unsigned pr_line_end(bool right, const char *format, ...)
{
	va_list args;
	putchar('\n');
	fflush(stdout);
	if (right || !pr_asked.verify)
		return 0;
	fprintf(stderr, "%s: ", pr_program.name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return 1;
}
