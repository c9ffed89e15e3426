/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of the door of residency/door.h for a submission while nothing moves: nanoseconds for
 * gm_door_enter and gm_door_leave, the minimum of ROUNDS rounds of PASSES each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "residency/door.h"

#define ROUNDS 40
#define PASSES 2000000

static CUresult wake(uint64_t since)
{
	(void)since;
	return CUDA_SUCCESS;
}

static double pass_ns(void)
{
	uint64_t least = UINT64_MAX;
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t begin = gm_clock_ns();
		for (unsigned i = 0; i < PASSES; i++) {
			gm_door_enter();
			gm_door_leave();
			__asm__ volatile("" ::: "memory");
		}
		uint64_t took = gm_clock_ns() - begin;
		least = took < least ? took : least;
	}
	return (double)least / PASSES;
}

/* PASSES of one kind, whose instructions tests/bench/door.sh counts: door open|unused N. */
static int passes_make(const char *kind, unsigned n)
{
	if (strcmp(kind, "open") == 0)
		gm_door_begin(wake);
	for (unsigned i = 0; i < n; i++) {
		gm_door_enter();
		gm_door_leave();
		__asm__ volatile("" ::: "memory");
	}
	return 0;
}

int main(int n, char **args)
{
	if (n > 2)
		return passes_make(args[1], (unsigned)atoi(args[2]));
	printf("GPUMEM_SLEEP=0: %.2f ns\n", pass_ns());
	gm_door_begin(wake);
	printf("GPUMEM_SLEEP=1: %.2f ns\n", pass_ns());
	return 0;
}
