/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_image_part part = {.kind = GM_IMAGE_CUBIN};
	struct gm_image_verdict verdict;
	struct gm_view view = {.at = data, .size = size};
	gm_verdict_begin(&verdict);
	gm_cubin_judge(&view, &part, &verdict);
	fuzz_verdict(&verdict);
	fuzz_symbols(&verdict, data, size);
	FUZZ_CHECK(verdict.answer != GM_IMAGE_YES || size > 64);
	return 0;
}
