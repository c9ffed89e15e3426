/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a preload for a program that does not use it: one command is started again and again
 * under each of the libraries by turns ("" is none), in an order that changes in each round.
 *
 *     exec ROUNDS LIBRARY... -- COMMAND [ARGUMENT]...
 *
 * Prints a line for each library: the median time from spawn to wait, and the median and quartiles
 * of the difference to the first library in the same round, in microseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIBRARIES_MAX 8
#define ROUNDS_MAX 100000

static double times[LIBRARIES_MAX][ROUNDS_MAX];
static posix_spawn_file_actions_t silent;

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* This process's environment, with LD_PRELOAD set to `library`, or without it. */
static char **environment_with(const char *library)
{
	size_t n = 0, at = 0;
	while (environ[n])
		n++;
	char **out = calloc(n + 2, sizeof *out);
	for (size_t i = 0; out && i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
			out[at++] = environ[i];
	if (!out || (*library && asprintf(&out[at], "LD_PRELOAD=%s", library) < 0)) {
		perror("exec");
		exit(1);
	}
	return out;
}

static double run(char **command, char **environment)
{
	double begin = now_us();
	pid_t child;
	int status;
	int error = posix_spawnp(&child, command[0], &silent, NULL, command, environment);
	if (error || waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "exec: %s: %s\n", command[0], error ? strerror(error) : "failed");
		exit(1);
	}
	return now_us() - begin;
}

static void report(const char *library, unsigned which, unsigned rounds)
{
	static double more[ROUNDS_MAX], all[ROUNDS_MAX];
	for (unsigned i = 0; i < rounds; i++) {
		all[i] = times[which][i];
		more[i] = times[which][i] - times[0][i];
	}
	qsort(all, rounds, sizeof *all, by_value);
	qsort(more, rounds, sizeof *more, by_value);
	printf("%8.1f us  %+7.1f us more (quartiles %+.1f, %+.1f)  %s\n", all[rounds / 2],
	       more[rounds / 2], more[rounds / 4], more[rounds / 4 * 3],
	       *library ? library : "no preload");
}

int main(int argc, char **argv)
{
	char **environments[LIBRARIES_MAX];
	unsigned n = 0, rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	int at = 2;
	for (; at < argc && n < LIBRARIES_MAX && strcmp(argv[at], "--") != 0; at++)
		environments[n++] = environment_with(argv[at]);
	if (!rounds || rounds > ROUNDS_MAX || !n || at + 1 >= argc || strcmp(argv[at], "--") != 0) {
		fprintf(stderr, "usage: exec ROUNDS LIBRARY... -- COMMAND [ARGUMENT]...\n");
		return 2;
	}
	posix_spawn_file_actions_init(&silent);
	posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	for (unsigned i = 0; i < n; i++)
		run(argv + at + 1, environments[i]); /* fills the page cache */
	for (unsigned round = 0; round < rounds; round++)
		for (unsigned i = 0; i < n; i++) {
			unsigned which = (i + round) % n;
			times[which][round] = run(argv + at + 1, environments[which]);
		}
	for (unsigned i = 0; i < n; i++)
		report(argv[2 + i], i, rounds);
	return 0;
}
