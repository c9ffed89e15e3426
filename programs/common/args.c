/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void pr_fail(int status, const char *format, ...)
{
	va_list args;
	fflush(stdout);
	fprintf(stderr, "%s: ", pr_program);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

double pr_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The factor that a suffix stands for; 0: it is none. */
static uint64_t unit_of(const char *suffix)
{
	static const struct {
		const char *suffix;
		uint64_t factor;
	} units[] = {{"", 1},	       {"k", 1000},	 {"M", 1000000},  {"G", 1000000000},
		     {"Ki", 1u << 10}, {"Mi", 1u << 20}, {"Gi", 1u << 30}};
	for (unsigned i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(suffix, units[i].suffix) == 0)
			return units[i].factor;
	return 0;
}

uint64_t pr_number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	uint64_t unit = unit_of(end);
	if (*text < '0' || *text > '9' || !unit)
		pr_fail(2, "--%s=%.40s: not a number", option, text);
	if (errno || value > most / unit || value * unit < least)
		pr_fail(2, "--%s=%.40s: %" PRIu64 " to %" PRIu64 " are possible", option, text,
			least, most);
	return value * unit;
}

/* Cut the next value off; NULL: there is no other one. */
static char *list_next(const char *option, char **rest, const struct pr_list *out)
{
	char *text = *rest, *comma = text ? strchr(text, ',') : NULL;
	*rest = comma ? comma + 1 : NULL;
	if (comma)
		*comma = '\0';
	if (text && out->count == PR_VALUES)
		pr_fail(2, "--%s: more than %d values", option, PR_VALUES);
	return text;
}

void pr_numbers(const char *option, char *text, uint64_t least, uint64_t most, struct pr_list *out)
{
	out->count = 0;
	for (char *one; (one = list_next(option, &text, out)) != NULL;)
		out->value[out->count++] = pr_number(option, one, least, most);
}

static unsigned name_find(const char *option, const char *text, const char *const *name,
			  unsigned names)
{
	char all[256] = "";
	for (unsigned i = 0; i < names; i++) {
		if (strcmp(text, name[i]) == 0)
			return i;
		strncat(all,
			i == 0		? ""
			: i + 1 < names ? ", "
					: " and ",
			sizeof all - 1 - strlen(all));
		strncat(all, name[i], sizeof all - 1 - strlen(all));
	}
	pr_fail(2, "--%s=%.40s: %s are possible", option, text, all);
}

void pr_names(const char *option, char *text, const char *const *name, unsigned names,
	      struct pr_list *out)
{
	out->count = 0;
	for (char *one; (one = list_next(option, &text, out)) != NULL;)
		out->value[out->count++] = name_find(option, one, name, names);
}

void *pr_take(uint64_t bytes)
{
	void *block = NULL;
	cudaError_t error = cudaMalloc(&block, bytes ? bytes : 1);
	if (error != cudaSuccess)
		pr_fail(1, "the device has no %" PRIu64 " bytes: %s", bytes,
			cudaGetErrorString(error));
	return block;
}
