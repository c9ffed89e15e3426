/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_image_part part = {.kind = GM_IMAGE_PTX};
	struct gm_image_verdict verdict, again;
	struct gm_view view = {.at = data, .size = size};
	gm_verdict_begin(&verdict);
	gm_ptx_judge(&view, &part, &verdict);
	fuzz_verdict(&verdict);
	fuzz_symbols(&verdict, data, size);
	/* The same with a length given only by a terminating 0. */
	char *text = malloc(size + 1);
	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	struct gm_view open = gm_view_of(text, 0);
	gm_verdict_begin(&again);
	gm_ptx_judge(&open, &part, &again);
	FUZZ_CHECK(again.why == verdict.why && again.symbols == verdict.symbols);
	free(text);
	return 0;
}
