/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/knobs.h"

/* A size or a percentage of a device. */
static uint64_t share_of(union gm_knob_value value, uint64_t total)
{
	uint32_t ppm = value.share.ppm;
	return ppm ? (uint64_t)((unsigned __int128)total * ppm / 1000000) : value.share.bytes;
}

void gm_pool_config_knobs(struct gm_pool_config *config, const struct gm_knobs *knobs,
			  uint64_t total)
{
	bool limited = knobs->limit.share.ppm < 1000000;
	config->limit = limited ? share_of(knobs->limit, total) : UINT64_MAX;
	config->trim_after = knobs->trim_after.ns;
	config->keep = share_of(knobs->keep, total);
	config->retire = share_of(knobs->retire, total);
}
