/* SPDX-License-Identifier: BSD-3-Clause */
/* A cubin, complete and cut in half; the source lines of its sections. */
#include "fuzz.h"

#include "image/lines.h"

static void find_lines(struct gm_view *view)
{
	struct gm_sections sections;
	char file[64];
	uint32_t line;
	if (!gm_sections_open(&sections, view))
		return;
	for (uint64_t text = 1; text < 32; text += 5)
		if (gm_image_line(&sections, text, 64 * text, &line, file, sizeof file))
			FUZZ_CHECK(memchr(file, 0, sizeof file));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_image_part part = {.kind = GM_IMAGE_CUBIN};
	struct gm_image_verdict verdict;
	struct gm_view view = {.at = data, .size = size};
	find_lines(&view);
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
