/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the harnesses. libFuzzer calls them (make fuzz), and so does replay.c, with the
 * corpus. */
#ifndef GM_TESTS_FUZZ_FUZZ_H
#define GM_TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/cubin.h"
#include "image/judge.h"
#include "image/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Must hold for every input; a failing input is kept. */
#define FUZZ_CHECK(x)                                                           \
	do {                                                                    \
		if (!(x)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			abort();                                                \
		}                                                               \
	} while (0)

/* The reason fits the verdict, and a yes names a called function. */
static inline void fuzz_verdict(const struct gm_image_verdict *verdict)
{
	FUZZ_CHECK(verdict->why < GM_IMAGE_WHYS && verdict->n_archs <= GM_IMAGE_ARCHS);
	FUZZ_CHECK((verdict->answer == GM_IMAGE_NO) == (verdict->why == GM_IMAGE_WHY_NONE));
	FUZZ_CHECK((verdict->answer == GM_IMAGE_YES) == (verdict->why == GM_IMAGE_WHY_SYMBOL));
	FUZZ_CHECK(verdict->answer != GM_IMAGE_YES || verdict->symbols);
}

/* The names of the reported calls occur in the image. */
static inline void fuzz_symbols(const struct gm_image_verdict *verdict, const uint8_t *data,
				size_t size)
{
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++) {
		const char *name = gm_image_symbol_name((enum gm_image_symbol)i);
		FUZZ_CHECK(!(verdict->symbols >> i & 1) || memmem(data, size, name, strlen(name)));
	}
}

#endif
