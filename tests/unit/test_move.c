/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes moved past the caches: every offset in a cache line, every length up to some lines. */
#include "copy/move.h"

#include <stdlib.h>
#include <string.h>

#include "../tap.h"

#define LONGEST 400
#define GUARD 64

static unsigned char from[LONGEST + 3 * GUARD],
	to[LONGEST + 3 * GUARD] __attribute__((aligned(64)));

/* Number of bytes that differ from the exact result of moving `size` bytes to `at`. */
static unsigned wrong(size_t at, size_t source, size_t size)
{
	unsigned n = 0;
	memset(to, 0xee, sizeof to);
	gm_move_past_caches(to + at, from + source, size);
	for (size_t i = 0; i < sizeof to; i++)
		n += to[i] != (i >= at && i < at + size ? from[source + i - at] : 0xee);
	return n;
}

static void every_place(void)
{
	unsigned n = 0;
	for (size_t at = GUARD; at < 2 * GUARD; at++)
		for (size_t size = 0; size <= LONGEST; size++)
			n += wrong(at, GUARD + size % 17, size);
	TAP_IS(n, 0, "64 places, 0 to 400 bytes: all are there, and none beside them");
}

static void large(void)
{
	const size_t size = 3000001;
	char *a = malloc(size), *b = malloc(size);
	for (size_t i = 0; i < size; i++)
		a[i] = (char)(i * 7 + i / 251);
	gm_move_past_caches(b, a, size);
	TAP_IS(memcmp(a, b, size), 0, "3,000,001 bytes");
	free(a);
	free(b);
}

int main(void)
{
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (unsigned char)(i * 13 + 1);
	every_place();
	large();
	return tap_done();
}
