/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program.h"

void pr_fail(int status, const char *format, ...)
{
	va_list args;
	fflush(stdout);
	fprintf(stderr, "%s: ", pr_program.name);
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

/* --- values --- */

bool pr_list_has(const struct pr_list *list, uint64_t value)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->value[i] == value)
			return true;
	return false;
}

uint64_t pr_list_most(const struct pr_list *list)
{
	uint64_t most = 0;
	for (unsigned i = 0; i < list->count; i++)
		most = most > list->value[i] ? most : list->value[i];
	return most;
}

/* The factor that a suffix stands for; 0: it is none. */
static uint64_t unit_of(const char *suffix)
{
	static const struct {
		const char *suffix;
		uint64_t factor;
	} units[] = {{"", 1},
		     {"k", 1000},
		     {"K", 1000},
		     {"M", 1000000},
		     {"G", 1000000000},
		     {"T", UINT64_C(1000000000000)},
		     {"Ki", 1u << 10},
		     {"ki", 1u << 10},
		     {"Mi", 1u << 20},
		     {"Gi", 1u << 30},
		     {"Ti", UINT64_C(1) << 40}};
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
		pr_fail(2, "--%s=%.40s: not a number%s", option, text,
			pr_program.numbers ? pr_program.numbers : "");
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

void pr_numbers(const char *option, char *text, uint64_t least, uint64_t most, const char *zero,
		struct pr_list *out)
{
	out->count = 0;
	for (char *one; (one = list_next(option, &text, out)) != NULL;) {
		if (strlen(one) > 31)
			pr_fail(2, "--%s=%.20s...: not a value", option, one);
		out->value[out->count++] =
			zero && strcmp(one, zero) == 0 ? 0 : pr_number(option, one, least, most);
	}
}

uint64_t pr_name(const char *option, const char *text, const char *const *name, unsigned names)
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
		out->value[out->count++] = pr_name(option, one, name, names);
}

/* --- memory --- */

void *pr_host_take(uint64_t count, uint64_t size)
{
	void *block = calloc(count ? count : 1, size);
	if (!block)
		pr_fail(1, "no memory of the host");
	return block;
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
