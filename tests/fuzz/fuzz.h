/* SPDX-License-Identifier: BSD-3-Clause */
/* What the harnesses share. libFuzzer calls them (make fuzz), and replay.c, with the corpus. */
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

/* What must hold for every input; what fails is an input to keep. */
#define FUZZ_CHECK(x)                                                           \
	do {                                                                    \
		if (!(x)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			abort();                                                \
		}                                                               \
	} while (0)

/* An answer has a reason that belongs to it, and a yes a function that is called. */
static inline void fuzz_verdict(const struct gm_image_verdict *verdict)
{
	FUZZ_CHECK(verdict->why < GM_IMAGE_WHYS && verdict->n_archs <= GM_IMAGE_ARCHS);
	FUZZ_CHECK((verdict->answer == GM_IMAGE_NO) == (verdict->why == GM_IMAGE_WHY_NONE));
	FUZZ_CHECK((verdict->answer == GM_IMAGE_YES) == (verdict->why == GM_IMAGE_WHY_SYMBOL));
	FUZZ_CHECK(verdict->answer != GM_IMAGE_YES || verdict->symbols);
}

/* What is said to be called stands there. */
static inline void fuzz_symbols(const struct gm_image_verdict *verdict, const uint8_t *data,
				size_t size)
{
	for (unsigned i = 0; i < GM_IMAGE_SYMBOLS; i++) {
		const char *name = gm_image_symbol_name((enum gm_image_symbol)i);
		FUZZ_CHECK(!(verdict->symbols >> i & 1) || memmem(data, size, name, strlen(name)));
	}
}

#endif
