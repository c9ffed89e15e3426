/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that lacked memory, in the order of time. */
#include "base/size.h"
#include "tools/log/lacked.h"
#include "tools/summary/summary.h"

enum { REFUSALS_SHOWN = 3 };

static void refusal_text(struct gm_emit *emit, const struct gm_figures *f, size_t i)
{
	const struct gm_figures_refusal *r = &f->refusals.at[i];
	char at[32], text[GM_LACKED_TEXT];
	gm_emit_line(emit, i == 0 ? "out of memory" : "", "at %s, device %u: %s",
		     gm_time_format(gm_figures_at(f, r->time), at, sizeof at), r->device,
		     gm_lacked_text(r, text, sizeof text));
}

void gm_summary_refused(struct gm_emit *emit, const struct gm_figures *f)
{
	gm_emit_list(emit, "out_of_memory");
	for (size_t i = 0; i < f->refusals.n; i++) {
		const struct gm_figures_refusal *r = &f->refusals.at[i];
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "ns", GM_NS(gm_figures_at(f, r->time)));
		gm_emit_value(emit, "device", GM_COUNT(r->device));
		gm_summary_pool(emit, &r->sample);
		gm_lacked_show(emit, r);
		gm_emit_end(emit);
		if (i == 0)
			gm_emit_break(emit);
		if (i < REFUSALS_SHOWN)
			refusal_text(emit, f, i);
	}
	gm_emit_end(emit);
	if (f->refusals.n > REFUSALS_SHOWN)
		gm_emit_line(emit, "", "and %zu more", f->refusals.n - REFUSALS_SHOWN);
}
