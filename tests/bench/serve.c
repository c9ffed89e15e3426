/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the measured programs: commands, the clock, and the median. */
#include "client.h"

#include <string.h>
#include <time.h>

double bench_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

uint64_t bench_number(const char *word)
{
	char *end;
	uint64_t n = strtoull(word, &end, 10);
	if (*word < '0' || *word > '9' || *end) {
		printf("error %s is no number\n", word);
		exit(1);
	}
	return n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof *values, by_value);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static int obey(const struct bench_command *table, char *line)
{
	char *words[BENCH_WORDS + 1] = {NULL}, *rest = NULL;
	int n = 0;
	for (char *w = strtok_r(line, " \n", &rest); w && n < BENCH_WORDS;
	     w = strtok_r(NULL, " \n", &rest))
		words[n++] = w;
	for (; table->name; table++)
		if (n == table->words + 1 && strcmp(table->name, words[0]) == 0) {
			table->run(words);
			return 0;
		}
	printf("error no such command: %s with %d words\n", n ? words[0] : "", n - 1);
	return 1;
}

int bench_serve(const struct bench_command *table)
{
	char line[4096];
	setvbuf(stdout, NULL, _IOLBF, 0);
	BENCH_MUST(cudaFree(NULL)); /* creates the context */
	printf("ready\n");
	while (fgets(line, sizeof line, stdin))
		if (obey(table, line) != 0)
			return 1;
	return 0;
}
