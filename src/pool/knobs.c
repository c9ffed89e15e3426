/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/knobs.h"

uint64_t gm_pool_knob_bytes(union gm_knob_value value, uint64_t total)
{
	uint32_t ppm = value.share.ppm;
	return ppm ? (uint64_t)((unsigned __int128)total * ppm / 1000000) : value.share.bytes;
}

void gm_pool_config_knobs(struct gm_pool_config *config, const struct gm_knobs *knobs,
			  uint64_t total)
{
	bool limited = knobs->limit.share.ppm < 1000000;
	config->limit = limited ? gm_pool_knob_bytes(knobs->limit, total) : UINT64_MAX;
	config->trim_after = knobs->trim_after.ns;
	config->keep = gm_pool_knob_bytes(knobs->keep, total);
	config->chunk = knobs->chunk.bytes;
	config->retire = gm_pool_knob_bytes(knobs->retire, total);
}
