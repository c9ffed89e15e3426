/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of the door of residency/door.h for a submission while nothing moves: nanoseconds for
 * gm_door_enter and gm_door_leave, the minimum of ROUNDS rounds of PASSES each.
 */
#include <stdio.h>

#include "base/clock.h"
#include "residency/door.h"

#define ROUNDS 40
#define PASSES 2000000

static CUresult wake(void)
{
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

int main(void)
{
	printf("GPUMEM_SLEEP=0: %.2f ns\n", pass_ns());
	gm_door_begin(wake);
	printf("GPUMEM_SLEEP=1: %.2f ns\n", pass_ns());
	return 0;
}
