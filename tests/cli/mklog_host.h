/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixed clock, process and host of mklog. */
#ifndef GM_TESTS_MKLOG_HOST_H
#define GM_TESTS_MKLOG_HOST_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define START ((uint64_t)1000 * 1000000000)
#define START_WALL ((uint64_t)1795262400 * 1000000000)

int clock_gettime(clockid_t id, struct timespec *out); /* without the header's attributes */

static uint64_t passed; /* ns since the start */

int clock_gettime(clockid_t id, struct timespec *out)
{
	uint64_t now = passed + (id == CLOCK_REALTIME ? START_WALL : START);
	*out = (struct timespec){(time_t)(now / 1000000000), (long)(now % 1000000000)};
	return 0;
}

pid_t getpid(void)
{
	return 4711;
}

int gethostname(char *name, size_t n)
{
	return snprintf(name, n, "node7") < (int)n ? 0 : -1;
}

#endif
