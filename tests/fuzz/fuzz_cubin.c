/* SPDX-License-Identifier: BSD-3-Clause */
/* A cubin, complete and cut in half. */
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
	/* If half of it shows no call, so does all of it; and PTX is never judged to have none. */
	enum gm_cubin_glance whole = gm_cubin_glance(data, size, &part);
	enum gm_cubin_glance half = gm_cubin_glance(data, size / 2, &part);
	FUZZ_CHECK(half != GM_CUBIN_NONE || whole == GM_CUBIN_NONE);
	FUZZ_CHECK(whole != GM_CUBIN_NONE || part.kind != GM_IMAGE_PTX);
	return 0;
}
