/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements for the rules about copies; gpumemstat(1), FINDINGS, has each formula. */
#include "tools/finding/findings.h"

#define P(name) gm_figures_process(f, GM_C_##name)

/* Below these, a change of the program is not worthwhile. */
#define SHORT 100000000u /* ns */
#define FEW 10000u	 /* copies */

static uint64_t pageable_ns(const struct gm_figures *f)
{
	return P(copy_h2d_pageable_ns) + P(copy_d2h_pageable_ns);
}

bool gm_rule_copy_pageable(struct gm_figures *f, struct gm_finding *out)
{
	uint64_t ns = pageable_ns(f);
	uint64_t bytes = P(copy_h2d_pageable_bytes) + P(copy_d2h_pageable_bytes);
	out->value = GM_NS(ns);
	out->of = GM_NS(gm_figures_length(f));
	out->other = GM_RATE(ns ? (uint64_t)((unsigned __int128)bytes * 1000000000u / ns) : 0);
	return ns >= SHORT;
}

bool gm_rule_copy_small(struct gm_figures *f, struct gm_finding *out)
{
	out->value = GM_COUNT(P(copy_small_calls));
	out->of = GM_COUNT(P(copy_h2d_calls) + P(copy_d2h_calls) + P(copy_d2d_calls) +
			   P(copy_peer_calls) + P(copy_other_calls));
	return out->of.n >= FEW;
}

bool gm_rule_copy_waits(struct gm_figures *f, struct gm_finding *out)
{
	uint64_t waited = P(copy_wait_ns), pageable = pageable_ns(f);
	out->value = GM_NS(waited > pageable ? waited - pageable : 0);
	out->of = GM_NS(gm_figures_length(f));
	return out->value.n >= SHORT;
}
