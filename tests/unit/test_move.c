/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes moved past the caches: every offset in a cache line, every length up to some lines. Bytes
 * moved by the kernel. */
#include "copy/move.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
	TAP_IS(memcmp(a, b, size), 0, "3,000,001 bytes are copied past the caches");
	free(a);
	free(b);
}

/* --- by the kernel --- */

static void ignore(int signal)
{
	(void)signal;
}

static void handlers(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS};
	for (unsigned i = 0; i < 2; i++) {
		void (*was)(int) = signal(signals[i], SIG_IGN);
		if (was == SIG_DFL)
			TAP_OK(!gm_move_must_check(), "an ignored signal %d has no handler",
			       signals[i]);
		signal(signals[i], ignore);
		TAP_OK(gm_move_must_check(), "a handler of signal %d", signals[i]);
		signal(signals[i], was);
	}
}

static void parts(void)
{
	const struct iovec lines[] = {{from + 3, 100}, {from + 150, 100}, {from + 300, 5}};
	memset(to, 0xee, sizeof to);
	TAP_IS(gm_move_checked(true, lines, 3, to + 1), 0, "the kernel copies three parts");
	TAP_OK(memcmp(to + 1, from + 3, 100) == 0 && memcmp(to + 101, from + 150, 100) == 0 &&
		       memcmp(to + 201, from + 300, 5) == 0 && to[0] == 0xee && to[206] == 0xee,
	       "the three parts lie one behind the other");
	static unsigned char back[sizeof from];
	const struct iovec out[] = {{back + 3, 100}, {back + 150, 100}, {back + 300, 5}};
	TAP_IS(gm_move_checked(false, out, 3, to + 1), 0, "the kernel copies three parts back");
	TAP_OK(memcmp(back + 3, from + 3, 100) == 0 && memcmp(back + 300, from + 300, 5) == 0 &&
		       !back[2] && !back[103] && !back[149] && !back[305],
	       "three parts come back to their places, with no byte beside them");
}

static void rights(void)
{
	const size_t page = 65536; /* a multiple of any page */
	unsigned char *own = calloc(3, page);
	char *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct iovec line = {at, 3 * page};
	TAP_IS(gm_move_checked(false, &line, 1, own), 0, "pages that were never touched");
	memset(at, 1, 3 * page);
	mprotect(at + page, page, PROT_READ);
	TAP_IS(gm_move_checked(true, &line, 1, own), 0, "a page that may be read is read");
	TAP_IS(gm_move_checked(false, &line, 1, own), EFAULT,
	       "a page that may only be read is not written");
	mprotect(at + page, page, PROT_NONE);
	TAP_IS(gm_move_checked(true, &line, 1, own), EFAULT, "a page without rights is not read");
	munmap(at + page, page);
	TAP_IS(gm_move_checked(true, &line, 1, own), EFAULT, "an absent page is not read");
	munmap(at, 3 * page);
	free(own);
}

int main(void)
{
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (unsigned char)(i * 13 + 1);
	every_place();
	large();
	handlers();
	parts();
	rights();
	return tap_done();
}
