/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs with cases: `PROGRAM CASE [show]` runs one of them, on device 0. */
#ifndef GM_TESTS_PRELOAD_CASES_H
#define GM_TESTS_PRELOAD_CASES_H

#include <unistd.h>

#include "program.h"

static bool show; /* also print what differs between the modes of GPUMEM_FREE */
static CUcontext primary;

struct program_case {
	const char *name;
	void (*run)(void);
};

/* The status of the program. */
static int case_run(const struct program_case *cases, size_t n, int argc, char **argv)
{
	show = argc > 2 && strcmp(argv[2], "show") == 0;
	alarm(3600); /* no endless wait */
	MUST(cuInit(0));
	primary = use_device(0);
	for (size_t i = 0; argc > 1 && i < n; i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		cases[i].run();
		return 0;
	}
	printf("usage: %s CASE [show]\n", argv[0]);
	return 2;
}

#endif
