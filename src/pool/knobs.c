/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/knobs.h"

#include "base/size.h"

#define HEADROOM_PPM 125000
#define RETIRE_MOST 20 /* a percentage of the live bytes is at most 1/20 of the device */

uint64_t gm_pool_knob_bytes(struct gm_knob_share share, uint64_t total)
{
	return share.ppm ? gm_share_of(total, share.ppm) : share.bytes;
}

void gm_pool_config_knobs(struct gm_pool_config *config, const struct gm_knobs *knobs,
			  uint64_t total)
{
	bool limited = knobs->limit.share.ppm < 1000000;
	/* The pool has whole granules, so a limit between two of them could not be reached. */
	const uint64_t limit = gm_pool_knob_bytes(knobs->limit.share, total);
	const uint64_t least = limit < GM_POOL_GRANULE ? GM_POOL_GRANULE : limit;
	config->limit = limited ? least - least % GM_POOL_GRANULE : UINT64_MAX;
	config->trim_after = knobs->trim_after.trim.after;
	config->keep = gm_pool_knob_bytes(knobs->trim_after.trim.keep, total);
	config->retire_ppm = knobs->retire.share.ppm;
	config->headroom_ppm = HEADROOM_PPM;
	config->retire = config->retire_ppm ? total / RETIRE_MOST : knobs->retire.share.bytes;
}
